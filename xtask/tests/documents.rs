//! The documents at the root name files and folders. Each of them has to be there.

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 2] = ["README.md", "ARCHITECTURE.md"];

/// Not in the checkout: written by builds, or laid beside it.
const ELSEWHERE: [&str; 4] = ["dist", "target", "node_modules", ".."];

const EXTENSIONS: [&str; 10] = ["rs", "toml", "md", "js", "mjs", "json", "html", "css", "bin", "lock"];

fn root() -> PathBuf {
    // Asked for at run time: a test binary may have been built in another checkout that shares the build folder.
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("..")
}

/// What stands between backticks, and the targets of links.
fn names_in(document: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut names = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            names.extend(line.split('`').skip(1).step_by(2));
            let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            names.extend(links.filter(|link| !link.contains(':') && !link.starts_with('#')));
        }
    }
    names
}

/// Whether a name means a path of the checkout: it begins with a folder of the root, or of crates/, or it ends like a
/// file.
fn is_path(name: &str, root: &Path) -> bool {
    let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/".contains(letter));
    let (first, rest) = name.split_once('/').unwrap_or((name, ""));
    if !plain || ELSEWHERE.contains(&first) {
        return false;
    }
    let in_folder = name.contains('/') && (root.join(first).is_dir() || root.join("crates").join(first).is_dir());
    let like_a_file =
        Path::new(name).extension().and_then(|end| end.to_str()).is_some_and(|end| EXTENSIONS.contains(&end));
    first == "crates" && !rest.is_empty()
        || in_folder
        || like_a_file && (name.contains('/') || root.join(name).exists())
}

fn missing_paths(document: &str, root: &Path) -> Vec<String> {
    let names = names_in(document).into_iter().filter(|name| is_path(name, root));
    let missing = names.filter(|name| !root.join(name).exists() && !root.join("crates").join(name).exists());
    missing.map(String::from).collect()
}

#[test]
fn documents_name_no_path_that_is_gone() {
    for name in DOCUMENTS {
        let document = std::fs::read_to_string(root().join(name)).unwrap();
        assert!(names_in(&document).iter().any(|name| is_path(name, &root())), "{name} names no path at all");
        assert_eq!(missing_paths(&document, &root()), Vec::<String>::new(), "{name} names paths that are gone");
    }
}

#[test]
fn a_path_that_is_gone_is_found() {
    let document = "See `crates/gone/src/lib.rs`, `xtask/src/main.rs`, `f32`, `top-k/top-p`, [it](xtask/gone.md) and\n\
                    `core/src/gone.rs`, but not\n```\n`crates/also-gone`\n```\n";
    assert_eq!(missing_paths(document, &root()), ["crates/gone/src/lib.rs", "xtask/gone.md", "core/src/gone.rs"]);
}
