//! *Set-up* is what a machine needs besides rustup and Node.js: the wasm target, three pinned tools, the crates' sources,
//! and for tests npm packages, a browser and a software Vulkan driver. Every step is skipped where it was done before.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::process::{self, cargo, command, output};
use crate::progress::{Progress, say};
use crate::workspace;

/// A tool that is built from its crate, and how: a build that is quick beats one that runs fast.
struct Pinned {
    /// Also the program's name.
    name: &'static str,
    package: &'static str,
    version: &'static str,
    /// wasm-bindgen-cli's own lock file names a crate that was withdrawn.
    locked: bool,
    opt_level: &'static str,
    features: &'static str,
}

const WASM_BINDGEN: Pinned = Pinned {
    name: "wasm-bindgen",
    package: "wasm-bindgen-cli",
    version: "0.2.130",
    locked: false,
    // It rewrites a module of 20 MB.
    opt_level: "2",
    features: "",
};

const TRUNK: Pinned =
    Pinned { name: "trunk", package: "trunk", version: "0.21.14", locked: true, opt_level: "1", features: "" };

/// Takes the release app apart; see app.rs.
const SPLITTER: Pinned = Pinned {
    name: "wasm-split-cli",
    package: "wasm_split_cli_support",
    version: "0.2.4",
    locked: true,
    opt_level: "1",
    features: "build-binary",
};

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Where Debian's packages put what the tests need.
const CHROMIUM_NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const VULKAN_DRIVERS: &str = "/usr/share/vulkan/icd.d";

/// Sets everything up and builds nothing.
pub fn run(arguments: Arguments) -> Result<()> {
    arguments.finish()?;
    let mut progress = Progress::new(STEPS_TO_BUILD + STEPS_TO_TEST);
    let tools = to_build(&mut progress)?;
    to_test(&mut progress)?;
    say(&format!("Ready. For `trunk serve` on its own, put {} on PATH.", tools.folder.display()));
    Ok(())
}

/// The pinned tools, ready to be run.
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// One of the tools, with the others on its PATH: trunk looks for wasm-bindgen there.
    ///
    /// # Errors
    /// PATH cannot be extended.
    pub fn command(&self, name: &str) -> Result<Command> {
        let mut tool = command(self.folder.join(name))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.clone()).chain(std::env::split_paths(&path));
        tool.env("PATH", std::env::join_paths(folders)?);
        Ok(tool)
    }
}

pub const STEPS_TO_BUILD: usize = 5;

/// What every build needs.
///
/// # Errors
/// Something is missing and cannot be installed.
pub fn to_build(progress: &mut Progress) -> Result<Tools> {
    let folder = workspace::cache()?.join("tools/bin");
    progress.step("Rust's wasm target", wasm_target)?;
    for tool in [&WASM_BINDGEN, &TRUNK, &SPLITTER] {
        progress.step(&format!("{} {}", tool.package, tool.version), || install(tool))?;
    }
    progress.step("Sources of the crates", fetch)?;
    Ok(Tools { folder })
}

/// Only wasm-bindgen and the target, for a single engine.
///
/// # Errors
/// Something is missing and cannot be installed.
pub fn to_build_an_engine() -> Result<Tools> {
    wasm_target()?;
    install(&WASM_BINDGEN)?;
    Ok(Tools { folder: workspace::cache()?.join("tools/bin") })
}

pub const STEPS_TO_TEST: usize = 4;

/// What the tests need besides.
pub struct ForTests {
    pub chromium: PathBuf,
    /// The description file of Mesa's software Vulkan driver.
    pub vulkan_driver: PathBuf,
}

/// # Errors
/// Something is missing and cannot be installed.
pub fn to_test(progress: &mut Progress) -> Result<ForTests> {
    progress.step("rustfmt and clippy", rust_components)?;
    progress.step("npm packages", npm_packages)?;
    let chromium = progress.step("Chromium", chromium)?;
    let vulkan_driver = progress.step("Software Vulkan driver", vulkan_driver)?;
    Ok(ForTests { chromium, vulkan_driver })
}

fn wasm_target() -> Result<()> {
    let mut rustc = command("rustc")?;
    let library = output(rustc.args(["--print", "target-libdir", "--target", WASM_TARGET]))?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    if process::find("rustup").is_none() {
        bail!("Rust's target {WASM_TARGET} is missing and there is no rustup to add it with; see https://rustup.rs");
    }
    process::run(command("rustup")?.args(["target", "add", WASM_TARGET]))
}

fn rust_components() -> Result<()> {
    let missing = |name: &str| {
        !cargo()
            .is_ok_and(|mut cargo| cargo.args([name, "--version"]).output().is_ok_and(|output| output.status.success()))
    };
    if missing("fmt") || missing("clippy") {
        process::run(command("rustup")?.args(["component", "add", "rustfmt", "clippy"]))?;
    }
    Ok(())
}

fn install(tool: &Pinned) -> Result<()> {
    let root = workspace::cache()?.join("tools");
    let program = root.join("bin").join(tool.name);
    if process::is_program(&program) && version_in(&root, tool).as_deref() == Some(tool.version) {
        return Ok(());
    }
    say(&format!("    not in {} yet: building it, which takes some minutes, once", root.join("bin").display()));
    // Kept when the build is interrupted, so that the next one goes on from there.
    let build = root.join("build").join(tool.name);
    let mut install = cargo()?;
    install.args(["install", tool.package, "--version", tool.version, "--force"]).arg("--root").arg(&root);
    install.args(["--features", tool.features]);
    if tool.locked {
        install.arg("--locked");
    }
    install
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", tool.opt_level)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    process::run(&mut install)?;
    let found = version_in(&root, tool);
    if found.as_deref() != Some(tool.version) {
        bail!("{} should be version {} and is {found:?}", program.display(), tool.version);
    }
    std::fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))
}

/// The version of a tool that cargo has installed under `root`; not all of them say it themselves.
fn version_in(root: &Path, tool: &Pinned) -> Option<String> {
    let installed = output(cargo().ok()?.args(["install", "--list", "--root"]).arg(root)).ok()?;
    version_listed(&installed, tool.package)
}

/// The number in a line `package v1.2.3:`.
fn version_listed(installed: &str, package: &str) -> Option<String> {
    let mut lines = installed.lines().filter_map(|line| line.strip_suffix(':')?.split_once(" v"));
    lines.find(|(name, _)| *name == package).map(|(_, version)| version.to_string())
}

/// Trunk builds without the network, so the crates of both sides have to be here before.
fn fetch() -> Result<()> {
    let host = output(command("rustc")?.arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not name its host")?;
    process::run(cargo()?.args(["fetch", "--quiet", "--target", WASM_TARGET, "--target", host]))
}

fn npm_packages() -> Result<()> {
    let root = workspace::root()?;
    let lock = std::fs::read(root.join("package-lock.json")).context("cannot read package-lock.json")?;
    let installed = root.join("node_modules/.installed-package-lock.json");
    if std::fs::read(&installed).is_ok_and(|before| before == lock) {
        return Ok(());
    }
    if process::find("npm").is_none() {
        bail!("Node.js with npm is needed for the browser tests (version 20 or newer); see https://nodejs.org");
    }
    process::run(command("npm")?.args(["ci", "--no-audit", "--no-fund"]))?;
    std::fs::write(&installed, lock).with_context(|| format!("cannot write {}", installed.display()))
}

fn chromium() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("CHROMIUM").map(PathBuf::from) {
        if !process::is_program(&chosen) {
            bail!("CHROMIUM is set to {}, which is no program", chosen.display());
        }
        return Ok(chosen);
    }
    let find = || CHROMIUM_NAMES.iter().find_map(|name| process::find(name));
    if let Some(found) = find() {
        return Ok(found);
    }
    apt_install(&["chromium", "fonts-liberation"])?;
    find().context("chromium was installed but is not on PATH; set CHROMIUM to its path")
}

fn vulkan_driver() -> Result<PathBuf> {
    let find = || {
        let files = std::fs::read_dir(VULKAN_DRIVERS).ok()?;
        let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
        files.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd")))
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    apt_install(&["mesa-vulkan-drivers"])?;
    find().with_context(|| format!("mesa-vulkan-drivers was installed but {VULKAN_DRIVERS} has no lvp_icd file"))
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if process::find("apt-get").is_none() {
        bail!("{names} (by Debian's names) must be installed by hand: there is no apt-get here");
    }
    let root = output(command("id")?.arg("-u"))?.trim() == "0";
    if !root && process::find("sudo").is_none() {
        bail!("{names} must be installed by an administrator: this user is not root and there is no sudo");
    }
    let apt = |arguments: &[&str]| -> Result<()> {
        let mut apt = if root { command("env")? } else { command("sudo")? };
        if !root {
            // It may ask for a password.
            apt.stdin(std::process::Stdio::inherit()).arg("env");
        }
        process::run(apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]).args(arguments))
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_agree_with_trunk_and_the_lock_file() {
        let root = workspace::root().unwrap();
        let trunk = std::fs::read_to_string(root.join("Trunk.toml")).unwrap();
        assert!(trunk.contains(&format!("trunk-version = \"={}\"", TRUNK.version)));
        assert!(trunk.contains(&format!("wasm_bindgen = \"{}\"", WASM_BINDGEN.version)));
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
        assert!(lock.contains(&format!("name = \"wasm-bindgen\"\nversion = \"{}\"\n", WASM_BINDGEN.version)));
    }

    #[test]
    fn a_tool_is_known_by_its_package() {
        let installed = "trunk v0.21.14:\n    trunk\nwasm_split_cli_support v0.2.4:\n    wasm-split-cli\n";
        assert_eq!(version_listed(installed, TRUNK.package).as_deref(), Some(TRUNK.version));
        assert_eq!(version_listed(installed, SPLITTER.package).as_deref(), Some(SPLITTER.version));
        assert_eq!(version_listed(installed, WASM_BINDGEN.package), None);
    }
}
