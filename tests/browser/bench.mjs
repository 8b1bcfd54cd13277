// A *figure* is one measured number of the page, the median of at least five rounds after a warm-up, printed as a line of
// JSON. Run through `cargo xtask bench`; a new figure is an entry of FIGURES. What is slow on a shared machine is slow here too,
// so nothing in the tests depends on these. Times of steps are the engine's own; times to a token are the reader's.
import { cpus } from "node:os";
import { argv } from "node:process";
import { Reader, host, launch, siteFolder } from "./harness.mjs";
import { serve } from "./server.mjs";

const ROUNDS = 7;
const STORY = "Once upon a time, there was a small boy named Tom. Tom had a red house near the beach. Zoe the girl was his dear friend. "
  + "One cold day Tom found a shiny map near the tall door. The map said nine steps from the tree. Zoe said maybe another farmer hid some apples. ";

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/** A median for each named part of the rounds' results. */
function medians(rounds) {
  const parts = Object.keys(rounds[0]).map((part) => [part, Number(median(rounds.map((it) => it[part])).toFixed(3))]);
  return Object.fromEntries(parts);
}

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

/** Figures that are measured again and again on a page that is loaded. */
const slider = (id, scene, input) => ({
  id, unit: "ms",
  async measure(page) {
    const times = await drag(new Reader(page, scene), input);
    return { laid_out: median(times.map(([laidOut]) => laidOut)), repainted: median(times.map(([, repainted]) => repainted)) };
  },
});

const prefill = (tokens) => ({
  id: `prefill_${tokens}`, unit: "tokens/s",
  async measure(page, backend) {
    const reader = new Reader(page, "#generate");
    const prompt = STORY.repeat(4).split(" ").slice(0, Math.round(tokens * 0.78)).join(" ");
    const { steps: [first], ...trace } = await reader.run({ backend, prompt, maxNewTokens: 1, temperature: 0 });
    return { tokens: trace.prompt.tokens.length, tokens_per_second: trace.prompt.tokens.length / first.milliseconds * 1000 };
  },
});

const decode = (id, cache, tokens) => ({
  id, unit: "tokens/s",
  async measure(page, backend) {
    const reader = new Reader(page, "#generate");
    const { steps } = await reader.run({ backend, prompt: "Once upon a time", maxNewTokens: tokens, temperature: 1.2, cache });
    const times = steps.slice(1).map(({ milliseconds }) => milliseconds);
    const at = (position) => median(steps.filter(({ first_position, positions }) =>
      Math.abs(first_position + positions - position) <= 8).slice(1).map(({ milliseconds }) => milliseconds));
    const result = { tokens: steps.length, tokens_per_second: times.length / times.reduce((sum, time) => sum + time, 0) * 1000 };
    return cache === "on" && steps.length > 190 ? { ...result, ms_at_16: at(16), ms_at_190: at(190) } : result;
  },
});

const FIGURES = [
  prefill(16), prefill(64), prefill(200),
  decode("decode", "on", 200), decode("decode_without_cache", "off", 60),
  slider("drag_temperature_generate", "#generate", "temperature"),
  slider("drag_temperature_sampling", "#sampling", "temperature"),
  slider("drag_top_k_sampling", "#sampling", "top_k"),
  slider("drag_roofline_prompt", "#generate", "roofline_prompt"),
];

/** From the press of Run on a page that has loaded nothing yet, in a fresh profile, to the first token and to the end. */
async function cold(browser, url, backend, slow) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    const page = await context.newPage();
    const client = await context.newCDPSession(page);
    let bytes = 0;
    await client.send("Network.enable");
    client.on("Network.loadingFinished", ({ encodedDataLength }) => { bytes += encodedDataLength; });
    if (slow) {
      await client.send("Network.emulateNetworkConditions", { offline: false, latency: 170, downloadThroughput: 9e6 / 8, uploadThroughput: 9e6 / 8 });
      await client.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    }
    await page.goto(url + host({ backend, prompt: "Once upon a time", "max-new-tokens": "4" }));
    const before = bytes;
    const milliseconds = await page.locator("infer-scope").evaluate((element) => new Promise((done) => {
      const start = performance.now();
      element.addEventListener("step", () => done(performance.now() - start), { once: true });
      element.shadowRoot.querySelector("[data-action=run]").click();
    }));
    return { first_token_ms: milliseconds, bytes_before: before, bytes_fetched: bytes - before };
  } finally {
    await context.close();
  }
}

/** Memory of the page after one run and after fifty. */
async function memory(browser, url, backend) {
  const page = await browser.newPage();
  try {
    await page.goto(url + host({ backend, loading: "eager" }));
    const reader = new Reader(page);
    const heap = async () => (await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0)) / 2 ** 20;
    await reader.run({ maxNewTokens: 24 });
    const after1 = await heap();
    for (let run = 0; run < 49; run++) await reader.run({ maxNewTokens: 24 });
    return { heap_mib_after_1: after1, heap_mib_after_50: await heap() };
  } finally {
    await page.close();
  }
}

/** The main thread while a run is watched at normal pace. */
async function watched(browser, url, backend) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  try {
    await page.goto(url + host({ backend, loading: "eager", "max-new-tokens": "12" }));
    const reader = new Reader(page);
    await reader.reaches("ready");
    await page.evaluate(() => {
      window.tasks = [];
      new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => window.tasks.push(duration))).observe({ type: "longtask" });
      window.frames = [];
      let last = performance.now();
      const count = (now) => {
        window.frames.push(now - last);
        last = now;
        requestAnimationFrame(count);
      };
      requestAnimationFrame(count);
    });
    await reader.press("run");
    await reader.reaches("done");
    const { tasks, frames } = await page.evaluate(() => ({ tasks: window.tasks, frames: window.frames }));
    const sorted = [...frames].sort((a, b) => a - b);
    return { longest_task_ms: Math.max(0, ...tasks), frame_ms_median: median(frames), frame_ms_99: sorted[Math.floor(sorted.length * 0.99)] };
  } finally {
    await page.close();
  }
}

const say = (figure, unit, backend, rounds, values) => console.log(JSON.stringify({ figure, unit, engine: backend, rounds, ...values }));

const backend = argv[2] ?? "cpu";
const server = await serve(siteFolder());
const browser = await launch();
try {
  console.log(JSON.stringify({ date: new Date().toISOString().slice(0, 10), machine: `${cpus().length} × ${cpus()[0].model}`, browser: `Chromium ${browser.version()}, headless` }));
  const several = async (count, once) => {
    const rounds = [];
    for (let round = 0; round <= count; round++) rounds.push(await once());
    return medians(rounds.slice(1));
  };
  say("cold_start", "ms", backend, 5, await several(5, () => cold(browser, server.url, backend, false)));
  say("cold_start_slow", "ms, 9 Mbit/s, 170 ms, CPU ÷ 4", backend, 5, await several(5, () => cold(browser, server.url, backend, true)));
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(server.url);
  for (const id of ["#generate", "#sampling"]) await new Reader(page, id).run({ backend, maxNewTokens: 48 });
  for (const { id, unit, measure } of FIGURES) {
    say(id, unit, backend, ROUNDS, await several(ROUNDS, () => measure(page, backend)));
  }
  await page.close();
  say("watched_run", "ms", backend, 5, await several(5, () => watched(browser, server.url, backend)));
  say("memory", "MiB", backend, 1, medians([await memory(browser, server.url, backend)]));
} finally {
  await browser.close();
  await server.close();
}
