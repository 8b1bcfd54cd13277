//! The *lookup* fetches what a step's picture needs and the step was recorded without: attention, keys and values of
//! steps that went by at maximum pace.

use std::sync::Arc;

use inferscope_trace::{Attention, KeyValues, Observe, Trace};

/// The step to look back at next, with what to read, so that the picture at `step` becomes complete. None when it is.
pub fn missing(trace: &Trace, step: usize) -> Option<(usize, Observe)> {
    let shown = trace.steps.get(step)?;
    let observe = Observe { attention: shown.attention.is_none(), kv: shown.kv.is_none() };
    if observe != Observe::default() {
        return Some((step, observe));
    }
    // With the cache, a step holds only its own columns: those before it come from the steps before it.
    if !trace.settings.cache {
        return None;
    }
    let lacking = trace.steps[..step].iter().find(|step| step.kv.is_none())?;
    Some((lacking.index, Observe { attention: false, kv: true }))
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
    fn looking_back_fills_in_what_the_picture_needs_and_then_stops() {
        for cache in [true, false] {
            let (full, mut trace) = (trace(3, 4, cache), blind(cache));
            let mut looks = 0;
            while let Some((step, observe)) = missing(&trace, 2) {
                let original = &full.steps[step];
                let attention = original.attention.clone().filter(|_| observe.attention);
                let kv = original.kv.clone().filter(|_| observe.kv);
                merge(&mut trace, step, attention, kv);
                looks += 1;
                assert!(looks < 10, "never satisfied");
            }
            assert_eq!(looks, if cache { 3 } else { 1 });
            assert_eq!(trace.steps[2], full.steps[2]);
            let columns = 0..full.steps[2].end_position();
            assert!(columns.clone().all(|position| trace.key_values(2, position).is_some()));
        }
    }
}
