//! *Serving frames* are the pictures of many requests on one model: who runs when, what lies where in the memory, and what it
//! comes to.

use inferscope_trace::{Batching, Memory, Request, RequestId, Sampling, ServingStep, ServingTrace};

use crate::Moment;

pub use inferscope_trace::request_name as name;

/// A queue to begin with: some requests begin alike, their lengths differ, and a few come later.
pub fn usual_queue(sampling: &Sampling) -> Vec<Request> {
    const ALL: [(&str, usize, usize); 8] = [
        ("Once upon a time, there was a brave girl named Zumo. One sunny day", 24, 0),
        ("Once upon a time, there was a brave girl named Zumo. One rainy day", 10, 1),
        ("The little dog", 40, 0),
        ("One windy evening, a small dragon named Tibo", 16, 0),
        ("Once upon a time", 6, 0),
        ("Once upon a time, there was a brave girl named Zumo. She had", 20, 3),
        ("Lily", 30, 4),
        ("There was once a fox who", 12, 6),
    ];
    let request = |(seed, (prompt, max_new_tokens, arrives)): (u32, (&str, usize, usize))| Request {
        prompt: prompt.into(),
        max_new_tokens,
        sampling: sampling.clone(),
        seed,
        arrives,
    };
    (1..).zip(ALL).map(request).collect()
}

/// What one place of the batch did in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub step: usize,
    pub request: RequestId,
    pub positions: usize,
    pub prefill: bool,
    /// The request's last.
    pub last: bool,
}

/// Places of the batch against steps.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleFrame {
    /// Of each place, its turns in the order of steps.
    pub places: Vec<Vec<Turn>>,
    /// Steps recorded, of which `shown` are on screen.
    pub steps: usize,
    pub shown: usize,
    /// Turns of the shown steps in which a place had nobody.
    pub idle: usize,
}

impl ScheduleFrame {
    /// `moment` may be beyond the record's end: then all of it is shown.
    pub fn new(trace: &ServingTrace, moment: Moment) -> Self {
        let shown = shown(trace, moment);
        let mut places = vec![Vec::new(); trace.settings.max_batch];
        for step in shown {
            for ran in &step.ran {
                places[ran.place].push(Turn {
                    step: step.index,
                    request: ran.request,
                    positions: ran.positions,
                    prefill: ran.prefill,
                    last: ran.finish.is_some(),
                });
            }
        }
        let turns: usize = places.iter().map(Vec::len).sum();
        Self { idle: shown.len() * places.len() - turns, places, steps: trace.steps.len(), shown: shown.len() }
    }
}

fn shown(trace: &ServingTrace, moment: Moment) -> &[std::sync::Arc<ServingStep>] {
    &trace.steps[..moment.steps_shown().min(trace.steps.len())]
}

/// One slot of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Free,
    /// Given out, and empty.
    Wasted(RequestId),
    /// Holds the column of a position; how many requests read it.
    Used {
        request: RequestId,
        position: usize,
        readers: usize,
    },
}

/// The memory, slot by slot.
#[derive(Clone, Debug, PartialEq)]
pub struct MapFrame {
    pub slots: Vec<Slot>,
    /// What is drawn as one: blocks, or what is reserved or free between two reservations; the first slot and how many.
    pub spans: Vec<(usize, usize)>,
    /// Blocks that several requests share, and columns saved by it.
    pub shared: usize,
    pub saved: usize,
}

impl MapFrame {
    /// After the step at `moment`; None before the first.
    pub fn new(trace: &ServingTrace, moment: Moment) -> Option<Self> {
        let map = &shown(trace, moment).last()?.memory;
        let mut slots = vec![Slot::Free; map.slots];
        for extent in &map.extents {
            for index in 0..extent.slots {
                let request = extent.owners[0];
                slots[extent.first_slot + index] = if index < extent.used {
                    Slot::Used { request, position: extent.first_position + index, readers: extent.owners.len() }
                } else {
                    Slot::Wasted(request)
                };
            }
        }
        let spans = match trace.settings.memory {
            Memory::Paged { block, .. } => {
                (0..map.slots).step_by(block).map(|first| (first, block.min(map.slots - first))).collect()
            }
            Memory::Reserved => {
                let mut spans = Vec::new();
                let mut end = 0;
                for extent in &map.extents {
                    if extent.first_slot > end {
                        spans.push((end, extent.first_slot - end));
                    }
                    spans.push((extent.first_slot, extent.slots));
                    end = extent.first_slot + extent.slots;
                }
                if end < map.slots {
                    spans.push((end, map.slots - end));
                }
                spans
            }
        };
        let shared = map.extents.iter().filter(|extent| extent.owners.len() > 1).count();
        Some(Self { slots, spans, shared, saved: map.saved_by_sharing() })
    }

    /// What a slot holds, in words.
    pub fn words(&self, trace: &ServingTrace, moment: Moment, slot: usize) -> String {
        let step = shown(trace, moment).last();
        let extent = step.and_then(|step| {
            let holds = |it: &&inferscope_trace::Extent| (it.first_slot..it.first_slot + it.slots).contains(&slot);
            step.memory.extents.iter().find(holds)
        });
        let Some(extent) = extent else { return format!("Slot {slot} is free.") };
        let owners: Vec<String> = extent.owners.iter().map(|&owner| name(owner)).collect();
        let owner = extent.owners[0];
        let tokens: Vec<u32> =
            trace.prompts[owner].iter().copied().chain(trace.generated(owner, moment.steps_shown())).collect();
        let held =
            &tokens[extent.first_position.min(tokens.len())..(extent.first_position + extent.used).min(tokens.len())];
        let what = match trace.settings.memory {
            Memory::Paged { block, .. } => format!("Block {}", extent.first_slot / block),
            Memory::Reserved => format!("Slots {} to {}", extent.first_slot, extent.first_slot + extent.slots - 1),
        };
        let text: String = held.iter().map(|&token| trace.vocabulary.label(token)).collect();
        let who = match &owners[..] {
            [others @ .., last] if !others.is_empty() => {
                format!("is shared by requests {} and {last}", others.join(", "))
            }
            _ => format!("is request {}’s", owners.join("")),
        };
        format!(
            "{what} {who}: {} of {} slots hold the columns of “{}”.",
            extent.used,
            extent.slots,
            crate::format::visible(&text)
        )
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not there yet.
    Later,
    Waiting,
    Running,
    /// Sent back, its columns gone; it waits again.
    SentBack,
    Done,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Later => "comes later",
            Self::Waiting => "waits",
            Self::Running => "runs",
            Self::SentBack => "sent back",
            Self::Done => "done",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    pub request: RequestId,
    pub prompt: String,
    pub text: String,
    pub standing: Standing,
    /// From its arrival until its first token, in steps and in milliseconds of computing.
    pub first_token: Option<(usize, f64)>,
    /// Milliseconds for each token after the first.
    pub per_token: Option<f64>,
    pub tokens: usize,
}

/// Every request as of `moment`.
pub fn request_rows(trace: &ServingTrace, moment: Moment) -> Vec<RequestRow> {
    let shown = shown(trace, moment);
    let mut ends = Vec::new();
    for step in shown {
        ends.push(ends.last().copied().unwrap_or(0.0) + step.milliseconds);
    }
    let before = |step: usize| step.checked_sub(1).and_then(|step| ends.get(step)).copied().unwrap_or(0.0);
    let row = |(request, asked): (RequestId, &Request)| {
        let of = |step: &ServingStep| step.ran.iter().find(|ran| ran.request == request).cloned();
        let written: Vec<usize> = shown
            .iter()
            .filter(|step| of(step).is_some_and(|ran| ran.token.is_some()))
            .map(|step| step.index)
            .collect();
        let done = shown.iter().any(|step| of(step).is_some_and(|ran| ran.finish.is_some()));
        let standing = match shown.last() {
            _ if done => Standing::Done,
            Some(last) if of(last).is_some() => Standing::Running,
            Some(last) if last.waiting.contains(&request) => {
                let sent_back = shown.iter().any(|step| step.preempted.contains(&request));
                if sent_back { Standing::SentBack } else { Standing::Waiting }
            }
            _ => Standing::Later,
        };
        let tokens = trace.generated(request, shown.len());
        RequestRow {
            request,
            prompt: asked.prompt.clone(),
            text: trace.vocabulary.text(trace.prompts[request].last().copied(), &tokens),
            standing,
            first_token: written.first().map(|&step| (step + 1 - asked.arrives, ends[step] - before(asked.arrives))),
            per_token: match written[..] {
                [first, .., last] => Some((ends[last] - ends[first]) / (written.len() - 1) as f64),
                _ => None,
            },
            tokens: tokens.len(),
        }
    };
    trace.requests.iter().enumerate().map(row).collect()
}

/// What the steps on screen come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServingSums {
    pub steps: usize,
    pub tokens: usize,
    pub milliseconds: f64,
    /// Requests that ran side by side, at most and on average.
    pub most: usize,
    pub mean_batch: f64,
    /// Share of the slots given out that hold nothing, over all steps.
    pub waste: f64,
    pub preempted: usize,
    /// Positions that were run, and those that were found computed.
    pub positions: usize,
    pub found: usize,
}

impl ServingSums {
    pub fn of(trace: &ServingTrace, moment: Moment) -> Self {
        let shown = shown(trace, moment);
        let sum = |part: &dyn Fn(&ServingStep) -> usize| shown.iter().map(|step| part(step)).sum::<usize>();
        let given = sum(&|step| step.memory.given_out());
        let busy = shown.iter().filter(|step| !step.ran.is_empty()).count();
        Self {
            steps: shown.len(),
            tokens: sum(&|step| step.ran.iter().filter(|ran| ran.token.is_some()).count()),
            milliseconds: shown.iter().map(|step| step.milliseconds).sum(),
            most: shown.iter().map(|step| step.ran.len()).max().unwrap_or(0),
            mean_batch: sum(&|step| step.ran.len()) as f64 / busy.max(1) as f64,
            waste: if given == 0 { 0.0 } else { sum(&|step| step.memory.wasted()) as f64 / given as f64 },
            preempted: sum(&|step| step.preempted.len()),
            positions: sum(&|step| step.ran.iter().map(|ran| ran.positions).sum()),
            found: sum(&|step| step.shared.iter().map(|(_, positions)| positions).sum()),
        }
    }

    pub fn tokens_per_second(&self) -> Option<f64> {
        (self.milliseconds > 0.0).then(|| self.tokens as f64 / self.milliseconds * 1000.0)
    }
}

/// The other way of giving out memory, to hold a run against.
pub fn other_memory(memory: Memory, block: usize) -> Memory {
    match memory {
        Memory::Reserved => Memory::Paged { block, sharing: true },
        Memory::Paged { .. } => Memory::Reserved,
    }
}

/// The other way of batching.
pub fn other_batching(batching: Batching) -> Batching {
    match batching {
        Batching::Static => Batching::Continuous,
        Batching::Continuous => Batching::Static,
    }
}

#[cfg(test)]
#[path = "serving_tests.rs"]
mod tests;
