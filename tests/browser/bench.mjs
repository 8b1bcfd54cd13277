// A *figure* is one measured number of the page or several that belong together: medians of at least five rounds after a
// warm-up, printed as a line of JSON. Run through `cargo xtask bench`; a new figure is an entry of a list in bench/. What is
// slow on a shared machine is slow here too, so nothing in the tests depends on these.
//
// A figure has an `id`, a `unit` and `measure(bench, prepared)`, which is one round; and perhaps `prepare(bench)`, `plain(bench,
// prepared)`, the same work in the baseline's plain loops, with `ratio(engine, plain)`; `fewer`, the most rounds it needs;
// `once`, where there are no rounds; and `engines`, where it is not for all.
import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Reader, launch, siteFolder } from "./harness.mjs";
import { serve } from "./server.mjs";
import { Baseline } from "./bench/baseline.mjs";
import { MEMORY } from "./bench/memory.mjs";
import { mean, medians } from "./bench/numbers.mjs";
import { Prompts } from "./bench/prompts.mjs";
import { SCREEN } from "./bench/screen.mjs";
import { SPEEDS } from "./bench/speeds.mjs";
import { STARTS } from "./bench/starts.mjs";

const FIGURES = [...STARTS, ...SPEEDS, ...SCREEN, ...MEMORY];

// For memory: a heap told to the byte, and garbage collected when we ask.
const FLAGS = ["--enable-precise-memory-info", "--js-flags=--expose-gc"];

const ROUNDS = 7;
/** An engine of fewer tokens a second, as WebGPU on a software adapter is, gets fewer rounds of fewer tokens. */
const SLOW = 100;

/** What figures are measured with. */
class Bench {
  constructor(backend, browser, { url, requests }) {
    Object.assign(this, { backend, browser, url, requests });
  }

  /** Loads the page with both the engine and the baseline, and makes sure that they agree. Gives how many tokens they agree on. */
  async open() {
    this.page = await this.browser.newPage({ viewport: { width: 1280, height: 900 } });
    await this.page.goto(this.url);
    this.prompts = await Prompts.of(this.page);
    this.baseline = await Baseline.on(this.page);
    const agreed = await this.baseline.agrees(this.page, this.prompts);
    // The sliders of this scene need a run to redraw, on whichever engine.
    await new Reader(this.page, "#sampling").run({ backend: "cpu", maxNewTokens: 48 });
    const { steps } = await new Reader(this.page, "#generate").run({ backend: this.backend, maxNewTokens: 12 });
    this.speed = 1000 / mean(steps.slice(1).map(({ milliseconds }) => milliseconds));
    return agreed;
  }

  get slow() {
    return this.speed < SLOW;
  }

  /** How many tokens to generate where `most` are wanted: a slow engine gets what it does in some three seconds. */
  tokens(most) {
    return this.slow ? Math.min(most, Math.max(8, Math.round(3 * this.speed))) : most;
  }

  async print(figure) {
    const { id, unit, fewer = ROUNDS, once } = figure;
    const rounds = once ? 1 : this.slow ? 2 : Math.min(fewer, ROUNDS);
    const [engine, plain] = [[], []];
    const prepared = await figure.prepare?.(this);
    // The first round warms up.
    for (let round = once ? 1 : 0; round <= rounds; round++) {
      const [its, plains] = [await figure.measure(this, prepared), await figure.plain?.(this, prepared)];
      if (round === 0) continue;
      engine.push(plains ? { ...its, ...figure.ratio(its, plains) } : its);
      if (plains) plain.push(plains);
    }
    if (plain.length > 0) say({ figure: id, unit, engine: "baseline", rounds, ...medians(plain) });
    say({ figure: id, unit, engine: this.backend, rounds, ...medians(engine) });
  }
}

const say = (line) => console.log(JSON.stringify(line));

const { positionals: [backend = "cpu"], values: { only } } = parseArgs({ allowPositionals: true, options: { only: { type: "string" } } });
const names = only?.split(",") ?? FIGURES.map(({ id }) => id);
const unknown = names.filter((name) => !FIGURES.some(({ id }) => id === name));
if (unknown.length > 0) {
  console.error(`There is no figure called ${unknown.join(" or ")}; there are ${FIGURES.map(({ id }) => id).join(", ")}.`);
  process.exit(1);
}
const baseline = process.env.INFERSCOPE_BASELINE;
assert.ok(baseline, "INFERSCOPE_BASELINE should name the baseline's module; cargo xtask bench builds it");

const site = siteFolder();
const server = await serve(site, { isolated: true, beside: { "bench/baseline.wasm": baseline } });
const browser = await launch(FLAGS);
try {
  const bench = new Bench(backend, browser, server);
  const agreed = await bench.open();
  say({
    date: new Date().toISOString().slice(0, 10), machine: `${cpus().length} × ${cpus()[0].model}`,
    browser: `Chromium ${browser.version()}, headless`, site_built: (await stat(`${site}/index.html`)).mtime.toISOString(),
    tokens_as_the_baseline: agreed,
  });
  for (const figure of FIGURES.filter(({ id, engines }) => names.includes(id) && (engines?.includes(backend) ?? true))) {
    try {
      await bench.print(figure);
    } catch (error) {
      // The others can be measured nevertheless.
      say({ figure: figure.id, engine: backend, failed: error.message });
      process.exitCode = 1;
    }
  }
} finally {
  await browser.close();
  await server.close();
}
