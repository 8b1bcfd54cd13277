// Everything a reader can press, drag and type: the controls of the run, the scrubber, the keyboard, the sampler's
// sliders, the prompt. On the CPU engine: none of it depends on the engine.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, ids, sum, useBrowser } from "./harness.mjs";

const P = 5;
const N = 10;
const SETTINGS = {
  backend: "cpu", prompt: "Once upon a time", temperature: "0", "max-new-tokens": String(N), loading: "eager",
};

const stage = useBrowser();

const visit = (attributes, body) => stage.visit(host({ ...SETTINGS, ...attributes }), body);

/** Shows every step whole and at once: pressing Step while a picture is on its way would only complete that one. */
const hurry = (reader) => reader.part("speed").selectOption("max");

test("Step, Back, Pause and Reset", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await hurry(reader);
  await reader.press("step");
  await reader.uses(P);
  await reader.reaches("paused");
  assert.equal((await reader.trace()).steps.length, 1, "a single step runs the prefill and no more");
  await reader.press("step");
  await reader.uses(P + 1);
  await reader.reaches("paused");
  await reader.press("step");
  await reader.uses(P + 2);
  await reader.reaches("paused");
  await reader.press("back");
  await reader.uses(P + 1);
  assert.equal((await reader.trace()).steps.length, 3, "going back forgets nothing");
  await reader.press("back");
  await reader.uses(P);
  await reader.press("back");
  await reader.uses(0);
  assert.equal(await reader.state(), "paused");

  await reader.part("speed").selectOption("1");
  await reader.press("run");
  await reader.reaches("running");
  await reader.uses(P + 1);
  await reader.press("pause");
  await reader.reaches("paused");
  const steps = (await reader.trace()).steps.length;
  const used = await reader.used();
  await reader.page.waitForTimeout(1500);
  assert.equal((await reader.trace()).steps.length, steps, "a pause asks for no step");
  assert.equal(await reader.used(), used, "a pause stops the picture");

  await reader.press("reset");
  await reader.reaches("ready");
  await reader.uses(0);
  assert.equal(await reader.part("newest").count(), 0);
}));

test("the scrubber and seek() show every recorded step again", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.run();
  await reader.reaches("done");
  const scrubber = reader.part("scrubber");
  const last = Number(await scrubber.getAttribute("max"));
  for (const back of [0, 1, 4, N - 1]) {
    await reader.scrub(last - back);
    await reader.uses(P + N - 1 - back);
    const counters = await reader.counters();
    assert.equal(counters.positions.value, P + N - 1 - back);
  }
  for (const step of [0, 3, N - 1]) {
    await reader.call("seek", step);
    await reader.uses(P + step);
    const shown = (await reader.part("newest").textContent()).trim();
    assert.equal(shown, trace.steps[step].token.text.trim(), "the newest token is that step's");
  }
  assert.deepEqual(ids(await reader.trace()), ids(trace), "looking changes nothing");
}));

test("Space and the arrow keys do what the buttons do", () => visit({}, async (reader, page) => {
  await reader.reaches("ready");
  await hurry(reader);
  await reader.element.locator("#growth-title").click();
  const scrolled = await page.evaluate(() => scrollY);
  await page.keyboard.press("ArrowRight");
  await reader.uses(P);
  await reader.reaches("paused");
  await page.keyboard.press("ArrowRight");
  await reader.uses(P + 1);
  await reader.reaches("paused");
  await page.keyboard.press("ArrowLeft");
  await reader.uses(P);
  await reader.part("speed").selectOption("1");
  await reader.element.locator("#growth-title").click();
  await page.keyboard.press(" ");
  await reader.reaches("running");
  await page.keyboard.press(" ");
  await reader.reaches("paused");
  assert.equal(await page.evaluate(() => scrollY), scrolled, "the keys do not scroll the page besides");
  // In the prompt box the same keys are for typing.
  const box = reader.part("prompt");
  await box.focus();
  await page.keyboard.press("End");
  await page.keyboard.type(" ");
  assert.equal(await box.inputValue(), "Once upon a time ");
  assert.equal(await reader.state(), "paused");
}));

test("a cell in focus keeps it while its column is drawn anew", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await reader.part("speed").selectOption("0.25");
  const first = () => reader.element.evaluate(({ shadowRoot: root }) => {
    const column = root.querySelector("[data-part=column]");
    const cell = column.querySelector("[data-part=cell]");
    return { state: column.dataset.state, focused: cell !== null && root.activeElement === cell };
  });
  await reader.press("step");
  await reader.settles(first, { state: "writing", focused: false }, "the prompt is being written");
  await reader.part("cell").first().focus();
  assert.deepEqual(await first(), { state: "writing", focused: true });
  await reader.settles(first, { state: "filled", focused: true }, "another state, the same focus");
}));

test("at full pace the steps come in turns, and a script can stop within one and go on", () => visit({ "max-new-tokens": "120" }, async (reader) => {
  await reader.reaches("ready");
  const whole = await reader.run();
  const { stopped, again } = await reader.element.evaluate(async (element) => {
    let seen = 0;
    element.addEventListener("step", () => { if (++seen === 3) element.pause(); });
    const stop = new Promise((done) => element.addEventListener("statechange", ({ detail }) => { if (detail.state === "paused") done(); }));
    const running = element.run({ pace: "max" });
    await stop;
    await new Promise((done) => setTimeout(done, 200));
    const stopped = element.state;
    element.play();
    return { stopped, again: JSON.parse(JSON.stringify(await running)) };
  });
  assert.equal(stopped, "paused");
  assert.deepEqual(ids(again), ids(whole), "the same text, whatever came between");
  assert.deepEqual(again.steps.map(({ index }) => index), whole.steps.map(({ index }) => index), "each step once");
}));

test("a script can begin another run within a turn of one", () => visit({ "max-new-tokens": "60" }, async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.element.evaluate(async (element) => {
    let seen = 0;
    const second = new Promise((done) => element.addEventListener("step", () => {
      if (++seen === 5) done(element.run({ pace: "max", prompt: "The little dog", maxNewTokens: 7 }));
    }));
    element.run({ pace: "max" }).catch(() => {});
    return JSON.parse(JSON.stringify(await second));
  });
  assert.equal(trace.prompt.text, "The little dog");
  assert.deepEqual(trace.steps.map(({ index }) => index), [0, 1, 2, 3, 4, 5, 6], "nothing of the run before is in it");
}));

test("methods play(), pause(), step(), back() and reset()", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await reader.call("step");
  await reader.uses(P);
  await reader.reaches("paused");
  await reader.call("play");
  await reader.reaches("running");
  await reader.call("pause");
  await reader.reaches("paused");
  await reader.call("seek", 0);
  await reader.uses(P);
  await reader.call("back");
  await reader.uses(0);
  await reader.call("reset");
  await reader.reaches("ready");
  assert.equal(await reader.used(), 0);
}));

test("sliders redraw the bars of the recorded step at once", () => visit({ temperature: "1" }, async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.run();
  await reader.call("seek", 2);
  const logits = new Map(trace.steps[2].candidates.map(({ id, logit }) => [id, logit]));
  const before = await reader.candidates();
  assert.ok(before.length >= 5 && before.every((bar) => bar.before > 0));

  for (const temperature of [2, 0.5, 1]) {
    await reader.set("temperature", temperature);
    await reader.page.waitForTimeout(100);
    const [first, ...others] = await reader.candidates();
    for (const bar of others.slice(0, 4)) {
      // Whatever the other tokens weigh, two probabilities are in the ratio of e to their logits' difference.
      const expected = (logits.get(bar.token) - logits.get(first.token)) / temperature;
      const seen = Math.log(bar.probability / first.probability);
      assert.ok(Math.abs(seen - expected) < 0.02, `at ${temperature}: ${seen} against ${expected}`);
    }
    const unscaled = (await reader.candidates()).map((bar) => bar.before);
    assert.deepEqual(unscaled, before.map((bar) => bar.before), "the model's own probabilities stay");
  }

  // This slider's scale is logarithmic, from 1 to the vocabulary's size.
  await reader.set("top_k", (1000 * Math.log(3)) / Math.log(trace.model.vocab_size));
  await reader.settles(async () => (await reader.candidates()).filter((bar) => bar.kept).length, 3, "kept by top-k 3");
  const cut = await reader.candidates();
  assert.ok(Math.abs(sum(cut.map((bar) => bar.probability)) - 1) < 1e-3, "what is kept shares the whole probability");
  assert.ok(cut.filter((bar) => !bar.kept).every((bar) => bar.probability === 0), "what is cut stays on screen at 0");

  await reader.set("temperature", 0);
  await reader.settles(async () => (await reader.candidates()).filter((bar) => bar.probability > 0).length, 1, "greedy");
  assert.ok((await reader.candidates()).every((bar) => Number.isFinite(bar.probability)));
  await reader.set("top_p", 0);
  await reader.set("min_p", 1);
  await reader.page.waitForTimeout(100);
  assert.ok((await reader.candidates()).every((bar) => Number.isFinite(bar.probability)), "no setting gives NaN");
  assert.deepEqual(ids(await reader.trace()), ids(trace), "the record stays as it was");
}));

test("sliders apply to the steps still to come", () => visit({ temperature: "1.6", seed: "5" }, async (reader) => {
  await reader.reaches("ready");
  await hurry(reader);
  for (let step = 0; step < 3; step++) {
    await reader.press("step");
    await reader.uses(P + step);
    await reader.reaches("paused");
  }
  const before = ids(await reader.trace());
  await reader.set("temperature", 0);
  await reader.press("run");
  await reader.reaches("done");
  const trace = await reader.trace();
  assert.deepEqual(ids(trace).slice(0, 3), before);
  for (const step of trace.steps.slice(3)) {
    const best = step.candidates.reduce((best, each) => (each.logit > best.logit ? each : best));
    assert.equal(step.token.id, best.id, `step ${step.index} is greedy`);
  }
}));

test("the prompt's tokens follow the typing, and too long a prompt is told", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  const box = reader.part("prompt");
  const chips = reader.part("prompt-tokens").locator("[data-part=chip]");
  await reader.settles(() => chips.count(), P, "chips of the first prompt");
  await box.fill("");
  await box.pressSequentially("One day, a little fox");
  await reader.settles(
    async () => (await chips.allTextContents()).join("").replaceAll(/[\s␣·]+/g, " ").includes("little fox"),
    true, "chips after typing");
  assert.match(await reader.part("prompt-count").textContent(), new RegExp(`\\b${await chips.count()}\\b`));
  assert.equal(await reader.part("prompt-problem").count(), 0);

  await box.fill("The quick red fox and the cat went to the park. ".repeat(60));
  await reader.part("prompt-problem").waitFor();
  assert.match(await reader.part("prompt-problem").textContent(), /too long|longer|room|fit/i);
  if (await reader.action("run").isEnabled()) {
    await reader.press("run");
    await reader.page.waitForTimeout(500);
  }
  assert.notEqual(await reader.state(), "running");

  await box.fill("The cat");
  await reader.part("prompt-problem").waitFor({ state: "detached" });
  await reader.press("run");
  await reader.reaches("done");
  assert.equal((await reader.trace()).prompt.text, "The cat");
}));

test("an empty prompt, bytes outside the vocabulary and a full context all end well", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  const empty = await reader.run({ prompt: "", maxNewTokens: 4 });
  assert.equal(empty.steps.length, 4);
  const strange = await reader.run({ prompt: "Ünïcødé ✨ 猫", maxNewTokens: 4 });
  assert.equal(strange.prompt.text, "Ünïcødé ✨ 猫");
  const context = strange.model.context;
  const long = await reader.run({ prompt: "Once upon a time", maxNewTokens: context, temperature: 1 });
  const end = long.steps.at(-1);
  assert.ok(end.first_position + end.positions <= context);
  assert.ok(["length", "context", "end_of_text"].includes(long.finish), long.finish);
  await reader.uses(end.first_position + end.positions);
}));

test("the trace is JSON of version 1", () => visit({ temperature: "0.8", "top-k": "40", seed: "7" }, async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.run();
  assert.equal(trace.version, 1);
  assert.deepEqual(Object.keys(trace.model).sort(), [
    "context", "dim", "head_dim", "hidden_dim", "id", "n_heads", "n_kv_heads", "n_layers", "vocab_size",
  ]);
  assert.deepEqual(Object.keys(trace.backend).sort(), ["adapter", "kind", "reason"]);
  assert.equal(trace.settings.seed, 7);
  assert.equal(trace.settings.temperature, 0.8);
  assert.equal(trace.settings.top_k, 40);
  assert.equal(trace.prompt.text, "Once upon a time");
  assert.deepEqual(trace.prompt.tokens.map(({ text }) => text), ["<s>", " Once", " upon", " a", " time"]);
  assert.ok(trace.prompt.tokens.every(({ id }) => Number.isInteger(id)));
  assert.equal(trace.steps.length, N);
  trace.steps.forEach((step, index) => {
    assert.equal(step.index, index);
    assert.equal(step.phase, index === 0 ? "prefill" : "decode");
    assert.equal(step.first_position, index === 0 ? 0 : P + index - 1);
    assert.ok(Number.isInteger(step.token.id) && typeof step.token.text === "string");
    assert.ok(step.milliseconds > 0);
    assert.deepEqual(Object.keys(step.work).sort(), [
      "cache_bytes_read", "cache_bytes_written", "flops", "positions", "weight_bytes",
    ]);
    assert.ok(step.candidates.length >= 10);
    for (const candidate of step.candidates) {
      assert.deepEqual(Object.keys(candidate).sort(), ["cut_by", "id", "kept", "logit", "probability", "text"]);
      assert.equal(candidate.kept, candidate.cut_by === null);
    }
    assert.ok(step.candidates.some(({ id, kept }) => id === step.token.id && kept), "the drawn token was kept");
  });
  assert.deepEqual(JSON.parse(JSON.stringify(await reader.trace())), trace);
}));

test("events bubble out of the element and tell what happens", () => visit({ loading: "click" }, async (reader, page) => {
  await page.evaluate(() => {
    window.heard = [];
    for (const kind of ["statechange", "step", "done", "error"]) {
      document.addEventListener(kind, (event) => {
        const { bubbles, composed, target } = event;
        window.heard.push({ kind, bubbles, composed, tag: target.localName, state: target.state });
      });
    }
  });
  assert.equal(await reader.state(), "idle");
  await reader.run();
  await reader.settles(() => page.evaluate(() => window.heard.filter(({ kind }) => kind === "done").length), 1, "done");
  const heard = await page.evaluate(() => window.heard);
  assert.ok(heard.every(({ bubbles, composed, tag }) => bubbles && composed && tag === "infer-scope"));
  assert.equal(heard.filter(({ kind }) => kind === "step").length, N);
  assert.equal(heard.filter(({ kind }) => kind === "error").length, 0);
  const states = heard.filter(({ kind }) => kind === "statechange").map(({ state }) => state);
  assert.equal(states[0], "loading");
  assert.ok(states.includes("running"), String(states));
  assert.equal(states.at(-1), "done");
}));
