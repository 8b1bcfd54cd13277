//! *Trace events* are a run in the JSON form of the Trace Event Format, which Perfetto and Chromium's tracing page open: a
//! bar for each step on the engine's clock, and what the step counted as its arguments.

use std::collections::BTreeMap;

use inferscope_trace::{Phase, Trace};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct TraceEvents {
    #[serde(rename = "traceEvents")]
    pub events: Vec<TraceEvent>,
    #[serde(rename = "displayTimeUnit")]
    pub display_time_unit: &'static str,
}

#[derive(Debug, Serialize)]
pub struct TraceEvent {
    pub name: String,
    /// `X` is a bar with a duration, `C` a counter's value, `M` a name of a process or a thread.
    pub ph: &'static str,
    /// Microseconds from the run's start.
    pub ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<f64>,
    pub pid: u32,
    pub tid: u32,
    pub args: BTreeMap<&'static str, Value>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

const PROCESS: u32 = 1;
const STEPS: u32 = 1;

impl TraceEvents {
    /// Steps stand end to end: what the reader spent looking between them is not in the run.
    pub fn new(trace: &Trace) -> Self {
        let model = &trace.model.id;
        let cache = if trace.settings.cache { "with the KV cache" } else { "without a KV cache" };
        let mut events = vec![
            name("process_name", format!("Inferscope: {model}, {cache}")),
            name("thread_name", format!("steps on the {:?} engine", trace.backend.kind)),
        ];
        let mut start = 0.0;
        for step in &trace.steps {
            let duration = step.milliseconds * 1000.0;
            let token = trace.vocabulary.label(step.token);
            let phase = match step.phase {
                Phase::Prefill => "prefill",
                Phase::Decode => "decode",
            };
            let work = &step.work;
            let args: [(&'static str, Value); 8] = [
                ("step", (step.index as u64).into()),
                ("token", token.clone().into()),
                ("first_position", (step.first_position as u64).into()),
                ("positions", work.positions.into()),
                ("flops", work.flops.into()),
                ("weight_bytes", work.weight_bytes.into()),
                ("cache_bytes_read", work.cache_bytes_read.into()),
                ("cache_bytes_written", work.cache_bytes_written.into()),
            ];
            events.push(TraceEvent {
                name: format!("{phase}:{token}"),
                ph: "X",
                ts: start,
                dur: Some(duration),
                pid: PROCESS,
                tid: STEPS,
                args: args.into(),
            });
            start += duration;
            let held = if trace.settings.cache { step.end_position() as u64 } else { 0 };
            events.push(TraceEvent {
                name: "columns in the cache".into(),
                ph: "C",
                ts: start,
                dur: None,
                pid: PROCESS,
                tid: STEPS,
                args: [("columns", held.into())].into(),
            });
        }
        Self { events, display_time_unit: "ms" }
    }
}

fn name(what: &'static str, name: String) -> TraceEvent {
    TraceEvent {
        name: what.into(),
        ph: "M",
        ts: 0.0,
        dur: None,
        pid: PROCESS,
        tid: STEPS,
        args: [("name", name.into())].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn a_bar_a_step_end_to_end_in_microseconds_and_the_cache_as_a_counter() {
        for cache in [true, false] {
            let run = trace(3, 4, cache);
            let events = TraceEvents::new(&run).events;
            let bars: Vec<_> = events.iter().filter(|event| event.ph == "X").collect();
            assert_eq!(bars.len(), 4);
            for (bar, step) in bars.iter().zip(&run.steps) {
                assert_eq!(bar.dur, Some(step.milliseconds * 1000.0));
                assert_eq!(bar.args["flops"], Value::Number(step.work.flops as f64));
            }
            assert!(bars.windows(2).all(|pair| pair[0].ts + pair[0].dur.unwrap() == pair[1].ts));
            let held: Vec<_> =
                events.iter().filter(|event| event.ph == "C").map(|event| &event.args["columns"]).collect();
            let expected = if cache { [3.0, 4.0, 5.0, 6.0] } else { [0.0; 4] };
            assert_eq!(held, expected.map(Value::Number).iter().collect::<Vec<_>>());
        }
    }
}
