// A *figure* is one measured number of the page, the median of at least five rounds after a warm-up, printed as a line of
// JSON. Run through `cargo xtask bench`; a new figure is an entry of FIGURES. What is slow on a shared machine is slow here too,
// so nothing in the tests depends on these.
import { cpus } from "node:os";
import { Reader, launch, siteFolder } from "./harness.mjs";
import { serve } from "./server.mjs";

const ROUNDS = 7;

/** Moves a slider as a drag does, and gives for each move the milliseconds until the page is laid out anew and until the frame
 * with it has gone to the screen. The second includes waiting for that frame: up to 16.7 ms at 60 a second. */
function drag(reader, name, moves = 24) {
  return reader.input(name).first().evaluate(async (input, moves) => {
    const [from, to] = [Number(input.min), Number(input.max)];
    const frame = () => new Promise((done) => requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => done();
      port2.postMessage(null);
    }));
    const times = [];
    for (let move = 0; move <= moves; move++) {
      await frame();
      const start = performance.now();
      input.value = String(from + ((to - from) * (0.2 + (0.6 * move) / moves)));
      input.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true }));
      // Everything that follows a signal runs before this task's microtasks end.
      await null;
      input.getRootNode().host.getBoundingClientRect();
      const laidOut = performance.now() - start;
      await frame();
      times.push([laidOut, performance.now() - start]);
    }
    return times.slice(1);
  }, moves);
}

const slider = (id, scene, input) => ({
  id, unit: "ms",
  async measure(page) {
    const times = await drag(new Reader(page, scene), input);
    return { laid_out: median(times.map(([laidOut]) => laidOut)), repainted: median(times.map(([, repainted]) => repainted)) };
  },
});

const FIGURES = [
  slider("drag_temperature_generate", "#generate", "temperature"),
  slider("drag_temperature_sampling", "#sampling", "temperature"),
  slider("drag_top_k_sampling", "#sampling", "top_k"),
  slider("drag_roofline_prompt", "#generate", "roofline_prompt"),
];

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const server = await serve(siteFolder());
const browser = await launch();
try {
  console.log(JSON.stringify({ machine: `${cpus().length} × ${cpus()[0].model}`, browser: `Chromium ${browser.version()}, headless` }));
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(server.url);
  for (const id of ["#generate", "#sampling"]) await new Reader(page, id).run({ maxNewTokens: 48 });
  for (const { id, unit, measure } of FIGURES) {
    const rounds = [];
    for (let round = 0; round <= ROUNDS; round++) rounds.push(await measure(page));
    const parts = Object.keys(rounds[0]).map((part) => [part, Number(median(rounds.slice(1).map((it) => it[part])).toFixed(2))]);
    console.log(JSON.stringify({ figure: id, unit, rounds: ROUNDS, ...Object.fromEntries(parts) }));
  }
} finally {
  await browser.close();
  await server.close();
}
