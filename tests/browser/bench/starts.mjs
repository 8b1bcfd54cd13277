// A *start* is measured on a page of its own, in a fresh profile: until the first token, and in the first run.
import { Reader, host, sum } from "../harness.mjs";
import { median } from "./numbers.mjs";

async function inFreshProfile(bench, body) {
  const context = await bench.browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    return await body(await context.newPage(), context);
  } finally {
    await context.close();
  }
}

/** From the press of Run on a page that has loaded nothing yet to the first token. */
const cold = (id, unit, slow) => ({
  id, unit, fewer: 5,
  measure: (bench) => inFreshProfile(bench, async (page, context) => {
    if (slow) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: 4 });
    const mount = slow ? "/slow-network/" : "/";
    const already = bench.requests.length;
    await page.goto(bench.url + host({ backend: bench.backend, prompt: "Once upon a time", "max-new-tokens": "4" }, mount));
    const bytes = () => sum(bench.requests.slice(already).map((request) => request.bytes));
    const before = bytes();
    const milliseconds = await page.locator("infer-scope").evaluate((element) => new Promise((done) => {
      const start = performance.now();
      element.addEventListener("step", () => done(performance.now() - start), { once: true });
      element.shadowRoot.querySelector("[data-action=run]").click();
    }));
    return { first_token_ms: milliseconds, bytes_before: before, bytes_fetched: bytes() - before };
  }),
});

/** The longest step of the first run after an engine said that it is ready: what it did not prepare shows there. */
const firstRun = {
  id: "first_run", unit: "ms", fewer: 5, engines: ["webgpu"],
  measure: (bench) => inFreshProfile(bench, async (page) => {
    await page.goto(bench.url + host({ backend: bench.backend, loading: "eager" }));
    const reader = new Reader(page);
    await reader.reaches("ready");
    const times = async () => {
      const { steps } = await reader.run({ maxNewTokens: bench.tokens(48) });
      return steps.map(({ milliseconds }) => milliseconds);
    };
    const [first, second] = [await times(), await times()];
    const longest = Math.max(...first);
    return {
      steps: first.length, longest_step_ms: longest, at_step: first.indexOf(longest),
      longest_decode_step_ms: Math.max(...first.slice(1)), median_step_ms: median(first),
      longest_step_of_second_run_ms: Math.max(...second),
    };
  }),
};

export const STARTS = [
  cold("cold_start", "ms", false),
  cold("cold_start_slow", "ms, 9 Mbit/s, 170 ms, CPU ÷ 4", true),
  firstRun,
];
