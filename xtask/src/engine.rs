//! An *engine* is one wasm build of crates/engine with the JavaScript that loads it: `cpu.js`, `cpu_bg.wasm`, or the
//! same for WebGPU.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::process::{self, cargo};
use crate::progress::say;
use crate::setup::{self, Tools};
use crate::workspace;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Cpu,
    Webgpu,
}

impl Kind {
    /// The cargo feature, and the name of the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Webgpu => "webgpu",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU engine",
            Self::Webgpu => "WebGPU engine",
        }
    }

    /// The profile that it ships with.
    pub fn release(self) -> &'static str {
        match self {
            Self::Cpu => "ship",
            Self::Webgpu => "ship-gpu",
        }
    }
}

/// Runs nearly as fast and builds in a fraction of the time.
pub const QUICK: &str = "engine-quick";

/// Builds one engine and says where it lies.
pub fn run(mut arguments: Arguments) -> Result<()> {
    let kind = match arguments.next_word().as_deref() {
        Some("cpu") => Kind::Cpu,
        Some("webgpu") => Kind::Webgpu,
        _ => bail!("say which engine: cargo xtask engine cpu, or cargo xtask engine webgpu"),
    };
    let profile = arguments.option("--profile")?.unwrap_or_else(|| QUICK.into());
    arguments.finish()?;
    let folder = build(kind, &profile, &setup::to_build_an_engine()?)?;
    say(&folder.display().to_string());
    Ok(())
}

/// Written beside an engine's files when they are complete: what they were made from.
const STAMP: &str = ".made-from";

/// A folder for each kind: both write the same file name, and would link again at every change of kind.
fn target_folder(kind: Kind) -> Result<PathBuf> {
    Ok(workspace::target()?.join(format!("engine-{}", kind.name())))
}

/// Where cargo leaves the module, before wasm-bindgen and with the names in it.
fn wasm_file(kind: Kind, profile: &str) -> Result<PathBuf> {
    let folder = target_folder(kind)?.join("wasm32-unknown-unknown");
    Ok(folder.join(if profile == "dev" { "debug" } else { profile }).join("inferscope_engine.wasm"))
}

/// Cargo's module of an engine that an earlier task built, if there is one.
///
/// # Errors
/// The target folder was not found.
pub fn wasm_built_before(kind: Kind, profile: &str) -> Result<Option<PathBuf>> {
    let wasm = wasm_file(kind, profile)?;
    Ok(wasm.is_file().then_some(wasm))
}

fn output_folder(kind: Kind, profile: &str) -> Result<PathBuf> {
    Ok(target_folder(kind)?.join("wasm-bindgen").join(profile))
}

/// Builds one engine and gives back the folder with its files.
///
/// # Errors
/// The build failed, or its result would be slow (see [`check_constructors`]).
pub fn build(kind: Kind, profile: &str, tools: &Tools) -> Result<PathBuf> {
    process::run(
        cargo()?
            .args(["build", "--package", "inferscope-engine", "--lib", "--target", "wasm32-unknown-unknown"])
            .args(["--profile", profile, "--no-default-features", "--features", kind.name()])
            .arg("--target-dir")
            .arg(target_folder(kind)?),
    )?;
    let wasm = wasm_file(kind, profile)?;
    let folder = output_folder(kind, profile)?;
    let stamp_file = folder.join(STAMP);
    let stamp = stamp(&wasm)?;
    if std::fs::read_to_string(&stamp_file).is_ok_and(|before| before == stamp) {
        return Ok(folder);
    }
    check_constructors(&wasm)?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    process::run(
        tools
            .command("wasm-bindgen")?
            .args(["--target", "web", "--no-typescript", "--remove-name-section", "--out-name", kind.name()])
            .arg("--out-dir")
            .arg(&folder)
            .arg(&wasm),
    )?;
    std::fs::write(&stamp_file, stamp).with_context(|| format!("cannot write {}", stamp_file.display()))?;
    Ok(folder)
}

/// The folder of an engine that an earlier task built, if there is one.
///
/// # Errors
/// The target folder was not found.
pub fn built_before(kind: Kind, profile: &str) -> Result<Option<PathBuf>> {
    let folder = output_folder(kind, profile)?;
    Ok(folder.join(STAMP).is_file().then_some(folder))
}

/// Puts an engine's files into a site, with the worker that loads any of them. The site may be served already: the
/// worker asks for the `.js` file first, so that one comes last.
///
/// # Errors
/// A file could not be read or written.
pub fn put(kind: Kind, files: &Path, site: &Path) -> Result<()> {
    let folder = site.join("engine");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    workspace::copy_folder(&workspace::root()?.join("static/engine"), &folder)?;
    let snippets = files.join("snippets");
    if snippets.is_dir() {
        workspace::copy_folder(&snippets, &folder.join("snippets"))?;
    }
    for file in [format!("{}_bg.wasm", kind.name()), format!("{}.js", kind.name())] {
        workspace::copy_file(&files.join(&file), &folder.join(&file))?;
    }
    Ok(())
}

/// Whether a file is the one that was seen before.
fn stamp(file: &Path) -> Result<String> {
    let data = file.metadata().with_context(|| format!("cannot find {}", file.display()))?;
    Ok(format!("{} bytes, written {:?}", data.len(), data.modified()?))
}

/// A module that holds static constructors and never calls them is put into *command mode* by the linker: every call
/// from JavaScript then runs all constructors again, and the engine is some fifteen times slower, with right results.
/// Such a module exports `command_export` wrappers.
///
/// # Errors
/// It is in command mode.
pub fn check_constructors(wasm: &Path) -> Result<()> {
    let bytes = std::fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?;
    let mark = b"command_export";
    if bytes.windows(mark.len()).any(|window| window == mark) {
        bail!(
            "{} runs its static constructors on every call from JavaScript and would be very slow; its start function \
             must call __wasm_call_ctors once",
            wasm.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_in_command_mode_is_refused() {
        let file = std::env::temp_dir().join(format!("xtask-{}.wasm", std::process::id()));
        std::fs::write(&file, b"\0asm engine_step").unwrap();
        check_constructors(&file).unwrap();
        std::fs::write(&file, b"\0asm engine_step.command_export").unwrap();
        assert!(check_constructors(&file).unwrap_err().to_string().contains("__wasm_call_ctors"));
        std::fs::remove_file(&file).unwrap();
    }
}
