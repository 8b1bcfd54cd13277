// A *speed* is what an engine does in a time: measured on a page that is loaded and warm, and beside the baseline, which does
// the same work in the same round. `ratio` is how many times as fast as the baseline the engine is.
//
// Times are the engine's own, of whole steps: the pass, its read-back, and the draw of a token. The baseline takes the best
// token and has nothing to read back. The widget is not displayed meanwhile: the baseline runs while the page rests, and on a
// machine of two cores a page that paints takes a fifth of an engine's time. What a reader waits for is `full_pace_run`.
import assert from "node:assert/strict";
import { Reader, sum } from "../harness.mjs";
import { mean, median } from "./numbers.mjs";

// A widget keeps the settings of its last run, so each says whether it wants the cache.
async function run({ page, backend }, settings) {
  const reader = new Reader(page, "#generate");
  const display = (value) => reader.element.evaluate((element, value) => { element.style.display = value; }, value);
  await display("none");
  try {
    return await reader.run({ backend, cache: "on", ...settings });
  } finally {
    await display("");
  }
}

const perSecond = (tokens, milliseconds) => tokens / milliseconds * 1000;

const ratioOfSpeeds = (engine, plain) => ({ ratio: engine.tokens_per_second / plain.tokens_per_second });

const prefill = (most) => ({
  id: `prefill_${most}`, unit: "tokens/s", ratio: ratioOfSpeeds,
  async measure(bench) {
    const { text } = bench.prompts.ofTokens(most);
    const { steps: [first], prompt: { tokens } } = await run(bench, { prompt: text, maxNewTokens: 1, temperature: 0 });
    return { tokens: tokens.length, tokens_per_second: perSecond(tokens.length, first.milliseconds) };
  },
  async plain(bench) {
    const { ids } = bench.prompts.ofTokens(most);
    return { tokens: ids.length, tokens_per_second: perSecond(ids.length, await bench.baseline.does("prefill", { prompt: ids })) };
  },
});

const SHORT = 6;

/** All tokens by all the time; and the step in the middle, which does not know when another program had the processor. */
const speedOf = (times) => ({
  tokens: times.length + 1, tokens_per_second: perSecond(times.length, sum(times)), median_step_ms: median(times),
});

const decode = (id, most, { cache, task }) => ({
  id, unit: "tokens/s",
  ratio: (engine, plain) => ({
    ...ratioOfSpeeds(engine, plain), ratio_of_median_steps: plain.median_step_ms / engine.median_step_ms,
  }),
  async prepare(bench) {
    return bench.prompts.lasting(SHORT, bench.tokens(most));
  },
  async measure(bench, settings) {
    const { steps } = await run(bench, { ...settings, cache });
    return speedOf(steps.slice(1).map(({ milliseconds }) => milliseconds));
  },
  async plain(bench, { maxNewTokens: tokens }) {
    return speedOf(await bench.baseline.does(task, { prompt: bench.prompts.ofTokens(SHORT).ids, tokens }));
  },
});

/** Steps at so many positions around the one that is named are averaged. */
const WINDOW = 16;
const POSITIONS = [16, 240];
const window = (position) => [position - WINDOW / 2, position + WINDOW / 2];

/** What a step costs early and late in the context. Each is reached by decoding from a prompt that ends shortly before it. */
const positions = {
  id: "decode_positions", unit: "ms",
  async prepare({ prompts }) {
    const settings = (position) => prompts.lasting(window(position)[0] - 1, WINDOW + 2);
    return [await settings(POSITIONS[0]), await settings(POSITIONS[1])];
  },
  async measure(bench, settings) {
    const milliseconds = async (index) => {
      const [from, to] = window(POSITIONS[index]);
      const { steps } = await run(bench, settings[index]);
      const within = steps.filter(({ phase, first_position }) => phase === "decode" && first_position >= from && first_position < to);
      assert.ok(within.length > WINDOW / 2, `the run ended with ${within.length} of ${WINDOW} steps around position ${POSITIONS[index]}`);
      return within.map((step) => step.milliseconds);
    };
    const times = [[], []];
    for (let time = 0; time < (bench.slow ? 1 : 5); time++) {
      for (const index of times.keys()) times[index].push(...await milliseconds(index));
    }
    return early_and_late(times.map(mean));
  },
  async plain(bench) {
    const [last] = POSITIONS.slice(-1);
    await bench.baseline.does("prefill", { prompt: bench.prompts.ofTokens(window(last)[0]).ids });
    const times = [];
    for (const position of POSITIONS) {
      const [from, to] = window(position);
      times.push(await bench.baseline.does("at", { from, to, times: 5 }));
    }
    return early_and_late(times);
  },
  ratio(engine, plain) {
    return { ratio_at_16: plain.ms_at_16 / engine.ms_at_16, ratio_at_240: plain.ms_at_240 / engine.ms_at_240 };
  },
};

function early_and_late([early, late]) {
  return { ms_at_16: early, ms_at_240: late, ms_240_by_16: late / early };
}

export const SPEEDS = [
  prefill(16), prefill(64), prefill(200),
  decode("decode", 200, { cache: "on", task: "decode" }),
  decode("decode_without_cache", 60, { cache: "off", task: "decode_without_cache" }),
  positions,
];
