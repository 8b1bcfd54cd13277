//! A *test run* goes through parts, each of which can be left out, counts what its runners report, and closes with one
//! line of totals. A part that fails does not keep the others from running.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::engine::{self, Kind};
use crate::process::{self, cargo, command};
use crate::progress::{Progress, say};
use crate::setup::{self, ForTests, Tools};
use crate::site;
use crate::workspace;

/// In the order they run: what fails fast comes first.
const PARTS: [&str; 5] = ["format", "clippy", "native", "wgpu", "browser"];

/// The packages that run natively, with the engine's CPU feature: one set of features, so that burn is built once.
const NATIVE: [&str; 18] = [
    "--package",
    "inferscope-trace",
    "--package",
    "inferscope-sampler",
    "--package",
    "inferscope-core",
    "--package",
    "inferscope-stage",
    "--package",
    "inferscope-trainer",
    "--package",
    "inferscope-engine",
    "--package",
    "inferscope-baseline",
    "--package",
    "xtask",
    "--features",
    "inferscope-engine/cpu",
];

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

pub fn run(mut arguments: Arguments) -> Result<ExitCode> {
    let parts = chosen_parts(arguments.option("--only")?, arguments.option("--skip")?)?;
    arguments.finish()?;
    let wanted = |part: &str| parts.contains(&part);
    let browser_steps = if wanted("browser") { 4 } else { 0 };
    let other_steps = parts.iter().filter(|part| **part != "browser").count();
    let mut progress = Progress::new(setup::STEPS_TO_BUILD + setup::STEPS_TO_TEST + other_steps + browser_steps);
    let tools = setup::to_build(&mut progress)?;
    let needs = setup::to_test(&mut progress)?;
    if !workspace::root()?.join("../shared/reference").is_dir() {
        say("../shared/reference is not there: the tests that compare with reference data say so and are skipped.");
    }

    let mut totals = Counts::default();
    let mut failed_parts = Vec::new();
    let mut note = |part: &str, result: Result<Counts>| match result {
        Ok(counts) => {
            totals += counts;
            if counts.failed > 0 {
                failed_parts.push(part.to_string());
            }
        }
        Err(error) => {
            say(&format!("error: {error:#}"));
            totals.failed += 1;
            failed_parts.push(part.to_string());
        }
    };
    if wanted("format") {
        note("format", progress.step("Format (cargo fmt --check)", || check(cargo()?.args(["fmt", "--check"]))));
    }
    if wanted("clippy") {
        let clippy = || check(cargo()?.arg("clippy").args(NATIVE).args(["--all-targets", "--", "--deny", "warnings"]));
        note("clippy", progress.step("Lints (cargo clippy)", clippy));
    }
    if wanted("native") {
        let native = || count_cargo(cargo()?.args(["test", "--no-fail-fast"]).args(NATIVE));
        note("native", progress.step("Native tests", native));
    }
    if wanted("wgpu") {
        note(
            "wgpu",
            progress.step("The model on wgpu, over the software Vulkan driver", || wgpu(&needs.vulkan_driver)),
        );
    }
    if wanted("browser") {
        note("browser", browser(&mut progress, &tools, &needs));
    }

    if !failed_parts.is_empty() {
        say(&format!("\nFailed: {}. One part again: cargo xtask test --only PART", failed_parts.join(", ")));
    }
    let skipped = if totals.skipped > 0 { format!(", {} skipped", totals.skipped) } else { String::new() };
    say(&format!("{} passed, {} failed{skipped}", totals.passed, totals.failed));
    Ok(if failed_parts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen_parts(only: Option<String>, skip: Option<String>) -> Result<Vec<&'static str>> {
    let known = |list: Option<String>| -> Result<Option<Vec<String>>> {
        let Some(list) = list else { return Ok(None) };
        let names: Vec<String> = list.split(',').map(String::from).collect();
        match names.iter().find(|name| !PARTS.contains(&name.as_str())) {
            Some(name) => bail!("there is no part called {name:?}; the parts are {}", PARTS.join(", ")),
            None => Ok(Some(names)),
        }
    };
    let (only, skip) = (known(only)?, known(skip)?.unwrap_or_default());
    let chosen = |part: &&str| {
        let part = (*part).to_string();
        only.as_ref().is_none_or(|only| only.contains(&part)) && !skip.contains(&part)
    };
    Ok(PARTS.into_iter().filter(chosen).collect())
}

/// A check counts as one test.
fn check(command: &mut Command) -> Result<Counts> {
    process::run(command)?;
    Ok(Counts { passed: 1, ..Counts::default() })
}

fn wgpu(driver: &Path) -> Result<Counts> {
    count_cargo(
        cargo()?
            .args(["test", "--package", "inferscope-core", "--features", "wgpu"])
            .args(["--lib", "--test", "wgpu", "--test", "same_tokens"])
            .env("VK_ICD_FILENAMES", driver),
    )
}

fn browser(progress: &mut Progress, tools: &Tools, needs: &ForTests) -> Result<Counts> {
    let site = workspace::target()?.join("site-test");
    // The CPU engine as it ships, since its speed is tested; the WebGPU engine's whole-program pass would take minutes.
    let cpu = progress.step("CPU engine (release)", || engine::build(Kind::Cpu, Kind::Cpu.release(), tools))?;
    let webgpu = progress.step("WebGPU engine (engine-quick)", || engine::build(Kind::Webgpu, engine::QUICK, tools))?;
    progress.step("Page (release)", || site::page(tools, &site, true))?;
    engine::put(Kind::Cpu, &cpu, &site)?;
    engine::put(Kind::Webgpu, &webgpu, &site)?;
    progress.step("Browser tests", || browser_suite(&site, needs))
}

fn browser_suite(site: &Path, needs: &ForTests) -> Result<Counts> {
    let folder = workspace::root()?.join("tests/browser");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".test.mjs")) {
            files.push(path);
        }
    }
    files.sort();
    // The same results twice: for people on our output, and for counting in a file.
    let report = workspace::target()?.join("browser-tests.tap");
    let status = command("node")?
        // One browser at a time: the tests look at frames and at long tasks.
        .args(["--test", "--test-concurrency=1"])
        .args(["--test-reporter=spec", "--test-reporter-destination=stdout", "--test-reporter=tap"])
        .arg(format!("--test-reporter-destination={}", report.display()))
        .args(&files)
        .env("INFERSCOPE_SITE", site)
        .env("CHROMIUM", &needs.chromium)
        .status()
        .context("cannot start node; version 20 or newer is needed for the browser tests")?;
    let report = std::fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let counts = count_tap(&report);
    if !status.success() && counts.failed == 0 {
        bail!("the browser tests ended early ({status})");
    }
    Ok(counts)
}

/// Runs `cargo test`, shows what it says and adds up its result lines.
fn count_cargo(command: &mut Command) -> Result<Counts> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut counts = Counts::default();
    for line in BufReader::new(child.stdout.take().context("cargo has no output")?).lines() {
        let line = line?;
        counts += count_result_line(&line).unwrap_or_default();
        say(&line);
    }
    let status = child.wait()?;
    if !status.success() && counts.failed == 0 {
        bail!("cargo test ended early ({status})");
    }
    Ok(counts)
}

/// The counts of a line like `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn count_result_line(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Some(Counts { passed: number("passed"), failed: number("failed"), skipped: number("ignored") })
}

/// The totals at the end of node's TAP report: `# pass 3`, `# fail 0`, `# cancelled 0`, `# skipped 1`.
fn count_tap(report: &str) -> Counts {
    let number = |what: &str| {
        let line = report.lines().rev().find_map(|line| line.strip_prefix("# ")?.strip_prefix(what));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Counts { passed: number("pass "), failed: number("fail ") + number("cancelled "), skipped: number("skipped ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_cargo_are_counted() {
        let line = "test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.02s";
        assert_eq!(count_result_line(line), Some(Counts { passed: 7, failed: 2, skipped: 1 }));
        assert_eq!(count_result_line("test name ... ok"), None);
    }

    #[test]
    fn totals_of_node_are_counted() {
        let report =
            "ok 1 - # pass 9 is only a name\n1..1\n# tests 5\n# pass 3\n# fail 1\n# cancelled 1\n# skipped 2\n";
        assert_eq!(count_tap(report), Counts { passed: 3, failed: 2, skipped: 2 });
    }

    #[test]
    fn parts_are_chosen_and_left_out() {
        assert_eq!(chosen_parts(Some("wgpu,format".into()), None).unwrap(), ["format", "wgpu"]);
        assert_eq!(chosen_parts(None, Some("clippy,wgpu,browser".into())).unwrap(), ["format", "native"]);
        assert!(chosen_parts(Some("all".into()), None).is_err());
    }
}
