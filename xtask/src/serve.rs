//! To *serve* is to answer a browser on this machine with the files of a site. This server is for development: plain
//! HTTP on the local address, one thread a connection, nothing cached.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::engine::{self, Kind};
use crate::progress::{Progress, say};
use crate::setup;
use crate::site;
use crate::workspace;

/// Builds the page and serves it. The page opens on the CPU engine while the WebGPU engine, ten times its size, is
/// still building: until then the browser gets a plain 404 for it, which the page understands.
pub fn run(mut arguments: Arguments) -> Result<()> {
    let port = arguments.option("--port")?.map_or(Ok(8080), |port| port.parse::<u16>());
    let port = port.context("--port needs a number up to 65535")?;
    let release = arguments.flag("--release");
    arguments.finish()?;
    // Before the minutes of building, so that a taken port is told at once.
    let listener = TcpListener::bind(("127.0.0.1", port))
        .with_context(|| format!("cannot listen on port {port}; choose another with --port"))?;
    let url = format!("http://{}/", listener.local_addr()?);

    let mut progress = Progress::new(setup::STEPS_TO_BUILD + 3);
    let tools = setup::to_build(&mut progress)?;
    let profile = |kind: Kind| if release { kind.release() } else { engine::QUICK };
    let folder = workspace::target()?.join(if release { "site-release" } else { "site" });
    let title = |kind: Kind| format!("{} ({})", kind.title(), profile(kind));
    let cpu = progress.step(&title(Kind::Cpu), || engine::build(Kind::Cpu, profile(Kind::Cpu), &tools))?;
    let page = if release { "Page (release)" } else { "Page (debug)" };
    progress.step(page, || site::page(&tools, &folder, release))?;
    engine::put(Kind::Cpu, &cpu, &folder)?;

    let served = folder.clone();
    let server = std::thread::spawn(move || answer_all(&listener, served));
    say(&format!("\n    The page is at {url}\n\n    It runs on the CPU engine already. Ctrl-C ends it.\n"));
    let webgpu = progress.step(&title(Kind::Webgpu), || {
        engine::put(Kind::Webgpu, &engine::build(Kind::Webgpu, profile(Kind::Webgpu), &tools)?, &folder)
    });
    match webgpu {
        Ok(()) => say(&format!("\n    The page at {url} has both engines now; reload it to use WebGPU.\n")),
        Err(error) => {
            say(&format!("\n    The WebGPU engine could not be built ({error:#}); the page goes on without it.\n"))
        }
    }
    server.join().expect("the server does not panic");
    Ok(())
}

fn answer_all(listener: &TcpListener, folder: PathBuf) {
    let folder = Arc::new(folder);
    for connection in listener.incoming() {
        let Ok(connection) = connection else { continue };
        let folder = Arc::clone(&folder);
        // A browser that hangs up in the middle of an answer is none of our business.
        std::thread::spawn(move || drop(answer(connection, &folder)));
    }
}

fn answer(mut connection: TcpStream, folder: &Path) -> Result<()> {
    let mut request = BufReader::new(connection.try_clone()?);
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut header = String::new();
    while request.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "GET" && method != "HEAD" {
        return Ok(write!(
            connection,
            "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?);
    }
    let file = file_of(target, folder).and_then(|path| Some((std::fs::read(&path).ok()?, path)));
    let (status, kind, body) = match &file {
        Some((bytes, path)) => ("200 OK", media_type(path), bytes.as_slice()),
        None => ("404 Not Found", "text/plain; charset=utf-8", b"There is no such file here.\n".as_slice()),
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method == "GET" {
        connection.write_all(body)?;
    }
    Ok(())
}

/// The file that a request's target names, or none where it names nothing inside the folder.
fn file_of(target: &str, folder: &Path) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next()?;
    let mut file = folder.to_path_buf();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let part = decoded(part)?;
        if part.starts_with('.') || part.contains(['/', '\\', '\0']) {
            return None;
        }
        file.push(part);
    }
    if file.is_dir() {
        file.push("index.html");
    }
    Some(file)
}

/// Undoes percent encoding.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        // Browsers refuse to compile wasm while it arrives under any other type.
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_inside_the_folder() {
        let folder = Path::new("/site");
        assert_eq!(file_of("/engine/cpu.js?v=1", folder), Some("/site/engine/cpu.js".into()));
        assert_eq!(file_of("/a%20b.txt", folder), Some("/site/a b.txt".into()));
        assert_eq!(file_of("/../secret", folder), None);
        assert_eq!(file_of("/%2e%2e/secret", folder), None);
        assert_eq!(file_of("/x%2f..%2fsecret", folder), None);
        assert_eq!(file_of("/%zz", folder), None);
    }

    #[test]
    fn wasm_has_the_type_that_browsers_compile_while_loading() {
        assert_eq!(media_type(Path::new("cpu_bg.wasm")), "application/wasm");
    }
}
