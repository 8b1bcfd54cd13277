//! A *site* is a folder that any static server can serve: the page, the element's loader, both engines, the model.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::engine::{self, Kind};
use crate::process;
use crate::progress::{Progress, say};
use crate::setup::{self, Tools};
use crate::wasm;
use crate::workspace;

/// Set while a task runs trunk: it puts the engines in by itself, and trunk's hook has nothing to do.
const BY_XTASK: &str = "INFERSCOPE_BUILT_BY_XTASK";

/// Writes the release site to dist/.
pub fn run(arguments: Arguments) -> Result<()> {
    arguments.finish()?;
    build()
}

/// # Errors
/// The workspace was not found.
pub fn release_folder() -> Result<PathBuf> {
    Ok(workspace::root()?.join("dist"))
}

/// Builds the release site into its folder.
///
/// # Errors
/// Something could not be set up or built.
pub fn build() -> Result<()> {
    let mut progress = Progress::new(setup::STEPS_TO_BUILD + 3);
    let tools = setup::to_build(&mut progress)?;
    let site = release_folder()?;
    let engines = [Kind::Cpu, Kind::Webgpu].map(|kind| {
        let what = format!("{} ({})", kind.title(), engine::RELEASE);
        progress.step(&what, || engine::build(kind, engine::RELEASE, &tools))
    });
    progress.step("Page (release)", || page(&tools, &site, true))?;
    for (kind, files) in [Kind::Cpu, Kind::Webgpu].into_iter().zip(engines) {
        engine::put(kind, &files?, &site)?;
    }
    say("dist/ is ready: any static server can serve it, from any path. `cargo xtask size` weighs it.");
    Ok(())
}

/// Has trunk build the page into `site`, and replaces what was there. The release page goes without the names of its
/// functions, which trunk cannot leave out.
///
/// # Errors
/// The build failed.
pub fn page(tools: &Tools, site: &Path, release: bool) -> Result<()> {
    let mut trunk = tools.command("trunk")?;
    trunk.arg("build").arg("--dist").arg(site).env(BY_XTASK, "1");
    if release {
        trunk.arg("--release");
    }
    process::run(&mut trunk)?;
    if release {
        let app = site.join("inferscope-app_bg.wasm");
        let module = std::fs::read(&app).with_context(|| format!("cannot read {}", app.display()))?;
        std::fs::write(&app, wasm::without_names(&module)?)
            .with_context(|| format!("cannot write {}", app.display()))?;
    }
    Ok(())
}

/// Trunk's hook: when trunk is run on its own, it builds the page only, and this puts the engines beside it: the CPU
/// engine freshly built, the WebGPU engine if there is one.
pub fn trunk_hook(arguments: Arguments) -> Result<()> {
    arguments.finish()?;
    if std::env::var_os(BY_XTASK).is_some() {
        return Ok(());
    }
    let staging = std::env::var_os("TRUNK_STAGING_DIR").map(PathBuf::from);
    let staging = staging.context("this is a hook for trunk, which says in TRUNK_STAGING_DIR where files go")?;
    let tools = setup::to_build_an_engine()?;
    engine::put(Kind::Cpu, &engine::build(Kind::Cpu, engine::QUICK, &tools)?, &staging)?;
    match engine::built_before(Kind::Webgpu, engine::QUICK)? {
        Some(files) => engine::put(Kind::Webgpu, &files, &staging)?,
        None => say("There is no WebGPU engine yet; `cargo xtask engine webgpu` builds one."),
    }
    Ok(())
}
