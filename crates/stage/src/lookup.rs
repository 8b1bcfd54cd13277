//! The *lookup* fetches what a step's picture needs and the step was recorded without: attention, keys and values of
//! steps that went by at maximum pace.

use std::sync::Arc;

use inferscope_trace::{Attention, CacheLayout, KeyValues, Observe, Rows, Step, Trace};

/// The looks back, with what to read in each, that make the picture at `step` complete. Its own comes first.
pub fn missing(trace: &Trace, step: usize, focus: Option<usize>) -> Vec<(usize, Observe)> {
    if trace.steps.get(step).is_none() {
        return Vec::new();
    }
    let lacks = |earlier: &Step| {
        let own = earlier.index == step;
        // With the cache, a step holds only its own columns: those before it come from the steps before it.
        // A windowed cache no longer has what it dropped.
        let still_there = !matches!(trace.settings.layout, CacheLayout::Window { .. });
        let kv = earlier.kv.is_none() && (own || trace.settings.cache) && still_there;
        let attention = match focus {
            Some(position) => rows_for(earlier, position),
            None if own => Rows::Last,
            None => Rows::None,
        };
        let here = earlier.attention.as_ref().map_or(0, |attention| attention.queries);
        let attention = if here < attention.count(earlier.positions) { attention } else { Rows::None };
        Observe { attention, kv }
    };
    let looks = trace.steps[..=step].iter().rev().map(|step| (step.index, lacks(step)));
    looks.filter(|(_, observe)| *observe != Observe::default()).collect()
}

/// What a focus on `position` needs of a step: how it attended itself and how what came after it did. Each position's row
/// comes from the step that ran it first, those of the prompt from the prefill.
fn rows_for(step: &Step, position: usize) -> Rows {
    let end = step.end_position();
    match step.index {
        0 if position + 1 < end => Rows::All,
        _ if position < end => Rows::Last,
        _ => Rows::None,
    }
}

/// The looks back that complete the attention of every step up to and with `step`.
pub fn missing_attention(trace: &Trace, step: usize) -> Vec<(usize, Observe)> {
    let blind = trace.steps.iter().take(step + 1).filter(|step| step.attention.is_none());
    blind.map(|step| (step.index, Observe { attention: Rows::Last, kv: false })).collect()
}

/// Puts what was read into the record.
pub fn merge(trace: &mut Trace, step: usize, attention: Option<Attention>, kv: Option<KeyValues>) {
    if let Some(step) = trace.steps.get_mut(step) {
        let step = Arc::make_mut(step);
        // Two looks may be under way at once; the one that saw more counts.
        let had = step.attention.as_ref().map_or(0, |attention| attention.queries);
        if let Some(attention) = attention.filter(|attention| attention.queries >= had) {
            step.attention = Some(attention);
        }
        step.kv = kv.or(step.kv.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    fn blind(cache: bool) -> Trace {
        let mut trace = trace(3, 4, cache);
        for step in &mut trace.steps {
            let step = Arc::make_mut(step);
            (step.attention, step.kv) = (None, None);
        }
        trace
    }

    #[test]
    fn all_steps_so_far_can_be_looked_at() {
        let trace = blind(true);
        let looks: Vec<usize> = missing_attention(&trace, 2).into_iter().map(|(step, _)| step).collect();
        assert_eq!(looks, [0, 1, 2]);
        assert!(missing_attention(&super::super::fixture::trace(3, 4, true), 3).is_empty());
    }

    #[test]
    fn a_focus_needs_every_row_from_its_own_on() {
        let attention = |looks: Vec<(usize, Observe)>| -> Vec<(usize, Rows)> {
            looks.into_iter().map(|(step, observe)| (step, observe.attention)).collect()
        };
        for cache in [true, false] {
            // The fixture recorded the last row of each step: what is lacking is the prompt's.
            let seen = trace(3, 4, cache);
            assert_eq!(attention(missing(&seen, 2, Some(0))), [(0, Rows::All)]);
            assert_eq!(attention(missing(&seen, 2, Some(2))), []);
            let blind = blind(cache);
            let rows = |focus| {
                attention(missing(&blind, 2, Some(focus)))
                    .into_iter()
                    .filter(|look| look.1 != Rows::None)
                    .collect::<Vec<_>>()
            };
            assert_eq!(rows(1), [(2, Rows::Last), (1, Rows::Last), (0, Rows::All)]);
            assert_eq!(rows(3), [(2, Rows::Last), (1, Rows::Last)]);
        }
    }

    #[test]
    fn a_look_that_saw_less_does_not_replace_one_that_saw_more() {
        let mut trace = trace(3, 1, true);
        let less = trace.steps[0].attention.clone().unwrap();
        let more = Attention { queries: 3, weights: vec![1.0 / 3.0; 36], ..less.clone() };
        merge(&mut trace, 0, Some(more.clone()), None);
        merge(&mut trace, 0, Some(less), None);
        assert_eq!(trace.steps[0].attention, Some(more));
    }

    #[test]
    fn looking_back_fills_in_what_the_picture_needs_and_no_more() {
        for cache in [true, false] {
            let (full, mut trace) = (trace(3, 4, cache), blind(cache));
            let looks = missing(&trace, 2, None);
            assert_eq!(looks.len(), if cache { 3 } else { 1 });
            for (step, observe) in looks {
                let original = &full.steps[step];
                let attention = original.attention.clone().filter(|_| observe.attention != Rows::None);
                let kv = original.kv.clone().filter(|_| observe.kv);
                merge(&mut trace, step, attention, kv);
            }
            assert!(missing(&trace, 2, None).is_empty());
            assert_eq!(trace.steps[2], full.steps[2]);
            assert!((0..full.steps[2].end_position()).all(|position| trace.key_values(2, position).is_some()));
        }
    }
}
