//! The *report* lays evaluations out as a table for people.

use std::fmt::Write;

use super::Evaluation;

/// One row a model, then each model's heads, then samples.
pub fn table(evaluations: &[Evaluation]) -> String {
    let mut out = String::new();
    let heading = ["weights", "bytes", "loss", "int8", "int4", "entropy", ">1 nat", "copy T=0", "T=0.8", "accepted"];
    line(&mut out, "model", &heading.map(String::from));
    for evaluation in evaluations {
        let rate = |index: usize| evaluation.copy.get(index).and_then(|copy| copy.rate);
        let copy = |index| rate(index).map_or("–".into(), |rate| format!("{rate:.3}"));
        line(
            &mut out,
            &evaluation.model,
            &[
                evaluation.parameters.to_string(),
                evaluation.file_bytes.to_string(),
                format!("{:.4}", evaluation.held_out.loss),
                format!("{:+.4}", evaluation.loss_int8 - evaluation.held_out.loss),
                format!("{:+.4}", evaluation.loss_int4 - evaluation.held_out.loss),
                format!("{:.3}", evaluation.held_out.entropy),
                format!("{:.1} %", 100.0 * evaluation.held_out.open),
                copy(0),
                copy(1),
                evaluation.acceptance.map_or("–".into(), |acceptance| format!("{acceptance:.3}")),
            ],
        );
    }
    for evaluation in evaluations {
        let _ = writeln!(out, "\n{}: induction score of each head (rows are layers)", evaluation.model);
        for heads in &evaluation.induction {
            let heads: Vec<String> = heads.iter().map(|score| format!("{score:6.3}")).collect();
            let _ = writeln!(out, "  {}", heads.join(" "));
        }
        for sample in &evaluation.samples {
            let _ = writeln!(out, "\n{}, temperature {}:\n{}", evaluation.model, sample.temperature, sample.text);
        }
    }
    out
}

fn line(out: &mut String, name: &str, cells: &[String]) {
    let _ = write!(out, "{name:14}");
    cells.iter().for_each(|cell| {
        let _ = write!(out, " {cell:>10}");
    });
    out.push('\n');
}
