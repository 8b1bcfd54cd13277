//! The *workspace* is the checkout this task works on, with the folders that are not in it: build output and the cache
//! of tools.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The workspace's root folder.
///
/// # Errors
/// The task runs outside `cargo xtask` and outside the checkout.
pub fn root() -> Result<PathBuf> {
    // Read when the task runs, not when it is compiled: a shared target folder may hold a binary built elsewhere.
    if let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR") {
        return Ok(Path::new(&manifest).parent().context("the xtask folder has no parent")?.to_path_buf());
    }
    let here = std::env::current_dir()?;
    let root = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(root.context("run this from inside the Inferscope checkout")?.to_path_buf())
}

/// Cargo's output folder: the one this binary lies in.
///
/// # Errors
/// The binary was copied out of its target folder.
pub fn target() -> Result<PathBuf> {
    let binary = std::env::current_exe()?;
    Ok(binary.ancestors().nth(2).context("xtask does not lie in a cargo target folder")?.to_path_buf())
}

/// Where tools are kept between runs and between checkouts.
///
/// # Errors
/// No home folder is known.
pub fn cache() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = variable("INFERSCOPE_CACHE") {
        return Ok(folder);
    }
    if let Some(folder) = variable("XDG_CACHE_HOME") {
        return Ok(folder.join("inferscope"));
    }
    let home = variable("HOME").context("set INFERSCOPE_CACHE or HOME, so that tools can be kept somewhere")?;
    Ok(home.join(".cache/inferscope"))
}

/// Copies a folder's content, without deleting what is already there.
///
/// # Errors
/// A file could not be read or written.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            copy_file(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Copies a file's content, not its permissions: a read-only source must not make the copy unreplaceable.
///
/// # Errors
/// The file could not be read or written.
pub fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}
