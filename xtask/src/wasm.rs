//! A *module* is WebAssembly in its binary format: eight bytes of magic and version, then sections, each an id, its
//! length as LEB128, and its content. Custom sections (id 0) begin with their name. See the core specification, "Binary
//! Format", <https://webassembly.github.io/spec/core/binary/modules.html>.

use anyhow::{Context, Result};

/// The module without its name section: names of functions, which only a debugger reads and which are half of it.
///
/// # Errors
/// These bytes are no WebAssembly module.
pub fn without_names(module: &[u8]) -> Result<Vec<u8>> {
    let mut kept = HEADER.to_vec();
    for section in sections(module)? {
        if !(section.id == 0 && custom_name(section.body)? == b"name") {
            kept.extend_from_slice(section.whole);
        }
    }
    Ok(kept)
}

/// The module with other names for what it imports: `rename` gets where something comes from and what it is called there,
/// and says what to write instead.
///
/// # Errors
/// These bytes are no WebAssembly module.
pub fn with_imports(module: &[u8], mut rename: impl FnMut(&str, &str) -> (String, String)) -> Result<Vec<u8>> {
    const IMPORTS: u8 = 2;
    let mut out = HEADER.to_vec();
    for section in sections(module)? {
        if section.id != IMPORTS {
            out.extend_from_slice(section.whole);
            continue;
        }
        let (count, mut rest) = leb128(section.body)?;
        let mut body = Vec::new();
        put_leb128(&mut body, count);
        for _ in 0..count {
            let (from, after) = text(rest)?;
            let (name, after) = text(after)?;
            let (new_from, new_name) = rename(from, name);
            for text in [new_from, new_name] {
                put_leb128(&mut body, text.len());
                body.extend_from_slice(text.as_bytes());
            }
            rest = after_description(after)?;
            body.extend_from_slice(&after[..after.len() - rest.len()]);
        }
        out.push(IMPORTS);
        put_leb128(&mut out, body.len());
        out.extend_from_slice(&body);
    }
    Ok(out)
}

/// What follows the description of an import: its kind, and what that kind says of itself.
fn after_description(bytes: &[u8]) -> Result<&[u8]> {
    let (&kind, rest) = bytes.split_first().context("an import of a WebAssembly module is cut off")?;
    let limits = |bytes| -> Result<_> {
        let (flags, rest) = leb128(bytes)?;
        let (_, rest) = leb128(rest)?;
        Ok(if flags & 1 == 1 { leb128(rest)?.1 } else { rest })
    };
    match kind {
        // A function is of a type; a table has a type of one byte before its limits; a tag an attribute before its type.
        0 => Ok(leb128(rest)?.1),
        1 => limits(rest.get(1..).context("a table of a WebAssembly module is cut off")?),
        2 => limits(rest),
        3 => rest.get(2..).context("a global of a WebAssembly module is cut off"),
        4 => Ok(leb128(leb128(rest)?.1)?.1),
        _ => anyhow::bail!("a WebAssembly module imports something of kind {kind}, which is not known"),
    }
}

const HEADER: &[u8] = b"\0asm\x01\0\0\0";

struct Section<'a> {
    id: u8,
    body: &'a [u8],
    /// With its id and its length.
    whole: &'a [u8],
}

fn sections(module: &[u8]) -> Result<Vec<Section<'_>>> {
    let mut rest = module.strip_prefix(HEADER).context("this is no WebAssembly module")?;
    let mut sections = Vec::new();
    while let Some((&id, after_id)) = rest.split_first() {
        let (length, body) = leb128(after_id)?;
        let (body, after) = body.split_at_checked(length).context("a section of a WebAssembly module is cut off")?;
        sections.push(Section { id, body, whole: &rest[..rest.len() - after.len()] });
        rest = after;
    }
    Ok(sections)
}

fn text(bytes: &[u8]) -> Result<(&str, &[u8])> {
    let (length, rest) = leb128(bytes)?;
    let (text, rest) = rest.split_at_checked(length).context("a name in a WebAssembly module is cut off")?;
    Ok((std::str::from_utf8(text)?, rest))
}

fn custom_name(body: &[u8]) -> Result<&[u8]> {
    let (length, rest) = leb128(body)?;
    rest.get(..length).context("a custom section of a WebAssembly module is cut off")
}

/// An unsigned number of at most 32 bits, and what follows it.
fn leb128(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut number = 0u64;
    for (index, &byte) in bytes.iter().take(5).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((usize::try_from(number)?, &bytes[index + 1..]));
        }
    }
    anyhow::bail!("a length in a WebAssembly module is cut off")
}

fn put_leb128(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 & 0x7F | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_go() {
        let producers: &[u8] = b"\0\x0B\x09producersx";
        let names: &[u8] = b"\0\x86\x00\x04name!";
        let code: &[u8] = b"\x0A\x05\x04name";
        let module = [HEADER, producers, names, code].concat();
        assert_eq!(without_names(&module).unwrap(), [HEADER, producers, code].concat());
    }

    #[test]
    fn imports_of_every_kind_are_called_something_else() {
        let module = |name: &str| {
            let kinds: [&[u8]; 5] = [&[0, 0x80, 1], &[1, 0x70, 1, 2, 0x90, 1], &[2, 0, 17], &[3, 0x7F, 1], &[4, 0, 3]];
            let imports = kinds.map(|kind| [&[1, b'a', name.len() as u8], name.as_bytes(), kind].concat()).concat();
            let length = [(imports.len() + 1) as u8 | 0x80, ((imports.len() + 1) >> 7) as u8];
            let length = if imports.len() < 0x7F { vec![imports.len() as u8 + 1] } else { length.to_vec() };
            [HEADER, &[2], &length, &[5], &imports, b"\x0A\x01\0"].concat()
        };
        let renamed = with_imports(&module("longer"), |from, name| (from.into(), name[..2].into())).unwrap();
        assert_eq!(renamed, module("lo"));
        let long = "x".repeat(40);
        assert_eq!(with_imports(&module("short"), |from, _| (from.into(), long.clone())).unwrap(), module(&long));
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_an_error() {
        assert!(without_names(b"#!/bin/sh").is_err());
        assert!(without_names(&[HEADER, b"\x0A\x05abc"].concat()).is_err());
        assert!(without_names(&[HEADER, b"\x0A\x85\x80"].concat()).is_err());
    }
}
