// What goes wrong in the world reaches the reader as a sentence, the page as an event, and never as a silent stop.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, useBrowser } from "./harness.mjs";

const SETTINGS = { backend: "cpu", prompt: "Once upon a time", temperature: "0", "max-new-tokens": "4" };

const stage = useBrowser();

const FAULTS = [
  ["the model's files are missing", "/without-model/", /model/i],
  ["the model file is cut short", "/short-model/", /model|checkpoint|file/i],
  ["the engine's file is broken", "/broken-engine/", /engine/i],
  ["the network fails", "/cut-off/", /model|engine|fetch|network|connection/i],
];

for (const [what, mount, words] of FAULTS) {
  test(`${what}: the element says so in a sentence`, () =>
    stage.visit(host(SETTINGS, mount), async (reader, page) => {
      await page.evaluate(() => {
        window.errors = 0;
        document.addEventListener("error", () => window.errors++);
      });
      await reader.press("run");
      await reader.reaches("error");
      const problem = reader.part("problem");
      await problem.waitFor({ state: "visible" });
      const sentence = (await problem.textContent()).trim();
      assert.equal(await problem.getAttribute("role"), "alert");
      assert.match(sentence, words);
      assert.match(sentence, /^[A-ZÀ-Ý“"‘'0-9].*\S$/s);
      assert.doesNotMatch(sentence, /undefined|\[object|panicked|unwrap|null/);
      assert.equal(await page.evaluate(() => window.errors), 1);
      const rejected = await reader.element.evaluate((element) => element.run({ pace: "max" }).then(() => null, String));
      assert.ok(rejected, "run() rejects");
    }, { expected: /Failed to load resource|ERR_EMPTY_RESPONSE|404/ }));
}

test("after the network is back, Run works without a reload", () =>
  stage.visit(host(SETTINGS), async (reader, page) => {
    await page.context().setOffline(true);
    await reader.press("run");
    await reader.reaches("error");
    await page.context().setOffline(false);
    await reader.press("run");
    await reader.reaches("done");
    assert.equal(await reader.part("problem").count(), 0, "the problem is gone");
  }, { expected: /ERR_INTERNET_DISCONNECTED|Failed to load resource/ }));

for (const [scene, part, piece] of [["generate", "later", "growth"], ["paged", "batches", "requests"]]) {
  test(`in ${scene}, a part that cannot be fetched says so, and comes with another try`, () =>
    stage.visit(host({ ...SETTINGS, scene }), async (reader, page) => {
      await page.route(`**/split_${part}.wasm`, (route) => route.abort());
      await reader.press("run");
      const missing = reader.part("missing-part");
      await missing.waitFor({ state: "visible" });
      assert.match(await missing.textContent(), /could not be fetched.*connection/);
      assert.equal(await reader.part(piece).count(), 0);
      await page.unrouteAll();
      await reader.press("fetch-again");
      await reader.part(piece).waitFor();
      assert.equal(await missing.count(), 0, "the sentence is gone");
      await reader.reaches("done");
    }, { expected: /ERR_FAILED|Failed to fetch|Failed to load resource/ }));
}

test("settings that make no sense are told, or brought into range", () =>
  stage.visit(host({ ...SETTINGS, temperature: "-3", "top-k": "no", "max-new-tokens": "0", seed: "x" }), async (reader) => {
    const outcome = await reader.element.evaluate((element) =>
      element.run({ pace: "max" }).then((trace) => JSON.parse(JSON.stringify(trace)), (error) => String(error)));
    if (typeof outcome === "string") assert.match(outcome, /\w+ \w+/);
    else assert.ok(outcome.settings.temperature >= 0 && outcome.settings.max_new_tokens >= 1);
  }));
