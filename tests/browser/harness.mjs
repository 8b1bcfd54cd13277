// The *harness* opens pages in the installed Chromium and knows where things are inside the element, so that the tests
// read like what a reader does.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { serve } from "./server.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Reference data that lies beside the checkout, or not. */
export const REFERENCE = `${ROOT}../shared/reference/prototype/reference`;

/** Models that others trained, with what their own program made of them; or not. */
export const THIRD_PARTY = `${ROOT}../shared/reference/third-party`;

export const ENGINES = ["cpu", "webgpu"];

// WebGPU runs on SwiftShader here: some 80 tokens a second, after a second or two of warming up.
export const SLOW = 120_000;

const FLAGS = [
  "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** The built site: INFERSCOPE_SITE, or what `cargo xtask build` wrote. */
export function siteFolder() {
  const site = process.env.INFERSCOPE_SITE ?? `${ROOT}dist`;
  assert.ok(existsSync(`${site}/infer-scope.js`), `there is no built site in ${site}; run cargo xtask test`);
  return site;
}

/** `more` are flags for the browser. */
export async function launch(more = []) {
  const known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const executablePath = process.env.CHROMIUM ?? known.find((path) => existsSync(path));
  assert.ok(executablePath, "no Chromium was found; set CHROMIUM to its path");
  return chromium.launch({ executablePath, args: [...FLAGS, ...more] });
}

/** Starts a server and a browser for the tests of one file, and gives them what they need through the result. */
export function useBrowser() {
  const stage = {};
  before(async () => {
    stage.server = await serve(siteFolder());
    stage.browser = await launch();
  });
  after(async () => {
    await stage.browser?.close();
    await stage.server?.close();
  });

  /**
   * Opens an address in a fresh profile and hands its reader to `body`. Afterwards nothing may have been written to the
   * console as an error and no exception may have escaped, unless `expected` matches it.
   */
  stage.visit = async (address, body, { expected, viewport, colorScheme, reducedMotion, init } = {}) => {
    const context = await stage.browser.newContext({ viewport: viewport ?? { width: 1280, height: 900 }, colorScheme, reducedMotion });
    try {
      const page = await context.newPage();
      const complaints = [];
      page.on("console", (message) => {
        if (message.type() === "error") complaints.push(`${message.text()} (${message.location().url})`);
      });
      page.on("pageerror", (error) => complaints.push(String(error)));
      page.on("crash", () => complaints.push("the page crashed"));
      if (init) await page.addInitScript(init);
      await page.goto(stage.server.url + address);
      await body(new Reader(page), page);
      assert.deepEqual(complaints.filter((line) => !expected?.test(line)), [], "the console has errors");
    } finally {
      await context.close();
    }
  };
  return stage;
}

/** An address of a host page with one element that has these attributes. */
export function host(attributes, mount = "/") {
  return `${mount}host?${new URLSearchParams(attributes)}`;
}

/** Somebody in front of one element. */
export class Reader {
  constructor(page, selector = "infer-scope") {
    this.page = page;
    this.element = page.locator(selector).first();
  }

  part(name) {
    return this.element.locator(`[data-part=${name}]`);
  }

  action(name) {
    return this.element.locator(`[data-action=${name}]`);
  }

  input(name) {
    return this.element.locator(`[name=${name}]`);
  }

  press(name) {
    return this.action(name).click();
  }

  /** Moves a range or number input, as a drag or typing would. */
  async set(name, value) {
    await this.input(name).evaluate((input, value) => {
      input.value = value;
      input.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      input.dispatchEvent(new Event("change", { bubbles: true, composed: true }));
    }, String(value));
  }

  async scrub(value) {
    await this.part("scrubber").evaluate((input, value) => {
      input.value = value;
      input.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      input.dispatchEvent(new Event("change", { bubbles: true, composed: true }));
    }, String(value));
  }

  /** Drags files, [{name, bytes}], over the element, and lets go of them there unless `hold`. */
  async drag(files, { hold = false } = {}) {
    const given = files.map(({ name, bytes }) => [name, Buffer.from(bytes).toString("base64")]);
    await this.element.evaluate(async (element, [given, hold]) => {
      const data = new DataTransfer();
      for (const [name, base64] of given) {
        data.items.add(new File([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))], name));
      }
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      const fire = async (type) => {
        const root = element.shadowRoot;
        const target = root.querySelector(".drop") ?? root.querySelector(".scope") ?? root.querySelector(".poster");
        const over = { dataTransfer: data, bubbles: true, composed: true, cancelable: true };
        target.dispatchEvent(new DragEvent(type, over));
        await frame();
      };
      await fire("dragenter");
      await fire("dragover");
      if (!hold) await fire("drop");
    }, [given, hold]);
  }

  /** Calls loadModel() with files and gives what it resolves with, or the error's words. */
  async loadModel(files) {
    const given = files.map(({ name, bytes }) => [name, Buffer.from(bytes).toString("base64")]);
    return this.element.evaluate((element, given) => {
      const files = given.map(([name, base64]) =>
        new File([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))], name));
      return element.loadModel(files).catch((error) => ({ error: error.message, kind: error.kind, name: error.name }));
    }, given);
  }

  state() {
    return this.element.evaluate((element) => element.state);
  }

  /** Waits until the element's state is one of those named. */
  async reaches(...states) {
    const deadline = Date.now() + SLOW;
    for (;;) {
      const state = await this.state();
      if (states.includes(state)) return state;
      if (state === "error" && !states.includes("error")) {
        assert.fail(`the element is in error: ${await this.part("problem").allTextContents()}`);
      }
      assert.ok(Date.now() < deadline, `still ${state} after ${SLOW / 1000} s, waiting for ${states.join(" or ")}`);
      await this.page.waitForTimeout(20);
    }
  }

  /** Calls a method of the element and waits for its end. */
  call(method, ...given) {
    return this.element.evaluate(async (element, [method, given]) => {
      await element[method](...given);
    }, [method, given]);
  }

  /**
   * Runs to the end without waiting for animation, and gives the trace that run() resolves with. A run can be over before
   * the views have come that are fetched when it begins; a look at them afterwards finds them there.
   */
  async run(settings = {}) {
    const trace = await this.element.evaluate(
      async (element, settings) => JSON.parse(JSON.stringify(await element.run(settings))),
      { pace: "max", ...settings },
    );
    const complete = () => this.element.evaluate(({ shadowRoot: root }) =>
      root.querySelector("[data-part=model]") !== null && root.querySelector(".coming") === null);
    await this.settles(complete, true, "the views that are fetched later");
    await this.paints();
    return trace;
  }

  /** Waits until what has been put on the page has been painted: views learn their width in the frame that they are in. */
  async paints() {
    await this.element.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  trace() {
    return this.element.evaluate((element) => JSON.parse(JSON.stringify(element.trace)));
  }

  /** Positions of the columns in each state of the grid on screen. */
  columns() {
    return this.part("column").evaluateAll((columns) => {
      const found = { filled: [], writing: [], recomputed: [], free: [] };
      for (const { dataset } of columns) found[dataset.state].push(Number(dataset.position));
      return found;
    });
  }

  /** How many columns of the cache are not free. */
  async used() {
    return this.part("column").evaluateAll((columns) => columns.filter((column) => column.dataset.state !== "free").length);
  }

  /** Waits until so many columns are in use. */
  async uses(count) {
    await this.settles(() => this.used(), count, "columns in use");
  }

  /** The arrows on screen: [position, weight], by position. */
  arrows() {
    return this.part("arrow").evaluateAll((arrows) =>
      arrows.map(({ dataset }) => [Number(dataset.to), Number(dataset.weight)]).sort((a, b) => a[0] - b[0]));
  }

  candidates() {
    return this.part("candidate").evaluateAll((bars) => bars.map(({ dataset }) => ({
      token: Number(dataset.token),
      before: Number(dataset.before),
      probability: Number(dataset.probability),
      kept: dataset.kept === "true",
    })));
  }

  /** The counters on screen: {name: {value, mark}}. */
  counters() {
    return this.element.locator("[data-counter]").evaluateAll((counters) => Object.fromEntries(
      counters.map(({ dataset }) => [dataset.counter, { value: Number(dataset.value), mark: dataset.mark }])));
  }

  async text() {
    return (await this.part("text").textContent()) ?? "";
  }

  /** Polls until `look` gives `wanted`: what is on screen follows the reader's act within a frame or a beat. */
  async settles(look, wanted, what) {
    const deadline = Date.now() + 10_000;
    for (;;) {
      const seen = await look();
      if (JSON.stringify(seen) === JSON.stringify(wanted)) return;
      if (Date.now() > deadline) assert.deepEqual(seen, wanted, what);
      await this.page.waitForTimeout(20);
    }
  }
}

export function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

export function ids(trace) {
  return trace.steps.map((step) => step.token.id);
}
