//! The *size* of the site is what a reader has to wait for: each file of dist/ raw, in gzip and in brotli.

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::engine::{self, Kind};
use crate::process::{self, command};
use crate::workspace;

/// Node.js brings both compressors along; it reads the script from this binary.
const SCRIPT: &str = include_str!("size.mjs");

pub fn run(arguments: Arguments) -> Result<()> {
    arguments.finish()?;
    let site = workspace::root()?.join("dist");
    if !site.join("index.html").is_file() {
        bail!("there is no site in dist/ yet; `cargo xtask build` writes it");
    }
    for kind in [Kind::Cpu, Kind::Webgpu] {
        if let Some(wasm) = engine::wasm_built_before(kind, kind.release())? {
            engine::check_constructors(&wasm)?;
            println!("The {} calls its static constructors once, as it should.", kind.title());
        }
    }
    process::run(command("node")?.args(["--input-type=module", "--eval", SCRIPT, "--"]).arg(&site))
        .context("Node.js could not weigh the files, or a part is over its budget")
}
