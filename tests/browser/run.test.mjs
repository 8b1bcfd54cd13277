// Running the model as a reader does, on each engine: prefill in one beat, one column a step, arrows to every column,
// the same tokens without the cache, and the picture as a function of the step chosen.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ENGINES, SLOW, host, ids, sum, useBrowser } from "./harness.mjs";

const PROMPT = "Once upon a time";
/** With the token that begins every text. */
const P = 5;

/** What each engine drew by chance, with the same seed. */
const sampled = {};

const stage = useBrowser();

for (const engine of ENGINES) {
  const N = engine === "cpu" ? 12 : 8;
  const settings = { backend: engine, prompt: PROMPT, temperature: "0", "max-new-tokens": String(N) };

  describe(`on the ${engine} engine`, { timeout: 3 * SLOW }, () => {
    test("Run fills the prompt's columns in one beat and every step appends one", () =>
      stage.visit(host({ ...settings, loading: "eager" }), async (reader, page) => {
        await reader.reaches("ready");
        assert.equal(await reader.used(), 0, "free slots before the run");
        const context = (await reader.columns()).free.length;
        // What a reader sees: the columns in use at every frame.
        await reader.element.evaluate((element) => {
          const seen = (window.seen = []);
          const look = () => {
            const columns = [...element.shadowRoot.querySelectorAll("[data-part=column]")];
            const used = columns.filter((column) => column.dataset.state !== "free").length;
            if (seen.at(-1) !== used) seen.push(used);
            requestAnimationFrame(look);
          };
          look();
        });
        await reader.press("run");
        await reader.reaches("running");
        await reader.reaches("done");
        const seen = await page.evaluate(() => window.seen);
        assert.deepEqual(seen, [0, ...Array.from({ length: N }, (_, step) => P + step)]);
        const columns = await reader.columns();
        assert.deepEqual(columns.filled, Array.from({ length: P + N - 1 }, (_, position) => position));
        assert.equal(columns.free.length, context - (P + N - 1), "the slots that are left stay visible");
        await checkEnd(reader);
      }));

    async function checkEnd(reader) {
      const trace = await reader.trace();
      assert.equal(trace.backend.kind, engine);
      assert.match(await reader.part("engine").textContent(), engine === "cpu" ? /CPU/ : /WebGPU/);
      assert.deepEqual(trace.steps.map((step) => step.phase), ["prefill", ...Array(N - 1).fill("decode")]);
      assert.deepEqual(trace.steps.map((step) => step.positions), [P, ...Array(N - 1).fill(1)]);
      assert.equal(await reader.text(), trace.text);

      const cells = reader.part("cell");
      assert.equal(await cells.count(), (P + N - 1) * trace.model.n_layers, "one cell a layer and filled position");

      assert.equal(await reader.part("timeline").locator("[data-step]").count(), N);
      assert.match(await reader.part("ttft").textContent(), /\d.*(ms|s)\b/);

      const counters = await reader.counters();
      const work = (name) => sum(trace.steps.map((step) => step.work[name]));
      assert.deepEqual(counters.positions, { value: P + N - 1, mark: "counted" });
      assert.deepEqual(counters.flops, { value: work("flops"), mark: "counted" });
      assert.deepEqual(counters.weight_bytes, { value: work("weight_bytes"), mark: "counted" });
      assert.deepEqual(counters.cache_bytes_read, { value: work("cache_bytes_read"), mark: "counted" });
      const { n_layers, n_kv_heads, head_dim } = trace.model;
      const size = 2 * n_layers * n_kv_heads * head_dim * (P + N - 1) * 4;
      assert.deepEqual(counters.cache_size, { value: size, mark: "counted" });
      assert.equal(counters.milliseconds.mark, "measured");
      assert.ok(counters.milliseconds.value > 0);
    }

    test("arrows, steps, cells and the run without the cache", async (t) => {
      await stage.visit(host({ ...settings, loading: "eager" }), async (reader) => {
        await reader.reaches("ready");
        const cached = await reader.run();

        await t.test("arrows reach every cached column and share the whole attention", async () => {
          for (const step of [0, 1, N - 1]) {
            await reader.call("seek", step);
            const keys = P + step;
            await reader.settles(async () => (await reader.arrows()).map(([to]) => to), [...Array(keys).keys()], "arrows");
            const weights = (await reader.arrows()).map(([, weight]) => weight);
            assert.ok(weights.every((weight) => weight >= 0), String(weights));
            assert.ok(Math.abs(sum(weights) - 1) < 0.01, `weights sum to ${sum(weights)}`);
          }
        });

        await t.test("a layer and a head can be chosen, and the mean of all heads is their mean", async () => {
          await reader.call("seek", 1);
          const weights = async () => (await reader.arrows()).map(([, weight]) => weight);
          const mean = await weights();
          const options = await reader.input("layer").locator("option").count();
          assert.equal(options, cached.model.n_layers + 1, "every layer and their mean");
          await reader.input("layer").selectOption({ index: 1 });
          await reader.settles(async () => JSON.stringify(await weights()) !== JSON.stringify(mean), true, "another layer");
          const layer = await weights();
          const heads = [];
          for (let head = 1; head <= cached.model.n_heads; head++) {
            await reader.input("head").selectOption({ index: head });
            await reader.page.waitForTimeout(50);
            heads.push(await weights());
          }
          layer.forEach((weight, position) => {
            const average = sum(heads.map((head) => head[position])) / heads.length;
            assert.ok(Math.abs(average - weight) < 2e-3, `position ${position}: ${average} against ${weight}`);
          });
          await reader.input("head").selectOption({ index: 0 });
          await reader.input("layer").selectOption({ index: 0 });
        });

        await t.test("a cell tells its numbers to the mouse and to the keyboard", async () => {
          const cell = reader.element.locator("[data-part=cell][data-layer='0'][data-position='2']");
          await cell.hover();
          await reader.part("cell-details").waitFor({ state: "visible" });
          assert.match(await reader.part("cell-details").textContent(), /\d/);
          const other = reader.element.locator("[data-part=cell][data-layer='1'][data-position='1']");
          const before = await reader.part("cell-details").textContent();
          await other.focus();
          await reader.settles(async () => (await reader.part("cell-details").textContent()) !== before, true, "details");
        });

        await t.test("without the cache every step runs the prefix again, with the same tokens", async () => {
          await reader.input("cache").uncheck();
          const uncached = await reader.run();
          assert.equal(uncached.settings.cache, "off");
          assert.deepEqual(ids(uncached), ids(cached));
          assert.equal(uncached.text, cached.text);
          const positions = Array.from({ length: N }, (_, step) => P + step);
          assert.deepEqual(uncached.steps.map((step) => step.positions), positions);
          assert.deepEqual(uncached.steps.map((step) => step.work.positions), positions);
          assert.ok(uncached.steps.every((step) => step.first_position === 0));
          const columns = await reader.columns();
          assert.deepEqual(columns.recomputed, Array.from({ length: P + N - 1 }, (_, position) => position));
          assert.deepEqual(columns.filled, []);
          const counters = await reader.counters();
          assert.equal(counters.positions.value, N * P + (N * (N - 1)) / 2);
          assert.equal(counters.cache_size.value, 0);
          const curve = (name) => reader.part("growth").locator(`[data-curve=${name}]`).first().getAttribute("data-run");
          assert.equal(await curve("uncached"), "true");
          assert.equal(await curve("cached"), "true", "of the run before");
          await reader.input("cache").check();
          assert.equal((await reader.run()).settings.cache, "on");
          assert.equal(await curve("uncached"), "true", "of the run before");
          assert.equal(await curve("cached"), "true");
        });

        await t.test("the same seed gives the same tokens, another seed others", async () => {
          const chance = { temperature: 1.5, maxNewTokens: 6 };
          const first = await reader.run({ ...chance, seed: 3 });
          const again = await reader.run({ ...chance, seed: 3 });
          assert.deepEqual(ids(again), ids(first));
          const others = [];
          for (const seed of [4, 5, 6]) others.push(String(ids(await reader.run({ ...chance, seed }))));
          assert.ok(others.some((tokens) => tokens !== String(ids(first))), String(others));
          sampled[engine] = ids(first);
        });
      });
    });
  });
}

test("both engines draw the same tokens with the same seed", () => {
  assert.equal(sampled.cpu?.length, 6);
  assert.deepEqual(sampled.webgpu, sampled.cpu);
});
