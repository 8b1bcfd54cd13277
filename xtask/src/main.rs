//! A *task* is one thing a developer does with the project: serve the page, build the site, run the tests. Each task
//! sets up what it needs by itself, so a fresh machine needs only rustup and Node.js.

mod app;
mod arguments;
mod bench;
mod engine;
mod names;
mod process;
mod progress;
mod serve;
mod setup;
mod site;
mod size;
mod test;
mod wasm;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;

const HELP: &str = "\
cargo xtask serve [--port 8080] [--release]   build the page and serve it; the WebGPU engine builds behind it
cargo xtask build                             write the release site to dist/
cargo xtask test [--only A,B] [--skip A,B]    run all tests, or parts: format, clippy, native, wgpu, browser
cargo xtask size                              sizes of dist/: raw, gzip, brotli
cargo xtask bench [cpu|webgpu] [--only A,B]   speeds of dist/ in a headless Chromium, a JSON line a figure, or some figures
cargo xtask engine cpu|webgpu [--profile P]   build one engine (profile engine-quick unless named) and say where it lies
cargo xtask setup                             only set up: wasm target, tools, npm packages, chromium, Vulkan driver

Tools are kept in $INFERSCOPE_CACHE, else $XDG_CACHE_HOME/inferscope, else ~/.cache/inferscope.";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let mut arguments = Arguments::from_environment();
    let Some(task) = arguments.next_word() else {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    match task.as_str() {
        "serve" => serve::run(arguments)?,
        "build" => site::run(arguments)?,
        "test" => return test::run(arguments),
        "size" => size::run(arguments)?,
        "bench" => bench::run(arguments)?,
        "engine" => engine::run(arguments)?,
        "setup" => setup::run(arguments)?,
        "trunk-hook" => site::trunk_hook(arguments)?,
        "help" | "--help" | "-h" => println!("{HELP}"),
        other => bail!("there is no task called {other:?}\n\n{HELP}"),
    }
    Ok(ExitCode::SUCCESS)
}
