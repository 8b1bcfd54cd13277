//! *Names* are how a module and the script that wasm-bindgen writes for it know what the one imports from the other. They
//! are long and end in a hash, and each is written down on both sides: short ones spare the reader several kilobytes.

use std::collections::HashMap;

use anyhow::Result;

use crate::wasm;

/// A module and its script with short names between them. `script_name` is the one by which the module imports it.
///
/// # Errors
/// These bytes are no WebAssembly module.
pub fn shorten(module: &[u8], script: &str, script_name: &str) -> Result<(Vec<u8>, String)> {
    let mut short = HashMap::new();
    let module = wasm::with_imports(module, |from, name| {
        if from != script_name {
            return (from.into(), name.into());
        }
        let next = format!("_{}", short.len());
        ("_".into(), short.entry(name.to_string()).or_insert(next).clone())
    })?;
    let script = script.replace(&format!("\"{script_name}\""), "\"_\"");
    Ok((module, without_layout(&with_names(&script, &short))))
}

/// The script with other names in the place of those known.
fn with_names(script: &str, names: &HashMap<String, String>) -> String {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '$';
    let mut out = String::new();
    let mut rest = script;
    while let Some(start) = rest.find(is_name) {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|char| !is_name(char)).unwrap_or(from.len()));
        out.push_str(before);
        out.push_str(names.get(name).map_or(name, String::as_str));
        rest = after;
    }
    out + rest
}

/// The script without indentation and without the comments that describe its functions. It has no text of several lines.
fn without_layout(script: &str) -> String {
    let mut in_comment = false;
    let mut out = String::new();
    for line in script.lines().map(str::trim) {
        in_comment |= line.starts_with("/**");
        if !in_comment && !line.is_empty() {
            out.push_str(line);
            out.push('\n');
        }
        in_comment &= !line.ends_with("*/");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_get_the_same_short_name() {
        let import = |from: &str, name: &str| {
            let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
            [text(from), text(name), vec![0, 0]].concat()
        };
        let section = |imports: &[Vec<u8>]| {
            let body = [vec![imports.len() as u8], imports.concat()].concat();
            [b"\0asm\x01\0\0\0".to_vec(), vec![2, body.len() as u8], body].concat()
        };
        let module = section(&[import("./app_bg.js", "__wbg_now_0123"), import("./other.js", "__wbg_now_0123")]);
        let script = "/**\n * Now.\n */\nconst it = {\n    __wbg_now_0123: function() {},\n    __wbg_now_0: 1,\n};\n\"./app_bg.js\": it\n";
        let (module, script) = shorten(&module, script, "./app_bg.js").unwrap();
        assert_eq!(module, section(&[import("_", "_0"), import("./other.js", "__wbg_now_0123")]));
        assert_eq!(script, "const it = {\n_0: function() {},\n__wbg_now_0: 1,\n};\n\"_\": it\n");
    }
}
