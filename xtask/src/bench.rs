//! A *bench* measures a release site in a headless Chromium, one JSON line a figure (`tests/browser/bench.mjs`), and beside
//! the engines the *baseline*: the model in plain loops (`crates/baseline`), built for this alone.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::engine::Kind;
use crate::process::{self, cargo, command};
use crate::progress::{Progress, say};
use crate::setup;
use crate::site;
use crate::workspace;

/// Names a built site that is to be measured instead of dist/.
const SITE: &str = "INFERSCOPE_SITE";

pub fn run(mut arguments: Arguments) -> Result<()> {
    let only = arguments.option("--only")?;
    let engine = arguments.next_word().unwrap_or_else(|| "cpu".into());
    if !["cpu", "webgpu"].contains(&engine.as_str()) {
        bail!("there is no engine called {engine:?}; it is cpu or webgpu");
    }
    arguments.finish()?;
    let site = site_to_measure()?;
    let mut progress = Progress::new(setup::STEPS_TO_TEST + 1);
    let needs = setup::to_test(&mut progress)?;
    let baseline = progress.step("Baseline", build_baseline)?;
    let mut bench = command("node")?;
    bench.arg(workspace::root()?.join("tests/browser/bench.mjs")).arg(engine);
    if let Some(only) = only {
        bench.arg(format!("--only={only}"));
    }
    bench.env(SITE, site).env("INFERSCOPE_BASELINE", baseline).env("CHROMIUM", needs.chromium);
    process::run(&mut bench)
}

/// What is there is measured as it is, and the bench says when it was built; without any, the release is built.
fn site_to_measure() -> Result<PathBuf> {
    let is_site = |folder: &Path| folder.join("index.html").is_file();
    if let Some(chosen) = std::env::var_os(SITE).map(PathBuf::from) {
        if !is_site(&chosen) {
            bail!("{SITE} is set to {}, which is no built site", chosen.display());
        }
        return Ok(chosen);
    }
    let site = site::release_folder()?;
    if is_site(&site) {
        say("Measuring dist/ as it is; `cargo xtask build` brings it up to date.");
    } else {
        site::build()?;
    }
    Ok(site)
}

/// Builds the baseline's module as the engines that ship are built.
fn build_baseline() -> Result<PathBuf> {
    let target = workspace::target()?;
    let profile = Kind::Cpu.release();
    process::run(
        cargo()?
            .args(["build", "--package", "inferscope-baseline", "--lib", "--target", "wasm32-unknown-unknown"])
            .args(["--profile", profile])
            .arg("--target-dir")
            .arg(&target),
    )?;
    Ok(target.join("wasm32-unknown-unknown").join(profile).join("inferscope_baseline.wasm"))
}
