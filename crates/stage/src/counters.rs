//! A *counter* is one number about the run up to the moment, with the way it was come by.

use inferscope_trace::{Trace, Work, cache_bytes};

use crate::{Moment, format};

/// How a number was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// By a clock, on this device, in this run.
    Measured,
    /// By a formula from the model's shape and the steps that ran.
    Counted,
}

impl Mark {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Counted => "counted",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    pub id: &'static str,
    pub label: &'static str,
    /// Its entry in the glossary.
    pub term: &'static str,
    /// In the step on screen.
    pub this_step: String,
    /// From the first step to the one on screen.
    pub so_far: String,
    /// The exact number behind `so_far`.
    pub value: f64,
    pub mark: Mark,
    /// Where the number comes from, with this run's numbers put in.
    pub source: String,
}

/// The counters of the steps shown at `moment`; empty before the first.
pub fn counters(trace: &Trace, moment: Moment) -> Vec<Counter> {
    let shown = &trace.steps[..moment.steps_shown().min(trace.steps.len())];
    let Some(step) = shown.last() else {
        return Vec::new();
    };
    let model = &trace.model;
    let sum = |part: fn(&Work) -> u64| shown.iter().map(|step| part(&step.work)).sum::<u64>();
    let counted = |id, label, term, part: fn(&Work) -> u64, write: fn(u64) -> String, source: String| Counter {
        id,
        label,
        term,
        this_step: write(part(&step.work)),
        so_far: write(sum(part)),
        value: sum(part) as f64,
        mark: Mark::Counted,
        source,
    };
    let held = if trace.settings.cache { step.end_position() as u64 } else { 0 };
    let size = cache_bytes(model, held);
    let time: f64 = shown.iter().map(|step| step.milliseconds).sum();
    vec![
        counted("positions", "Positions run", "position", |work| work.positions, format::grouped, {
            let range = match step.positions {
                1 => format!("position {}", step.first_position),
                n => format!("positions {} to {}", step.first_position, step.first_position + n - 1),
            };
            format!("Step {} ran the model for {range}.", step.index)
        }),
        counted("flops", "FLOPs", "flop", |work| work.flops, format::short, {
            format!(
                "Two for each multiplication in a matrix product: about {} for every position (2 × the weights of its \
                 matrices), and more for each pair of positions in attention. Norms and activations are left out.",
                format::short(2 * model.n_layers as u64 * model.layer_matrix_elements())
            )
        }),
        counted("weight_bytes", "Weights read", "weight-streaming", |work| work.weight_bytes, format::bytes, {
            format!(
                "{} weights × 4 bytes, once a step, however many positions the step runs.",
                format::grouped(model.n_parameters())
            )
        }),
        counted("cache_bytes_read", "Cache read", "bandwidth", |work| work.cache_bytes_read, format::bytes, {
            if trace.settings.cache {
                format!("Attention read the keys and values of {} positions in {} layers.", held, model.n_layers)
            } else {
                "Without the cache nothing is kept, so nothing can be read.".into()
            }
        }),
        Counter {
            id: "cache_size",
            label: "Cache size",
            term: "kv-cache",
            this_step: format::bytes(step.work.cache_bytes_written),
            so_far: format::bytes(size),
            value: size as f64,
            mark: Mark::Counted,
            source: format!(
                "2 (key and value) × {} layers × {} KV heads × {} numbers × {} positions × 4 bytes = {} bytes",
                model.n_layers,
                model.n_kv_heads,
                model.head_dim,
                held,
                format::grouped(size)
            ),
        },
        Counter {
            id: "milliseconds",
            label: "Computing time",
            term: "latency",
            this_step: format::milliseconds(step.milliseconds),
            so_far: format::milliseconds(time),
            value: step.milliseconds,
            mark: Mark::Measured,
            source: "By the engine's clock: forward pass, reading back the logits, and drawing the token.".into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    fn value(trace: &Trace, moment: Moment, id: &str) -> f64 {
        counters(trace, moment).into_iter().find(|counter| counter.id == id).unwrap().value
    }

    #[test]
    fn counters_add_up_to_the_moment_and_no_further() {
        let cached = trace(3, 4, true);
        assert_eq!(value(&cached, Moment::end_of(2), "positions"), 5.0);
        assert_eq!(value(&cached, Moment::end_of(2), "cache_size"), (2 * 2 * 2 * 4 * 5) as f64);
        let uncached = trace(3, 4, false);
        assert_eq!(value(&uncached, Moment::end_of(2), "positions"), 12.0);
        assert_eq!(value(&uncached, Moment::end_of(2), "cache_size"), 0.0);
        assert!(counters(&cached, Moment::START).is_empty());
    }
}
