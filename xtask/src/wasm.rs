//! A *module* is WebAssembly in its binary format: eight bytes of magic and version, then sections, each an id, its
//! length as LEB128, and its content. Custom sections (id 0) begin with their name. See the core specification, "Binary
//! Format", <https://webassembly.github.io/spec/core/binary/modules.html>.

use anyhow::{Context, Result, ensure};

/// The module without its name section: names of functions, which only a debugger reads and which are half of it.
///
/// # Errors
/// These bytes are no WebAssembly module.
pub fn without_names(module: &[u8]) -> Result<Vec<u8>> {
    ensure!(module.starts_with(b"\0asm"), "this is no WebAssembly module");
    let (header, mut rest) = module.split_at_checked(8).context("a WebAssembly module is cut off")?;
    let mut kept = header.to_vec();
    while let Some((&id, after_id)) = rest.split_first() {
        let (length, body) = leb128(after_id)?;
        let (body, after) = body.split_at_checked(length).context("a section of a WebAssembly module is cut off")?;
        if !(id == 0 && custom_name(body)? == b"name") {
            kept.extend_from_slice(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    Ok(kept)
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn only_the_names_go() {
        let producers: &[u8] = b"\0\x0B\x09producersx";
        let names: &[u8] = b"\0\x86\x00\x04name!";
        let code: &[u8] = b"\x0A\x05\x04name";
        let module = [HEADER, producers, names, code].concat();
        assert_eq!(without_names(&module).unwrap(), [HEADER, producers, code].concat());
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_an_error() {
        assert!(without_names(b"#!/bin/sh").is_err());
        assert!(without_names(&[HEADER, b"\x0A\x05abc"].concat()).is_err());
        assert!(without_names(&[HEADER, b"\x0A\x85\x80"].concat()).is_err());
    }
}
