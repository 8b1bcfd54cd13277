//! The *lookup* fetches what a step's picture needs and the step was recorded without: attention, keys and values of
//! steps that went by at maximum pace.

use std::sync::Arc;

use inferscope_trace::{Attention, KeyValues, Observe, Trace};

/// The looks back, with what to read in each, that make the picture at `step` complete. Its own comes first.
pub fn missing(trace: &Trace, step: usize) -> Vec<(usize, Observe)> {
    let Some(shown) = trace.steps.get(step) else {
        return Vec::new();
    };
    let observe = Observe { attention: shown.attention.is_none(), kv: shown.kv.is_none() };
    let own = (observe != Observe::default()).then_some((step, observe));
    // With the cache, a step holds only its own columns: those before it come from the steps before it.
    let earlier = if trace.settings.cache { &trace.steps[..step] } else { &[] };
    let blind = earlier.iter().filter(|step| step.kv.is_none());
    own.into_iter().chain(blind.map(|step| (step.index, Observe { attention: false, kv: true }))).collect()
}

/// The looks back that complete the attention of every step up to and with `step`.
pub fn missing_attention(trace: &Trace, step: usize) -> Vec<(usize, Observe)> {
    let blind = trace.steps.iter().take(step + 1).filter(|step| step.attention.is_none());
    blind.map(|step| (step.index, Observe { attention: true, kv: false })).collect()
}

/// Puts what was read into the record.
pub fn merge(trace: &mut Trace, step: usize, attention: Option<Attention>, kv: Option<KeyValues>) {
    if let Some(step) = trace.steps.get_mut(step) {
        let step = Arc::make_mut(step);
        step.attention = attention.or(step.attention.take());
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
    fn looking_back_fills_in_what_the_picture_needs_and_no_more() {
        for cache in [true, false] {
            let (full, mut trace) = (trace(3, 4, cache), blind(cache));
            let looks = missing(&trace, 2);
            assert_eq!(looks.len(), if cache { 3 } else { 1 });
            for (step, observe) in looks {
                let original = &full.steps[step];
                let attention = original.attention.clone().filter(|_| observe.attention);
                let kv = original.kv.clone().filter(|_| observe.kv);
                merge(&mut trace, step, attention, kv);
            }
            assert!(missing(&trace, 2).is_empty());
            assert_eq!(trace.steps[2], full.steps[2]);
            assert!((0..full.steps[2].end_position()).all(|position| trace.key_values(2, position).is_some()));
        }
    }
}
