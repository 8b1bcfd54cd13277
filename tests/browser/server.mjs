// A *server* gives browsers the built site, as any static server would, and the host pages of tests/hosts beside it.
//
// The first folder of an address picks a *mount*: the same site, served whole or with a fault. So every fault reaches
// the page the way it would in the world, through the network.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

// Folders that lie beside the site, and what their files' addresses begin with.
const BESIDE = {
  "hosts/": fileURLToPath(new URL("../hosts/", import.meta.url)),
  "bench/": fileURLToPath(new URL("bench/", import.meta.url)),
};

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".webp": "image/webp",
  ".wasm": "application/wasm",
};

// What each mount does with a file of the site before it is read: nothing, or an answer of its own.
const MOUNTS = {
  "/": () => undefined,
  "/some/sub/path/": () => undefined,
  "/without-webgpu/": (file) => (file.startsWith("engine/webgpu") ? { status: 404 } : undefined),
  "/without-model/": (file) => (file.startsWith("model/") ? { status: 404 } : undefined),
  "/short-model/": (file) => (file.endsWith("story.infer") ? { keep: 100_000 } : undefined),
  "/broken-engine/": (file) => (file === "engine/cpu_bg.wasm" ? { keep: 5_000 } : undefined),
  "/cut-off/": (file) => (/^(engine|model)\//.test(file) ? { hangUp: true } : undefined),
  "/slow-network/": () => ({ slow: true }),
  "/counting-gpu-buffers/": (file) => (file === "engine/worker.js" ? { prefix: 'import "/bench/gpu-buffers.js";\n' } : undefined),
};

// What arrives over a slow network comes after a round trip, and at this rate all together. The browser's own emulation leaves
// out what a worker fetches, and so the engines.
const SLOW_NETWORK = { roundTrip: 170, bytesPerMillisecond: 9e6 / 8 / 1000, chunk: 16 * 1024 };

// Pages that load nothing from elsewhere get a finer clock: 5 µs instead of 100.
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };

/** Serves `site` on a free port. `requests` lists what was asked for, as {path, bytes}. `beside` has paths of more files by
 * their addresses. */
export async function serve(site, { isolated = false, beside = {} } = {}) {
  const requests = [];
  // When the slow network will have sent everything it was given.
  let free = 0;
  const slowly = async (response, body) => {
    const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
    await wait(SLOW_NETWORK.roundTrip);
    for (let at = 0; at < body.length; at += SLOW_NETWORK.chunk) {
      const chunk = body.subarray(at, at + SLOW_NETWORK.chunk);
      free = Math.max(free, performance.now()) + chunk.length / SLOW_NETWORK.bytesPerMillisecond;
      await wait(free - performance.now());
      response.write(chunk);
    }
  };
  const server = createServer(async (request, response) => {
    const address = new URL(request.url, "http://localhost");
    const path = decodeURIComponent(address.pathname);
    const mount = Object.keys(MOUNTS).filter((prefix) => path.startsWith(prefix)).sort((a, b) => b.length - a.length)[0];
    const file = normalize(path.slice(mount.length) || "index.html");
    const fault = MOUNTS[mount](file) ?? {};
    if (fault.hangUp) return response.destroy();
    let body = null;
    if (file === "host") body = hostPage(address.searchParams);
    else if (fault.status === undefined && !file.startsWith("..")) {
      const folder = Object.keys(BESIDE).find((folder) => file.startsWith(folder));
      const source = beside[file] ?? (folder ? join(BESIDE[folder], file.slice(folder.length)) : join(site, file));
      body = await readFile(source).catch(() => null);
    }
    if (fault.prefix !== undefined && body !== null) body = Buffer.concat([Buffer.from(fault.prefix), body]);
    if (fault.keep !== undefined && body !== null) body = body.subarray(0, fault.keep);
    requests.push({ path, bytes: body?.length ?? 0 });
    const type = file === "host" ? TYPES[".html"] : (TYPES[extname(file)] ?? "application/octet-stream");
    response.writeHead(body === null ? 404 : 200, {
      "content-type": body === null ? "text/plain" : type,
      // The element may be embedded by a page of another origin.
      "access-control-allow-origin": "*",
      ...(isolated ? ISOLATED : {}),
    });
    if (fault.slow && body !== null) {
      await slowly(response, body);
      return response.end();
    }
    response.end(body ?? "There is no such file here.");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, close };
}

/** A page that holds one element, with the address's parameters as its attributes. */
function hostPage(attributes) {
  const quoted = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  const list = [...attributes].map(([name, value]) => ` ${name}="${quoted(value)}"`).join("");
  return Buffer.from(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>A host page</title>
<script type="module" src="infer-scope.js"></script>
<infer-scope${list}></infer-scope>
</html>
`);
}
