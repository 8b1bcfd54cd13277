// What the generate scene teaches with: questions before the beats, the timeline's scales, and the run as a file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { host, ids, useBrowser } from "./harness.mjs";

const stage = useBrowser();

const SETTINGS = { backend: "cpu", loading: "eager", "max-new-tokens": "6", prompt: "Once upon a time" };
const visit = (body, attributes) => stage.visit(host({ ...SETTINGS, ...attributes }), body);

const text = (reader, part) => reader.part(part).textContent();

async function guess(reader, number) {
  await reader.input("guess").fill(String(number));
  await reader.input("guess").press("Enter");
}

test("a reader who wants to be asked guesses, and the run answers", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.settles(() => reader.part("chip").count(), 5, "tokens of the prompt");
  await reader.input("ask").check();
  await reader.press("run");
  assert.match(await text(reader, "question"), /5 tokens long.*columns/);
  assert.equal(await reader.state(), "ready", "the run waits");
  await guess(reader, 1);
  await reader.part("reveal").waitFor();
  assert.match(await text(reader, "reveal"), /^You said 1: it was 5,/);
  assert.equal((await reader.columns()).filled.length, 5);
  await reader.settles(() => text(reader, "question"), "The next step adds one token. How many columns will it compute?", "the question");
  await guess(reader, 1);
  await reader.settles(async () => (await text(reader, "reveal")).startsWith("Right: it was 1,"), true, "the answer");
  assert.equal((await reader.columns()).filled.length, 6);
  assert.equal(await reader.part("question").count(), 0);
  await reader.press("run");
  await reader.reaches("done");
}));

test("without the cache the question is about the whole run", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.settles(() => reader.part("chip").count(), 5, "tokens of the prompt");
  await reader.part("speed").selectOption("max");
  await reader.input("ask").check();
  await reader.press("run");
  await guess(reader, 10);
  await reader.reaches("done");
  const { steps } = await reader.trace();
  const positions = steps.reduce((sum, { work }) => sum + work.positions, 0);
  assert.match(await text(reader, "reveal"), new RegExp(`^You said 10: it was ${positions}, each of the ${steps.length} steps`));
}, { cache: "off" }));

test("a question can be skipped, and nobody is asked who did not want it", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.settles(() => reader.part("chip").count(), 5, "tokens of the prompt");
  await reader.input("ask").check();
  await reader.press("run");
  await reader.press("skip");
  await reader.reaches("done");
  assert.equal(await reader.part("quiz").count(), 0);
  await reader.input("ask").uncheck();
  await reader.press("run");
  await reader.reaches("done");
}));

test("on the logarithmic timeline a short step is wider, and the whole is the same", () => visit(async (reader) => {
  await reader.run();
  const widths = () => reader.part("timeline").locator("[data-step]").evaluateAll((all) =>
    all.map((rect) => Number(rect.getAttribute("width"))));
  const linear = await widths();
  await reader.input("log_time").check();
  const log = await widths();
  assert.equal(log.length, linear.length);
  const shortest = linear.indexOf(Math.min(...linear));
  assert.ok(log[shortest] > linear[shortest], `${log} against ${linear}`);
}));

test("the run can be saved as trace events", () => visit(async (reader, page) => {
  const trace = await reader.run();
  const [download] = await Promise.all([page.waitForEvent("download"), reader.press("save-trace")]);
  assert.equal(download.suggestedFilename(), "inferscope-trace.json");
  const { traceEvents } = JSON.parse(readFileSync(await download.path(), "utf8"));
  const bars = traceEvents.filter(({ ph }) => ph === "X");
  assert.equal(bars.length, trace.steps.length);
  assert.equal(bars[0].args.positions, 5);
  assert.ok(Math.abs(bars[1].ts - trace.steps[0].milliseconds * 1000) < 1e-6);
}));

test("every head has a thumbnail, and a click shows its arrows", () => visit(async (reader) => {
  await reader.run({ pace: "timed", maxNewTokens: 3 });
  const { n_layers, n_heads } = (await reader.trace()).model;
  await reader.settles(() => reader.part("head").count(), n_layers * n_heads, "heads");
  const weights = () => reader.part("arrow").evaluateAll((all) => all.map(({ dataset }) => Number(dataset.weight)));
  const mean = await weights();
  const thumb = reader.element.locator("[data-part=head][data-layer='4'][data-head='2']");
  await thumb.click();
  assert.equal(await thumb.getAttribute("aria-pressed"), "true");
  const own = await weights();
  assert.notDeepEqual(own, mean);
  assert.ok(Math.abs(own.reduce((sum, weight) => sum + weight, 0) - 1) < 1e-3);
  assert.match(await text(reader, "head-words"), /Layer 5, head 3 /);
  assert.equal(await reader.input("layer").inputValue(), "4", "the lists say the same");
  await thumb.click();
  await reader.settles(async () => JSON.stringify(await weights()), JSON.stringify(mean), "the mean again");
}));

test("a token in focus shows what it attends to and what attends to it, and those agree", () => visit(async (reader) => {
  const { prompt, steps } = await reader.run();
  const last = prompt.tokens.length + steps.length - 2;
  const arrows = () => reader.part("arrow").evaluateAll((all) =>
    all.map(({ dataset }) => ({ from: Number(dataset.from), to: Number(dataset.to), weight: Number(dataset.weight) })));
  const between = (all, from, to) => all.find((arrow) => arrow.from === from && arrow.to === to)?.weight;
  await reader.settles(async () => (await arrows()).length, last + 1, "arrows of the newest token");
  // At maximum pace nothing was looked at, and of the prompt only the last token's row is read by itself.
  await reader.element.locator(".story [data-focus='2']").click();
  await reader.settles(async () => (await arrows()).length, 3 + (last - 2), "arrows of a token of the prompt, both ways");
  const second = await arrows();
  const outward = second.filter(({ from }) => from === 2);
  assert.ok(Math.abs(outward.reduce((sum, { weight }) => sum + weight, 0) - 1) < 1e-3);
  assert.match(await text(reader, "focus"), /at position 2 attends most to .*Most attended to by .* of \d+ later tokens/);
  // Another one, with a key: what it gives to the first is what the first gets from it.
  for (const position of [3, last]) {
    await reader.element.locator(`[data-layer='1'][data-position='${position}']`).focus();
    await reader.element.locator(`[data-layer='1'][data-position='${position}']`).press("Enter");
    await reader.settles(async () => (await arrows()).at(-1).from, last, "arrows");
    await reader.settles(async () => between(await arrows(), position, 2), between(second, position, 2), "the same weight");
  }
  await reader.element.locator(`[data-layer='1'][data-position='3']`).press("Escape");
  await reader.settles(() => text(reader, "focus"), "Click or tap a word to see which tokens it attends to, and which attend to it.", "no focus");
  await reader.element.locator("[data-part=grip][data-focus='4']").dispatchEvent("click");
  await reader.settles(async () => (await arrows())[0].from, 4, "arrows from the word over the grid");
  await reader.press("unfocus");
  await reader.settles(async () => new Set((await arrows()).map(({ from }) => from)).size, 1, "the newest token's arrows");
}));

test("where motion is unwelcome, each step stands still with its arrows and its token", () =>
  stage.visit(host({ ...SETTINGS, loading: "eager" }), async (reader) => {
    await reader.reaches("ready");
    await reader.press("run");
    await reader.settles(async () => (await reader.part("arrow").count()) > 0, true, "the prefill's arrows");
    const seen = new Set();
    for (let look = 0; look < 12; look++) {
      // In one go, so that both are of the same moment.
      const { arrows, opacity, columns } = await reader.element.evaluate(({ shadowRoot: root }) => ({
        arrows: root.querySelectorAll("[data-part=arrow]").length,
        opacity: getComputedStyle(root.querySelector(".arrows")).opacity,
        columns: root.querySelectorAll("[data-part=column]:not([data-state=free])").length,
      }));
      assert.deepEqual([arrows, opacity], [columns, "1"], "all of a step is there at once");
      seen.add(columns);
      await reader.page.waitForTimeout(150);
    }
    assert.ok(seen.size >= 2, "and the run goes on");
  }, { reducedMotion: "reduce" }));

test("a branch is not held against the run without the cache", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.part("speed").selectOption("max");
  await reader.press("run-both");
  await reader.part("comparison").waitFor();
  await reader.reaches("done");
  const { steps } = await reader.trace();
  const other = steps[1].candidates.map(({ id }) => id).find((id) => id !== steps[1].token.id);
  await reader.element.evaluate((element, id) => element.branch(1, id), other);
  await reader.reaches("done");
  assert.equal(await reader.part("comparison").count(), 0);
}));

test("with the keyboard: from head to head, to the last cell, and on after a branch", () => visit(async (reader, page) => {
  await reader.run({ pace: "timed", maxNewTokens: 3 });
  const active = () => reader.element.evaluate(({ shadowRoot }) => ({ ...shadowRoot.activeElement?.dataset }));
  await reader.element.locator("[data-part=head][tabindex='0']").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  const { layer, head } = await active();
  assert.deepEqual([layer, head], ["1", "1"]);
  await reader.part("cell").first().focus();
  await page.keyboard.press("End");
  assert.equal((await active()).position, String((await reader.used()) - 1));
  await page.keyboard.press("Home");
  assert.equal((await active()).position, "0");
  await reader.element.locator("[data-action=branch]:not([disabled])").first().focus();
  await page.keyboard.press("Enter");
  assert.match((await active()).action, /^(run|pause)$/);
  await reader.reaches("done");
}));

test("steps that went by unseen can be looked at afterwards", () => visit(async (reader) => {
  await reader.run();
  await reader.action("look-at-all").waitFor();
  await reader.press("look-at-all");
  await reader.settles(() => reader.action("look-at-all").count(), 0, "steps to look at");
  assert.match(await text(reader, "heads"), /Names say what most of a head’s attention in this run went to/);
}));

test("a cell says which query heads read each of its KV heads", () => visit(async (reader) => {
  await reader.run();
  await reader.part("cell").first().hover();
  await reader.part("cell-details").waitFor();
  const words = await text(reader, "cell-details");
  const { n_heads, n_kv_heads } = (await reader.trace()).model;
  assert.equal(n_heads / n_kv_heads, 2);
  for (let head = 1; head <= n_kv_heads; head++) {
    assert.match(words, new RegExp(`KV head ${head}\\s*query heads ${2 * head - 1} and ${2 * head}`));
  }
}));

test("another token at a step goes on from there, on the columns that are kept", () => visit(async (reader) => {
  const first = await reader.run({ temperature: 1, maxNewTokens: 12 });
  const [best, second] = first.steps[4].candidates.map(({ id }) => id).filter((id) => id !== first.steps[4].token.id);
  assert.equal(await reader.element.evaluate((element) => element.branch(99, 5)), false);
  assert.equal(await reader.element.evaluate((element, id) => element.branch(4, id), best), true);
  await reader.reaches("done");
  const branch = await reader.trace();
  assert.deepEqual(ids(branch).slice(0, 4), ids(first).slice(0, 4));
  assert.equal(branch.steps[4].token.id, best);
  assert.equal(branch.steps[4].chosen, true);
  const next = branch.steps[5];
  const prompt = first.prompt.tokens.length;
  assert.deepEqual([next.first_position, next.positions], [prompt + 4, 1], "only the new token was run");
  const rows = () => reader.part("branch").evaluateAll((all) => all.map(({ dataset }) => dataset.reused ?? null));
  assert.deepEqual(await rows(), [null, String(prompt + 4)]);

  // From the branch another, by hand.
  await reader.element.evaluate((element) => element.seek(2));
  await reader.part("candidate").first().waitFor();
  const button = reader.element.locator("[data-action=branch]:not([disabled])").first();
  await button.click();
  await reader.reaches("done");
  assert.equal((await rows()).length, 3);
  // Back to the first, which is as it was, and can be branched again.
  await reader.part("branch").first().locator("button").click();
  assert.deepEqual(ids(await reader.trace()), ids(first));
  assert.equal(await reader.state(), "done");
  await reader.element.evaluate((element, id) => element.branch(4, id), second);
  await reader.reaches("done");
  assert.equal((await rows()).length, 4);
  // A new run has no branches.
  await reader.run();
  assert.equal((await rows()).length, 0);
}));

test("one click runs both ways, and the curves are those of the steps", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.part("speed").selectOption("max");
  await reader.press("run-both");
  await reader.part("comparison").waitFor();
  await reader.reaches("done");
  assert.match(await text(reader, "comparison"), /the same 6 tokens/);
  assert.equal((await reader.trace()).settings.cache, "on");
  assert.equal(await reader.input("cache").isChecked(), true);
  const run = (name) => reader.part("growth").locator(`[data-curve=${name}]`).getAttribute("data-run");
  assert.deepEqual([await run("cached"), await run("uncached")], ["true", "true"]);
  assert.match(await text(reader, "growth"), /with the cache: linear, 10 in all.*without: quadratic, 45 in all/s);
  await reader.input("measure").selectOption("pairs");
  assert.match(await text(reader, "growth"), /with the cache: quadratic, 55 in all.*without: cubic, 200 in all/s);
}));

for (const when of ["between two steps", "while a step is told of"]) {
  test(`a run that is left ${when} lacks nothing when it is shown again`, () => visit(async (reader) => {
    const whole = await reader.run({ temperature: 1, maxNewTokens: 40 });
    const other = whole.steps[2].candidates.map(({ id }) => id).find((id) => id !== whole.steps[2].token.id);
    // At maximum pace the next step is under way as soon as one has come.
    const ended = await reader.element.evaluate((element, [when, other]) => new Promise((done) => {
      let count = 0;
      element.addEventListener("step", () => {
        if (++count !== 6) return;
        if (when === "between two steps") queueMicrotask(() => element.branch(2, other));
        else element.branch(2, other);
      });
      element.run({ pace: "max" }).then(() => done("it ended"), ({ name }) => done(name));
    }), [when, other]);
    assert.equal(ended, "AbortError");
    await reader.reaches("done");
    await reader.part("branch").first().locator("button").click();
    await reader.settles(async () => (await reader.trace()).steps[2].token.id, whole.steps[2].token.id, "the first run");
    if (await reader.state() !== "done") await reader.press("run");
    await reader.reaches("done");
    // What the page's scripts are told of, and what the pictures are made from.
    for (const again of [await reader.trace(), await reader.element.evaluate((element) => element.fullTrace(1))]) {
      assert.deepEqual(again.steps.map(({ index }) => index), whole.steps.map(({ index }) => index));
      assert.deepEqual(ids(again), ids(whole));
    }
    assert.equal(await reader.used(), whole.prompt.tokens.length + whole.steps.length - 1, "all of it is shown");
  }));
}

test("both ways can be asked for while the model is still on its way, and a run of one's own calls it off", () =>
  stage.visit(host({ ...SETTINGS, loading: "click" }), async (reader) => {
    const mounted = reader.element.evaluate((element) => element.load());
    await reader.action("run-both").waitFor();
    await reader.press("run-both");
    await mounted;
    await reader.part("comparison").waitFor();
    assert.equal((await reader.trace()).settings.cache, "on");
    await reader.reaches("done");
    await reader.set("max_new_tokens", 200);
    await reader.press("run-both");
    await reader.reaches("running");
    await reader.settles(() => reader.part("speed").inputValue(), "max", "the hurry of the first half");
    await reader.press("reset");
    await reader.settles(() => reader.part("speed").inputValue(), "1", "the reader's own pace");
    const trace = await reader.run({ maxNewTokens: 3 });
    assert.equal(trace.settings.cache, "off", "what was set for the first half stays, and is to be seen");
    assert.equal(await reader.input("cache").isChecked(), false);
    assert.equal(await reader.state(), "done");
  }));
