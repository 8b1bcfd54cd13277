//! A *site* is a folder that any static server can serve: the page, the element's loader, both engines, the model.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::app;
use crate::arguments::Arguments;
use crate::engine::{self, Kind};
use crate::process;
use crate::progress::{Progress, say};
use crate::setup::{self, Tools};
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
        let what = format!("{} ({})", kind.title(), kind.release());
        progress.step(&what, || engine::build(kind, kind.release(), &tools))
    });
    progress.step("Page (release)", || page(&tools, &site, true))?;
    for (kind, files) in [Kind::Cpu, Kind::Webgpu].into_iter().zip(engines) {
        engine::put(kind, &files?, &site)?;
    }
    say("dist/ is ready: any static server can serve it, from any path. `cargo xtask size` weighs it.");
    Ok(())
}

/// Writes the page to `site`, without the engines. In daily work that is trunk's, with the app in one piece; the release
/// has the app in parts, which trunk cannot make, so what trunk would do is done here.
///
/// # Errors
/// The build failed.
pub fn page(tools: &Tools, site: &Path, release: bool) -> Result<()> {
    if !release {
        return process::run(tools.command("trunk")?.arg("build").arg("--dist").arg(site).env(BY_XTASK, "1"));
    }
    if site.exists() {
        std::fs::remove_dir_all(site).with_context(|| format!("cannot remove {}", site.display()))?;
    }
    std::fs::create_dir_all(site).with_context(|| format!("cannot create {}", site.display()))?;
    let root = workspace::root()?;
    let page = std::fs::read_to_string(root.join("index.html")).context("cannot read index.html")?;
    let (page, assets) = without_trunk(&page)?;
    for asset in assets {
        let from = root.join(&asset);
        let to = site.join(from.file_name().with_context(|| format!("{asset} has no name"))?);
        if from.is_dir() {
            workspace::copy_folder(&from, &to)?;
        } else {
            workspace::copy_file(&from, &to)?;
        }
    }
    std::fs::write(site.join("index.html"), page).context("cannot write index.html")?;
    app::build(tools, site)
}

/// The page without its links for trunk, and the files and folders that those name to be copied.
fn without_trunk(page: &str) -> Result<(String, Vec<String>)> {
    let (links, kept): (Vec<&str>, Vec<&str>) =
        page.split_inclusive('\n').partition(|line| line.contains("data-trunk"));
    let mut assets = Vec::new();
    for link in links.into_iter().filter(|link| !link.contains("rel=\"rust\"")) {
        let href = link.split_once("href=\"").and_then(|(_, rest)| rest.split_once('"'));
        assets.push(href.with_context(|| format!("a link for trunk names no file: {link}"))?.0.to_string());
    }
    Ok((kept.concat(), assets))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_ships_without_what_is_for_trunk() {
        let root = workspace::root().unwrap();
        let (page, assets) = without_trunk(&std::fs::read_to_string(root.join("index.html")).unwrap()).unwrap();
        assert!(!page.contains("data-trunk") && page.contains("<infer-scope") && page.contains("infer-scope.js"));
        assert!(assets.iter().any(|asset| asset == "static/infer-scope.css"));
        assert!(assets.iter().all(|asset| root.join(asset).exists()));
    }
}
