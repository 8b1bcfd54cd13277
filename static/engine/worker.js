// An engine's worker: loads the WebAssembly engine named by the query (?kind=cpu or ?kind=webgpu) and hands it every
// message. The engine posts its replies itself. What goes wrong before it can do so is posted from here, as {error}.

const kind = new URL(import.meta.url).searchParams.get("kind");
const name = { cpu: "CPU", webgpu: "WebGPU" }[kind];

// Messages that come before the engine is up wait here; without a listener from the start they would be lost.
const early = [];
self.onmessage = (event) => early.push(event.data);

try {
  if (!name) throw new Error(`there is no engine of the kind “${kind}”`);
  // The module comes along with the script that runs it.
  const wasm = fetch(new URL(`./${kind}_bg.wasm`, import.meta.url));
  wasm.catch(() => {}); // Whoever waits for it hears of it.
  const engine = await import(`./${kind}.js`);
  // A panic, or an exception that the browser throws within a command, comes out here and nowhere else.
  const onFailure = (event) => {
    event.preventDefault();
    engine.fail(textOf(event.error ?? event.reason ?? event.message));
  };
  self.addEventListener("error", onFailure);
  self.addEventListener("unhandledrejection", onFailure);
  await engine.default({ module_or_path: wasm });
  // A command as bytes, or a model that the page's element had in hand before the app was there.
  const take = (data) => (data.model ? engine.load(data.model, data.files) : engine.receive(data));
  self.onmessage = (event) => take(event.data);
  early.forEach(take);
} catch (error) {
  self.postMessage({ error: `The ${name ?? "unknown"} engine could not be loaded: ${textOf(error)}.` });
}

function textOf(error) {
  return String(error?.message ?? error).replace(/\.$/, "");
}
