//! Every beat of every scene as text, held against snapshots: a change of what a reader sees shows up as a changed picture.
//! `INSTA_UPDATE=always cargo test -p inferscope-stage` draws them anew.

use std::fmt::Write;

use inferscope_trace::{Sampling, Trace};

use crate::fixture::trace;
use crate::moment::beats;
use crate::*;

/// The middle of each beat, where things move, and its end, where they rest.
fn moments(trace: &Trace, step: usize) -> Vec<(String, Moment)> {
    let mut start = 0.0;
    let mut moments = Vec::new();
    for (beat, end) in beats(trace.steps[step].phase) {
        moments.push((format!("{beat:?}, on its way"), Moment { step, progress: start + (end - start) * 0.35 }));
        moments.push((format!("{beat:?}, at rest"), Moment { step, progress: end }));
        start = end;
    }
    moments
}

fn picture(trace: &Trace, moment: Moment) -> String {
    let metrics = Metrics::for_width(400.0);
    let frame =
        CacheFrame::new(Some(trace), moment, Plan::of(trace), trace.model.n_layers, &Selection::default(), &metrics);
    let mut out = String::new();
    let column = |column: &Column| match (column.state, column.spare) {
        (ColumnState::Filled, _) => '#',
        (ColumnState::Writing, _) => '+',
        (ColumnState::Recomputed, _) => '~',
        (ColumnState::Evicted, _) => 'x',
        (ColumnState::Free, false) => '.',
        (ColumnState::Free, true) => '_',
    };
    let columns: String = frame.columns.iter().map(column).collect();
    let presence: Vec<String> = frame
        .columns
        .iter()
        .filter(|column| column.state != ColumnState::Free)
        .map(|column| format!("{:.2}", column.presence))
        .collect();
    let labels: Vec<&str> =
        frame.columns.iter().map(|column| column.label.as_str()).filter(|it| !it.is_empty()).collect();
    let _ = writeln!(out, "  columns {columns}  visible {}", presence.join(" "));
    let _ = writeln!(out, "  labels  {}", labels.join("|"));
    let _ = writeln!(out, "  arrows  {} at {:.2}", frame.arrows.len(), frame.arrows_presence);
    let text: String = text_pieces(trace, moment)
        .iter()
        .map(|piece| match piece.voice {
            Voice::Newest => format!("[{}]", piece.text),
            _ => piece.text.clone(),
        })
        .collect();
    let _ = writeln!(out, "  text    {text}");
    let predicted = predicted_step(trace, moment);
    let candidates = predicted.and_then(|step| CandidatesFrame::new(trace, step, &trace.steps[step].sampling, 3));
    if let Some(frame) = candidates {
        let bars = frame.bars.iter().map(|bar| {
            let drawn = if bar.drawn { "*" } else { "" };
            format!("{}{drawn} {:.2}", format::visible(&bar.text), bar.after)
        });
        let _ = writeln!(out, "  odds    step {}: {}", frame.step, bars.collect::<Vec<_>>().join(", "));
    }
    if let Some(frame) = TimelineFrame::new(trace, moment, TimeScale::Linear) {
        let reached = frame.steps.iter().filter(|step| step.reached).count();
        let _ = writeln!(out, "  time    {reached} of {} steps reached", frame.steps.len());
    }
    let growth = GrowthFrame::new(trace, None, moment, Measure::Positions);
    let so_far = |curve: &Curve| curve.points[growth.shown].1;
    let _ = writeln!(out, "  work    {} with, {} without", so_far(&growth.curves[0]), so_far(&growth.curves[1]));
    for counter in counters(trace, moment).iter().filter(|counter| counter.mark == Mark::Counted) {
        let _ = writeln!(out, "  {:16} {:>9} {:>9}", counter.id, counter.this_step, counter.so_far);
    }
    out
}

/// The prefill and a decode step, beat by beat.
fn storyboard(cache: bool) -> String {
    let run = trace(3, 4, cache);
    let mut out = format!("start\n{}", picture(&run, Moment::START));
    for step in [0, 2] {
        for (name, moment) in moments(&run, step) {
            let _ = write!(out, "\nstep {step}, {name}\n{}", picture(&run, moment));
        }
    }
    out
}

#[test]
fn generate_with_the_cache() {
    insta::assert_snapshot!(storyboard(true));
}

#[test]
fn generate_without_the_cache() {
    insta::assert_snapshot!(storyboard(false));
}

#[test]
fn sampling() {
    let run = trace(3, 4, true);
    let mut out = String::new();
    for preset in PRESETS {
        let frame = StagesFrame::new(&run, 1, &preset.sampling(6), 6).unwrap();
        let _ = writeln!(out, "{}: {}", preset.id, preset.sentence);
        for (index, stage) in frame.stages.iter().enumerate() {
            let shares = frame.lanes.iter().map(|lane| match lane.cut_at {
                Some(cut) if cut <= index => "cut".to_string(),
                _ => format!("{:.2}", lane.shares[index]),
            });
            let shares: Vec<String> = shares.collect();
            let _ = writeln!(
                out,
                "  {:12} {:>5}  {}  left {}, {:.1} equal choices",
                stage.label,
                stage.value,
                shares.join(" "),
                stage.kept,
                stage.effective_choices
            );
        }
        let line: Vec<String> =
            frame.line.iter().map(|it| format!("{}→{:.2}", format::visible(&it.text), it.to)).collect();
        let _ = writeln!(out, "  the coin {:.2} on {} draws {}\n", frame.coin, line.join(" "), frame.draws_text);
    }
    let open = StagesFrame::new(&run, 1, &Sampling::default(), 2).unwrap();
    let _ = writeln!(out, "with two rows: {} others", open.others);
    insta::assert_snapshot!(out);
}
