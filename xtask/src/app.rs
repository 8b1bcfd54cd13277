//! The *app* as it ships is crates/app in several files: what a first run needs, and parts that are fetched when a scene
//! shows them. Cargo makes one module with everything in it, the splitter takes that apart along the functions that
//! crates/app/src/parts.rs marks, and wasm-bindgen writes the JavaScript of the first file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo};
use crate::setup::Tools;
use crate::{names, wasm, workspace};

const NAME: &str = "inferscope-app";
const PROFILE: &str = "page";

/// The splitter follows the linker's notes on what refers to what.
const KEEP_RELOCATIONS: &str = "target.wasm32-unknown-unknown.rustflags=['-C','link-args=--emit-relocs']";

/// The script with which the splitter's parts are fetched.
const LOADER: &str = "__wasm_split.js";

/// Builds the app and puts its files into `site`.
///
/// # Errors
/// The build failed, or the splitter writes another loader than it did.
pub fn build(tools: &Tools, site: &Path) -> Result<()> {
    let target = workspace::target()?.join("app");
    process::run(
        cargo()?
            .args(["build", "--package", NAME, "--lib", "--target", "wasm32-unknown-unknown"])
            .args(["--profile", PROFILE, "--features", "split", "--config", KEEP_RELOCATIONS])
            .arg("--target-dir")
            .arg(&target),
    )?;
    let whole = target.join("wasm32-unknown-unknown").join(PROFILE).join("inferscope_app.wasm");
    let parts = target.join("parts");
    if parts.exists() {
        std::fs::remove_dir_all(&parts).with_context(|| format!("cannot remove {}", parts.display()))?;
    }
    std::fs::create_dir_all(&parts).with_context(|| format!("cannot create {}", parts.display()))?;
    let mut split = tools.command("wasm-split-cli")?;
    process::run(split.args(["--target", "web", "--out-name", NAME]).arg(&whole).arg(&parts))?;
    let first = parts.join(format!("{NAME}.wasm"));
    process::run(
        tools
            .command("wasm-bindgen")?
            // The parts share the first file's memory, table and stack, which are exports of the linker's.
            .args(["--target", "web", "--no-typescript", "--keep-lld-exports", "--out-name", NAME])
            .arg("--out-dir")
            .arg(&parts)
            .arg(&first),
    )?;
    std::fs::remove_file(&first).with_context(|| format!("cannot remove {}", first.display()))?;
    put(&parts, site)
}

fn put(parts: &Path, site: &Path) -> Result<()> {
    for entry in std::fs::read_dir(parts).with_context(|| format!("cannot read {}", parts.display()))? {
        let path: PathBuf = entry?.path();
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let content = match name.as_str() {
            LOADER => loader(&String::from_utf8(content)?)?.into_bytes(),
            _ if name.ends_with(".wasm") => wasm::without_names(&content)?,
            _ => content,
        };
        write(site, &name, &content)?;
    }
    let (script, module) = (format!("{NAME}.js"), format!("{NAME}_bg.wasm"));
    let read = |name| std::fs::read(site.join(name)).with_context(|| format!("cannot read {name}"));
    let (short_module, short_script) =
        names::shorten(&read(&module)?, &String::from_utf8(read(&script)?)?, &format!("./{NAME}_bg.js"))?;
    write(site, &module, &short_module)?;
    write(site, &script, short_script.as_bytes())
}

fn write(site: &Path, name: &str, content: &[u8]) -> Result<()> {
    std::fs::write(site.join(name), content).with_context(|| format!("cannot write {name}"))
}

/// The loader as wasm-bindgen's own does it: on a server that calls a module something else than `application/wasm`, the
/// browser has to be given its bytes.
fn loader(written: &str) -> Result<String> {
    let strict = "WebAssembly.instantiateStreaming(src, imports)";
    ensure!(written.contains(strict), "the splitter's loader is another one than this was written for");
    Ok(written.replace(strict, "instantiate(await src, imports)") + include_str!("instantiate.js"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_call_a_module_anything() {
        let written = "return async (imports) => (WebAssembly.instantiateStreaming(src, imports));\n";
        let loader = loader(written).unwrap();
        assert!(loader.starts_with("return async (imports) => (instantiate(await src, imports));\n"));
        assert!(loader.contains("async function instantiate("));
        assert!(super::loader("fetch(src)").is_err());
    }
}
