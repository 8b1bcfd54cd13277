// What the *screen* does while a reader drags a slider or watches a run.
import { Reader, host } from "../harness.mjs";
import { median } from "./numbers.mjs";

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
  async measure({ page }) {
    const times = await drag(new Reader(page, scene), input);
    return { laid_out: median(times.map(([laidOut]) => laidOut)), repainted: median(times.map(([, repainted]) => repainted)) };
  },
});

/** The main thread while a run is watched at normal pace. */
const watched = {
  id: "watched_run", unit: "ms", fewer: 5,
  async measure({ browser, url, backend }) {
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
  },
};

/** A run that is shown as fast as it comes, from the call to its promise. */
const fullPace = {
  id: "full_pace_run", unit: "ms",
  async prepare(bench) {
    return bench.prompts.lasting(6, bench.tokens(200));
  },
  async measure({ page, backend }, settings) {
    return page.locator("#generate").evaluate(async (element, settings) => {
      const begin = performance.now();
      const { steps } = await element.run({ pace: "max", cache: "on", ...settings });
      return { tokens: steps.length, milliseconds: performance.now() - begin };
    }, { backend, ...settings });
  },
};

export const SCREEN = [
  fullPace,
  slider("drag_temperature_generate", "#generate", "temperature"),
  slider("drag_temperature_sampling", "#sampling", "temperature"),
  slider("drag_top_k_sampling", "#sampling", "top_k"),
  slider("drag_roofline_prompt", "#generate", "roofline_prompt"),
  watched,
];
