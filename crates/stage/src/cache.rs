//! The *cache frame* is the picture of the KV cache: a row a layer, a column a position, and the attention arrows over
//! it. It holds places and states; the numbers inside the cells stay in the trace and are asked for cell by cell.

use inferscope_trace::{CacheLayout, Phase, Trace};

use crate::{
    Focus, Metrics, Moment, Selection,
    format::fixed,
    moment::{Beat, beat_progress},
};

/// How many positions the run on screen is going to need, out of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tokens of the prompt, with BOS.
    pub prompt: usize,
    pub max_new_tokens: usize,
    /// Slots of the cache.
    pub context: usize,
}

impl Plan {
    pub fn of(trace: &Trace) -> Self {
        Self {
            prompt: trace.prompt.tokens.len(),
            max_new_tokens: trace.settings.max_new_tokens,
            context: trace.model.context,
        }
    }

    /// Positions the run will fill if nothing ends it early. The last token drawn is never run, so it needs no slot.
    pub fn positions(&self) -> usize {
        (self.prompt + self.max_new_tokens.saturating_sub(1)).min(self.context)
    }

    /// Steps the run will take if nothing ends it early.
    pub fn steps(&self) -> usize {
        self.max_new_tokens.min((self.context + 1).saturating_sub(self.prompt))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnState {
    Free,
    /// This step computes it; it stays from now on.
    Writing,
    Filled,
    /// Without the cache: this step computed it again, and throws it away.
    Recomputed,
    /// Dropped: the layout keeps the first few and the newest only.
    Evicted,
}

impl ColumnState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Writing => "writing",
            Self::Filled => "filled",
            Self::Recomputed => "recomputed",
            Self::Evicted => "evicted",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub position: usize,
    pub x: f32,
    pub width: f32,
    pub state: ColumnState,
    /// How much of its content is visible, 0 to 1.
    pub presence: f32,
    /// The token at this position; empty while unknown.
    pub label: String,
    /// Beyond what the run can need, drawn narrow.
    pub spare: bool,
    /// The arrows start here.
    pub query: bool,
}

impl Column {
    /// Whether both are drawn alike; how present their cells are is not drawn by elements.
    pub fn looks_like(&self, other: &Self) -> bool {
        let Self { position, x, width, state, presence: _, label, spare, query } = other;
        (self.position, self.x, self.width, self.state) == (*position, *x, *width, *state)
            && (&self.label, self.spare, self.query) == (label, *spare, *query)
    }

    pub fn middle(&self) -> f32 {
        self.x + self.width / 2.0
    }
}

/// `from` looks at `to`, an earlier position or itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    /// Share of the attention of `from`, 0 to 1.
    pub weight: f32,
    /// It leads to the token in focus from a later one.
    pub inward: bool,
    /// SVG path from the one column's label to the other's.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CacheFrame {
    pub columns: Vec<Column>,
    /// Those of the newest position, or of the token in focus: there, to what it looks at and from what looks at it.
    pub arrows: Vec<Arrow>,
    pub focus: Option<Focus>,
    /// Visibility of all arrows, 0 to 1.
    pub arrows_presence: f32,
    /// Columns that the cache holds at this moment.
    pub filled: usize,
    pub n_layers: usize,
    pub width: f32,
    pub height: f32,
}

impl CacheFrame {
    /// `trace` is None before a run: then all slots of `plan` are free.
    pub fn new(
        trace: Option<&Trace>,
        moment: Moment,
        plan: Plan,
        n_layers: usize,
        selection: &Selection,
        metrics: &Metrics,
    ) -> Self {
        let mut columns = place_columns(plan, metrics);
        let step = trace.and_then(|trace| trace.steps.get(moment.step));
        let (mut arrows, mut arrows_presence, mut focus, mut filled) = (Vec::new(), 0.0, None, 0);
        if let (Some(trace), Some(step)) = (trace, step) {
            let fill = beat_progress(step.phase, Beat::Fill, moment.progress);
            let append = beat_progress(step.phase, Beat::Append, moment.progress);
            let complete = match step.phase {
                Phase::Prefill => fill,
                Phase::Decode => append,
            };
            let end = step.end_position();
            let sweep = |position: usize| swept(fill, position - step.first_position, step.positions);
            for column in columns.iter_mut().take(end) {
                let fresh = column.position >= step.first_position;
                (column.state, column.presence) = match (trace.settings.cache, fresh) {
                    (true, false) => (ColumnState::Filled, 1.0),
                    (true, true) if complete >= 1.0 => (ColumnState::Filled, 1.0),
                    (true, true) if fill > 0.0 => (ColumnState::Writing, sweep(column.position)),
                    // What the step before threw away is what this one computes again.
                    (false, _) if fill > 0.0 || moment.step > 0 => (ColumnState::Recomputed, sweep(column.position)),
                    _ => (ColumnState::Free, 0.0),
                };
            }
            if let CacheLayout::Window { sinks, window } = trace.settings.layout {
                // What the next position will not see is gone once this step is complete; before, what this one does not see.
                let next = if complete >= 1.0 { end } else { end - 1 };
                for column in columns.iter_mut().take(end).filter(|column| column.state == ColumnState::Filled) {
                    if column.position >= sinks && column.position + window <= next {
                        (column.state, column.presence) = (ColumnState::Evicted, 0.0);
                    }
                }
            }
            filled = columns.iter().filter(|column| column.state == ColumnState::Filled).count();
            // Tokens known at this moment: the prompt and those drawn so far, the newest once it is appended.
            let drawn = moment.step + usize::from(append > 0.0);
            let known = trace.prompt.tokens.len() + drawn;
            for column in columns.iter_mut().take(known) {
                let token = trace.token_at(column.position);
                column.label = token.map(|id| trace.vocabulary.label(id)).unwrap_or_default();
            }
            arrows_presence = beat_progress(step.phase, Beat::Attend, moment.progress);
            focus = selection.focus.and_then(|it| Focus::new(trace, moment, it, selection));
            let arrow = |from: usize, to: usize, weight: f32| {
                let path = arc(columns.get(from)?, columns.get(to)?, metrics);
                let inward = focus.as_ref().is_some_and(|focus| focus.position != from);
                Some(Arrow { from, to, weight, inward, path })
            };
            if let Some(focus) = &focus {
                let sees = focus.sees.iter().flatten().enumerate();
                let outward = sees.filter_map(|(to, &weight)| arrow(focus.position, to, weight));
                let inward = focus.seen_by.iter().filter_map(|&(from, weight)| arrow(from, focus.position, weight));
                arrows = outward.chain(inward).collect();
                arrows_presence = 1.0;
            } else if arrows_presence > 0.0
                && let Some(attention) = &step.attention
            {
                let weights = attention.mean(end - 1, selection.layer, selection.head).unwrap_or_default();
                let outward = weights.iter().enumerate();
                arrows = outward.filter_map(|(to, &weight)| arrow(end - 1, to, weight)).collect();
            }
            let query = focus.as_ref().map(|it| it.position).or((!arrows.is_empty()).then(|| end - 1));
            if let Some(column) = query.and_then(|query| columns.get_mut(query)) {
                column.query = true;
            }
        }
        let width = columns.last().map_or(metrics.width, |column| column.x + column.width + 1.0);
        let height = metrics.row_top(n_layers) - metrics.row_gap + metrics.ruler_height;
        Self { columns, arrows, focus, arrows_presence, filled, n_layers, width, height }
    }
}

/// How much the sweep's breadth is of the whole movement.
const BREADTH: f32 = 0.5;

/// How visible one of `positions` columns is when the sweep over them has come to `progress`: it runs from left to right,
/// and all are there at its end.
fn swept(progress: f32, index: usize, positions: usize) -> f32 {
    let place = index as f32 / positions.max(1) as f32;
    ((progress - place * (1.0 - BREADTH)) / BREADTH).clamp(0.0, 1.0)
}

/// Columns that the run may fill share the width; the cache's remaining slots stand narrow beside them, so that its
/// whole capacity can be seen.
fn place_columns(plan: Plan, metrics: &Metrics) -> Vec<Column> {
    let planned = plan.positions();
    let spare = plan.context - planned;
    let spare_width =
        if spare == 0 { 0.0 } else { (metrics.width * metrics.spare_share / spare as f32).clamp(1.0, 4.0) };
    let room = metrics.width - spare as f32 * spare_width - 1.0;
    let width = (room / planned.max(1) as f32).max(metrics.min_column).min(metrics.max_column);
    let mut x = 0.0;
    (0..plan.context)
        .map(|position| {
            let spare = position >= planned;
            let width = if spare { spare_width } else { width };
            let column = Column {
                position,
                x,
                width,
                state: ColumnState::Free,
                presence: 0.0,
                label: String::new(),
                spare,
                query: false,
            };
            x += width;
            column
        })
        .collect()
}

/// An arc from one column's label to another's; it rises with the distance. To itself it is a small loop.
fn arc(from: &Column, to: &Column, metrics: &Metrics) -> String {
    let floor = metrics.arrows_height - 3.0;
    let (x0, x1) = (from.middle(), to.middle());
    let distance = (x0 - x1).abs();
    if distance < 0.5 {
        let (left, right, top) = (x0 - 5.0, x0 + 5.0, floor - 18.0);
        let [x0, floor, right, top, left] = [x0, floor, right, top, left].map(|it| fixed(f64::from(it), 1));
        return format!("M{x0} {floor} C{right} {top} {left} {top} {x0} {floor}");
    }
    // A cubic's top is at 3/4 of its handles' height.
    let top = floor - (14.0 + distance * 0.4).min(metrics.arrows_height - 10.0) / 0.75;
    let [x0, floor, top, x1] = [x0, floor, top, x1].map(|it| fixed(f64::from(it), 1));
    format!("M{x0} {floor} C{x0} {top} {x1} {top} {x1} {floor}")
}

/// One KV head's part of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadNumbers {
    /// The query heads that read it, from the first to the last.
    pub query_heads: (usize, usize),
    /// Euclidean lengths.
    pub key_norm: f32,
    pub value_norm: f32,
    /// `[head_dim]`.
    pub key: Vec<f32>,
    pub value: Vec<f32>,
}

/// Everything that the cache holds for one layer and position.
#[derive(Clone, Debug, PartialEq)]
pub struct CellDetails {
    pub layer: usize,
    pub position: usize,
    pub token: String,
    /// One entry a KV head.
    pub heads: Vec<HeadNumbers>,
    pub bytes: u64,
}

/// The cell's numbers as of `moment`, or None where nothing was looked at.
pub fn cell_details(trace: &Trace, moment: Moment, layer: usize, position: usize) -> Option<CellDetails> {
    let kv = trace.key_values(moment.step, position)?;
    let (key, value) = (kv.key(layer, position)?, kv.value(layer, position)?);
    let group = trace.model.group_size();
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let heads = key
        .chunks(kv.head_dim)
        .zip(value.chunks(kv.head_dim))
        .enumerate()
        .map(|(head, (key, value))| HeadNumbers {
            query_heads: (head * group, (head + 1) * group - 1),
            key_norm: norm(key),
            value_norm: norm(value),
            key: key.to_vec(),
            value: value.to_vec(),
        })
        .collect();
    let token = trace.token_at(position).map(|id| trace.vocabulary.label(id)).unwrap_or_default();
    let bytes = inferscope_trace::cache_bytes(&trace.model, 1) / trace.model.n_layers as u64;
    Some(CellDetails { layer, position, token, heads, bytes })
}

/// The cell as a small picture: `(key, value)`, each `[head_dim, kv head]` in −1 ..= 1, relative to the largest number
/// of that layer in the prefill, so that colours mean the same from the first step to the last.
pub fn cell_pixels(trace: &Trace, moment: Moment, layer: usize, position: usize) -> Option<(Vec<f32>, Vec<f32>)> {
    let kv = trace.key_values(moment.step, position)?;
    let scale_from = trace.key_values(0, 0).unwrap_or(kv);
    let picture = |part: &[f32], scale: f32| {
        let mut pixels = vec![0.0; part.len()];
        for (index, value) in part.iter().enumerate() {
            let (head, dim) = (index / kv.head_dim, index % kv.head_dim);
            pixels[dim * kv.n_kv_heads + head] = (value / scale).clamp(-1.0, 1.0);
        }
        pixels
    };
    let largest = |numbers: &[f32]| {
        let width = scale_from.positions * scale_from.n_kv_heads * scale_from.head_dim;
        numbers[layer * width..(layer + 1) * width].iter().fold(1e-6f32, |max, value| max.max(value.abs()))
    };
    let key = picture(kv.key(layer, position)?, largest(&scale_from.keys));
    let value = picture(kv.value(layer, position)?, largest(&scale_from.values));
    Some((key, value))
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
