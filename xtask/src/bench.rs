//! A *bench* measures the release site in dist/ in a headless Chromium, one JSON line a figure (`tests/browser/bench.mjs`).

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::process::{self, command};
use crate::progress::Progress;
use crate::setup;
use crate::workspace;

pub fn run(mut arguments: Arguments) -> Result<()> {
    let engine = arguments.next_word().unwrap_or_else(|| "cpu".into());
    if !["cpu", "webgpu"].contains(&engine.as_str()) {
        bail!("there is no engine called {engine:?}; it is cpu or webgpu");
    }
    arguments.finish()?;
    let root = workspace::root()?;
    let site = root.join("dist");
    if !site.join("index.html").is_file() {
        bail!("there is no site in dist/ yet; `cargo xtask build` writes it");
    }
    let mut progress = Progress::new(setup::STEPS_TO_TEST);
    let needs = setup::to_test(&mut progress)?;
    let bench = root.join("tests/browser/bench.mjs");
    process::run(command("node")?.arg(bench).arg(engine).env("INFERSCOPE_SITE", site).env("CHROMIUM", needs.chromium))
}
