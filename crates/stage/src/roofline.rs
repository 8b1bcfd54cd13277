//! The *roofline frame* is a chart of what limits a step: FLOP for each byte it must move (along) against FLOP a second (up),
//! both logarithmic, under the two limits of an accelerator: its memory and its arithmetic (Williams, Waterman and Patterson
//! 2009, "Roofline: An Insightful Visual Performance Model for Multicore Architectures").
//!
//! Everything in it is counted from published shapes and rates, or from the steps of the run on screen.

use inferscope_trace::{Phase, Trace};

use crate::facts::{Part, Published};

/// What the reader has set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    pub model: &'static Published,
    pub part: Part,
    /// Bytes of a weight. Arithmetic is in bf16 whatever the weights are kept in.
    pub weight_bytes: f64,
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Sequences that decode side by side.
    pub batch: u64,
}

/// Bytes of a number in the cache: bf16.
const CACHE_BYTES: f64 = 2.0;

/// What one pass must do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub flops: f64,
    /// Weights once, whatever the pass runs; the cache of each of its sequences.
    pub weight_bytes: f64,
    pub cache_bytes: f64,
}

impl Demand {
    /// FLOP for each byte.
    pub fn intensity(&self) -> f64 {
        self.flops / (self.weight_bytes + self.cache_bytes)
    }

    /// The least time that a part can take for it, in seconds: whichever of arithmetic and memory is slower, with the other
    /// hidden behind it.
    pub fn seconds(&self, part: &Part) -> f64 {
        (self.flops / part.peak()).max((self.weight_bytes + self.cache_bytes) / part.bandwidth())
    }

    pub fn bound(&self, part: &Part) -> Bound {
        if self.intensity() < part.ridge() { Bound::Memory } else { Bound::Arithmetic }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Memory,
    Arithmetic,
}

impl Workload {
    /// A prefill of the whole prompt: FLOPs are two for each multiplication of a position with the layers' matrices and of
    /// each pair of positions in attention (q·k and weight·v), and the output matrix for the last position.
    pub fn prefill(&self) -> Demand {
        self.pass(1, self.prompt, 0)
    }

    /// A decode step of all sequences, each `prompt` tokens long.
    pub fn decode(&self) -> Demand {
        self.pass(self.batch, 1, self.prompt)
    }

    /// `sequences` times `positions` new positions after `before` others that are in the cache.
    fn pass(&self, sequences: u64, positions: u64, before: u64) -> Demand {
        let model = self.model;
        let matrices = model.matrix_elements().unwrap_or((model.active.unwrap_or(model.parameters) * 1e9) as u64);
        let (n, end) = (positions, before + positions);
        // The sum of min(keys, window) over the new positions, the first of which has `before` + 1 keys.
        let up_to = |last: u64, window: u64| {
            let growing = last.min(window);
            growing * (growing + 1) / 2 + (last - growing) * window
        };
        let pairs = |window: u64| up_to(end, window) - up_to(before, window);
        let (full, local) = model.layers();
        let window = match model.attention {
            crate::facts::Attention::Windowed { window, .. } => window,
            _ => end,
        };
        let scores = full * pairs(end) + local * pairs(window);
        let attention = 2 * scores * model.n_heads * model.head_dim;
        let multiplications = n * matrices + attention + model.output_elements();
        Demand {
            flops: 2.0 * (sequences * multiplications) as f64,
            weight_bytes: (matrices + model.output_elements()) as f64 * self.weight_bytes,
            cache_bytes: (sequences * model.cache_numbers(end)) as f64 * CACHE_BYTES,
        }
    }
}

/// One mark in the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    pub id: &'static str,
    pub label: String,
    /// FLOP per byte, and FLOP a second. For the chosen part the second is the most that is possible; for the run on screen
    /// it was measured.
    pub intensity: f64,
    pub rate: f64,
    pub bound: Option<Bound>,
    /// For a pass, in seconds: the least possible, or measured.
    pub seconds: f64,
    /// Place in the unit square of the chart, from its left and from its top.
    pub x: f64,
    pub y: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RooflineFrame {
    /// The limits as points of the unit square: where the slope begins, the ridge, and where the flat ends.
    pub roof: [(f64, f64); 3],
    pub ridge: f64,
    /// Prefill and decode of the workload.
    pub spots: Vec<Spot>,
    /// Of the run on screen: its prefill and its middle decode step.
    pub run: Vec<Spot>,
    /// Powers of ten along and up, with their places.
    pub along: Vec<(f64, i32)>,
    pub up: Vec<(f64, i32)>,
}

/// The chart shows 10^-1 to 10^4 FLOP per byte.
const ALONG: (i32, i32) = (-1, 4);

impl RooflineFrame {
    pub fn new(workload: &Workload, trace: Option<&Trace>) -> Self {
        let part = &workload.part;
        let measured = trace.map(measured).unwrap_or_default();
        let lowest = measured.iter().map(|(_, _, rate, _)| *rate).fold(part.bandwidth() / 10.0, f64::min);
        let up = (lowest.log10().floor() as i32, (part.peak() * 1.5).log10().ceil() as i32);
        let x = |intensity: f64| unit(intensity, ALONG);
        let y = |rate: f64| 1.0 - unit(rate, up);
        let left = 10f64.powi(ALONG.0);
        let spot = |id, label, demand: Demand| {
            let seconds = demand.seconds(part);
            let (intensity, rate) = (demand.intensity(), demand.flops / seconds);
            let bound = Some(demand.bound(part));
            Spot { id, label, intensity, rate, bound, seconds, x: x(intensity), y: y(rate) }
        };
        let prefill = match workload.prompt {
            1 => "prefill, 1 token".to_string(),
            n => format!("prefill, {} tokens", crate::format::grouped(n)),
        };
        let decode = match workload.batch {
            1 => "decode, one sequence".to_string(),
            n => format!("decode, {} sequences", crate::format::grouped(n)),
        };
        let spots = vec![spot("prefill", prefill, workload.prefill()), spot("decode", decode, workload.decode())];
        let run = measured.into_iter().map(|(id, intensity, rate, seconds)| Spot {
            id,
            label: if id == "run-prefill" { "this run’s prefill" } else { "this run’s decode" }.into(),
            intensity,
            rate,
            bound: None,
            seconds,
            x: x(intensity),
            y: y(rate),
        });
        Self {
            roof: [(x(left), y(left * part.bandwidth())), (x(part.ridge()), y(part.peak())), (1.0, y(part.peak()))],
            ridge: part.ridge(),
            spots,
            run: run.collect(),
            along: (ALONG.0..=ALONG.1).map(|power| (unit(10f64.powi(power), ALONG), power)).collect(),
            up: (up.0..=up.1).map(|power| (1.0 - unit(10f64.powi(power), up), power)).collect(),
        }
    }
}

fn unit(value: f64, (from, to): (i32, i32)) -> f64 {
    ((value.log10() - f64::from(from)) / f64::from(to - from)).clamp(0.0, 1.0)
}

/// FLOP per byte (counted) and FLOP a second (counted work by measured time) of the prefill and the middle decode step.
fn measured(trace: &Trace) -> Vec<(&'static str, f64, f64, f64)> {
    let decode: Vec<_> = trace.steps.iter().filter(|step| step.phase == Phase::Decode).collect();
    let chosen = [("run-prefill", trace.steps.first()), ("run-decode", decode.get(decode.len() / 2).copied())];
    chosen
        .into_iter()
        .filter_map(|(id, step)| {
            let (step, seconds) =
                step.map(|step| (step, step.milliseconds / 1000.0)).filter(|(_, time)| *time > 0.0)?;
            let bytes = step.work.weight_bytes + step.work.cache_bytes_read;
            Some((id, step.work.flops as f64 / bytes as f64, step.work.flops as f64 / seconds, seconds))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        facts::{MODELS, PARTS, model, part},
        fixture::trace,
    };

    fn workload(prompt: u64, batch: u64) -> Workload {
        Workload { model: model("llama3-70b").unwrap(), part: *part("h100").unwrap(), weight_bytes: 2.0, prompt, batch }
    }

    #[test]
    fn flops_are_those_of_a_plain_count() {
        for id in ["llama3-8b", "gemma3-27b", "gpt2"] {
            let published = model(id).unwrap();
            let (full, local) = published.layers();
            let window = if id == "gemma3-27b" { 1024 } else { u64::MAX };
            for (prompt, batch) in [(1, 1), (7, 3), (1500, 2)] {
                let load = Workload { model: published, ..workload(prompt, batch) };
                // Each position with the matrices, each query with the keys it sees, twice (q·k and weight·v), in every head.
                let keys = |position: u64| full * (position + 1) + local * (position + 1).min(window);
                let of = |positions: std::ops::Range<u64>| -> u64 {
                    let scores: u64 = positions.clone().map(keys).sum();
                    let matrices = (positions.end - positions.start) * published.matrix_elements().unwrap();
                    2 * (matrices + 2 * scores * published.n_heads * published.head_dim + published.output_elements())
                };
                assert_eq!(load.prefill().flops, of(0..prompt) as f64, "{id}, prefill of {prompt}");
                assert_eq!(load.decode().flops, (batch * of(prompt..prompt + 1)) as f64, "{id}, decode after {prompt}");
            }
        }
    }

    #[test]
    fn decode_alone_stays_near_one_flop_per_byte() {
        let intensity = workload(512, 1).decode().intensity();
        assert!((0.95..1.05).contains(&intensity), "{intensity}");
        // int8 weights move half the bytes.
        let eight_bits = Workload { weight_bytes: 1.0, ..workload(512, 1) };
        assert!((1.9..2.1).contains(&eight_bits.decode().intensity()));
    }

    #[test]
    fn a_prefill_passes_the_ridge_at_about_as_many_tokens_as_the_ridge_is_high() {
        let passes = |tokens| workload(tokens, 1).prefill().bound(part("h100").unwrap()) == Bound::Arithmetic;
        assert!(!passes(270) && passes(330));
        // It does about as many times the work of a decode step as it has tokens, for the same weights.
        let (prefill, decode) = (workload(100, 1).prefill(), workload(100, 1).decode());
        assert_eq!(prefill.weight_bytes, decode.weight_bytes);
        assert!((90.0..105.0).contains(&(prefill.flops / decode.flops)));
    }

    #[test]
    fn batching_is_worth_as_much_until_the_caches_weigh_in() {
        let one = workload(16, 1).decode().intensity();
        let many = workload(16, 64).decode().intensity();
        assert!((0.9..1.0).contains(&(many / one / 64.0)));
        // Caches are not shared: with long ones the intensity levels off.
        let long = [64, 4096].map(|batch| workload(32_768, batch).decode().intensity());
        assert!(long[1] < 1.7 * long[0], "{long:?}");
    }

    #[test]
    fn a_decode_step_can_not_be_faster_than_its_weights_are_read() {
        for (id, milliseconds) in [("h100", 42.0), ("h200", 29.0), ("b200", 17.6)] {
            let load = Workload { part: *part(id).unwrap(), ..workload(1, 1) };
            let floor = load.decode().seconds(&load.part) * 1000.0;
            // The published floor counts the embedding as well, which a step does not read.
            assert!((floor / milliseconds - 1.0).abs() < 0.03, "{id}: {floor}");
        }
    }

    #[test]
    fn everything_stays_in_the_chart_and_spots_stand_under_the_roof() {
        for model in MODELS {
            for part in PARTS {
                for (prompt, batch, weight_bytes) in [(1, 1, 4.0), (300, 32, 2.0), (131_072, 1024, 0.5)] {
                    let workload = Workload { model, part: *part, weight_bytes, prompt, batch };
                    let frame = RooflineFrame::new(&workload, Some(&trace(3, 4, true)));
                    for spot in frame.spots.iter().chain(&frame.run) {
                        assert!((0.0..=1.0).contains(&spot.x) && (0.0..=1.0).contains(&spot.y), "{spot:?}");
                        assert!(spot.intensity.is_finite() && spot.rate.is_finite() && spot.seconds > 0.0);
                    }
                    for spot in &frame.spots {
                        let roof = (spot.intensity * part.bandwidth()).min(part.peak());
                        assert!((spot.rate / roof - 1.0).abs() < 1e-9, "{} on {}", model.id, part.id);
                    }
                    assert_eq!(frame.run.len(), 2);
                }
            }
        }
    }

    #[test]
    fn the_run_on_screen_is_counted_from_its_steps_and_its_clock() {
        let run = trace(3, 4, true);
        let frame = RooflineFrame::new(&workload(8, 1), Some(&run));
        let decode = &frame.run[1];
        let step = &run.steps[2];
        assert_eq!(decode.seconds, step.milliseconds / 1000.0);
        assert_eq!(decode.rate, step.work.flops as f64 / decode.seconds);
        assert!(RooflineFrame::new(&workload(8, 1), None).run.is_empty());
    }
}
