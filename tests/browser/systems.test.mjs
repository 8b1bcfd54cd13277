// The scenes of what serving systems build: memory, paged cache, batching, speculative decoding, windows and rounding.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { host, ids, sum, useBrowser } from "./harness.mjs";

const stage = useBrowser();
const SETTINGS = { backend: "cpu", loading: "eager", prompt: "Once upon a time" };
const visit = (scene, body, attributes, options) => stage.visit(host({ ...SETTINGS, scene, ...attributes }), body, options);
const text = (reader, part) => reader.part(part).textContent();
const rows = (reader, part, names) => reader.part(part).locator("tbody tr").evaluateAll((all, names) =>
  all.map(({ dataset }) => names.map((name) => dataset[name])), names);

/** Fewer requests and tokens, for an engine that is slow here. */
async function shorten(reader, requests, tokens) {
  while ((await reader.part("request").count()) > requests) await reader.part("request").last().getByRole("button").click();
  for (const input of await reader.part("requests").locator("input[aria-label='New tokens']").all()) {
    await input.fill(String(tokens));
    await input.dispatchEvent("change");
  }
}

/** What the model writes for each request by itself. */
async function alone(requests) {
  const texts = [];
  await stage.visit(host({ ...SETTINGS, scene: "generate" }), async (reader) => {
    for (const { prompt, max_new_tokens, seed } of requests) {
      texts.push(ids(await reader.run({ prompt, maxNewTokens: max_new_tokens, seed })));
    }
  });
  return texts;
}

test("memory: bytes of published models, with the numbers put in, and a sentence for what can not be", () => visit("memory", async (reader) => {
  const model = (id) => reader.element.locator(`[data-model='${id}']`);
  assert.equal(await model("llama3-70b").getAttribute("data-token-bytes"), "327680");
  await reader.input("context").fill("131,072");
  await reader.input("requests").fill("1");
  await reader.settles(() => model("gemma3-27b").getAttribute("data-request-bytes"), String(2 * 16 * 128 * (10 * 131072 + 52 * 1024) * 2), "windows");
  await model("deepseek-v3").getByRole("button").dispatchEvent("click");
  assert.match(await text(reader, "memory-formula"), /\(512 latent \+ 64 rotary\) × 61 layers × 131,072 positions × 2 bytes = /);
  assert.equal(await reader.part("memory-formula").getAttribute("data-bytes"), String(576 * 61 * 131072 * 2));
  for (const [name, value] of [["context", "0"], ["requests", "many"], ["parts", "99999"]]) {
    const before = await reader.part("memory-formula").textContent();
    await reader.input(name).fill(value);
    await reader.part("memory-problem").waitFor();
    assert.match(await text(reader, "memory-problem"), /still counts/);
    assert.equal(await text(reader, "memory-formula"), before, "the last good number still counts");
    await reader.input(name).fill("2");
    await reader.part("memory-problem").waitFor({ state: "detached" });
  }
  await reader.element.locator("select[name=cache_element]").selectOption("int4");
  assert.match(await text(reader, "memory-formula"), /× ½ byte × 2 requests/);
  const links = await reader.part("memory").locator("td.source a").evaluateAll((all) => all.map(({ href }) => href));
  assert.ok(links.length >= 20 && links.every((href) => href.startsWith("https://")));
}));

test("memory: the prompt runs on the three models that share KV heads differently", () => visit("memory", async (reader) => {
  await reader.run({ maxNewTokens: 8, temperature: 0 });
  await reader.press("run-groups");
  const texts = () => reader.part("group-text").allTextContents();
  await reader.settles(async () => (await texts()).filter((text) => text.length > 8 && !text.includes("on its way")).length, 3, "three texts");
  assert.equal((await texts())[0], (await reader.trace()).text, "the first is the model of the page");
  assert.deepEqual(await reader.part("token-bytes").allTextContents(), ["2.50 KiB counted", "5.00 KiB counted", "640 B counted"]);
  // The losses are those of the cards.
  for (const [index, id] of ["story", "story-mha", "story-mqa"].entries()) {
    const card = readFileSync(new URL(`../../docs/models/${id}.md`, import.meta.url), "utf8");
    const loss = Number(/held-out loss \| ([0-9.]+) nats/.exec(card)[1]);
    assert.match((await reader.part("held-out").allTextContents())[index], new RegExp(`^${loss.toFixed(3)} nats`), id);
  }
}, { "max-new-tokens": "8" }));

test("requests in one memory write what they write alone, and blocks hold more of them", () => visit("paged", async (reader) => {
  const served = await reader.run();
  assert.ok(served.steps.length > 3);
  assert.deepEqual(served.requests.map(({ tokens }) => tokens), await alone(served.requests));
  await reader.part("memory-comparison").waitFor();
  const [[, paged, waste], [, reserved, other]] = await rows(reader, "memory-comparison", ["way", "most", "waste"]);
  assert.ok(Number(paged) > Number(reserved) && Number(waste) < Number(other), `${paged} at once, ${waste} against ${reserved}, ${other}`);
  // A block says whose it is; equal beginnings are shared.
  const shared = served.steps.findIndex((step) => step.memory.extents.some(({ owners }) => owners.length > 1));
  assert.ok(shared >= 0);
  await reader.element.evaluate((element, step) => element.seek(step), shared);
  await reader.part("map").locator(".shared").first().click();
  assert.match(await text(reader, "slot-words"), /^Block \d+ is shared by requests A and [BF]: \d of 8 slots hold the columns of “<s>␣Once/);
}));

test("a draft and a target write what the target writes", () => visit("speculative", async (reader) => {
  const greedy = await reader.run({ temperature: 0, maxNewTokens: 30 });
  assert.ok(greedy.rounds.length < greedy.tokens.length, "fewer passes than tokens");
  await stage.visit(host(SETTINGS), async (other) => {
    assert.deepEqual(ids(await other.run({ temperature: 0, maxNewTokens: greedy.tokens.length })), greedy.tokens);
  });
  assert.equal(sum(greedy.rounds.map(({ added }) => added)), greedy.tokens.length);
  assert.match(await text(reader, "yield"), /tokens for each pass of the target/);
  await reader.settles(async () => /passes of the target over one position, c \(medians\)\d+\.\d\d/.test(await text(reader, "yield")), true, "the target was timed alone");
}));

test("blocks are walked with the keyboard, and numbers out of range are told", () => visit("paged", async (reader, page) => {
  await reader.run();
  await reader.element.evaluate((element) => element.seek(10));
  await reader.part("map").locator("[data-slot='0']").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await text(reader, "slot-words"), /^Block 2 |^Slot 16 /);
  const tokens = reader.part("requests").locator("input[aria-label='New tokens']").first();
  await tokens.fill("1000");
  await tokens.dispatchEvent("change");
  assert.match(await text(reader, "notice"), /The number of new tokens of request A goes from 1 to 200: “1000” became 200/);
}));

test("a window's kept columns show their numbers", () => visit("window", async (reader) => {
  await reader.run({ maxNewTokens: 30 });
  const painted = () => reader.element.evaluate(({ shadowRoot: root }) => {
    const canvas = root.querySelector(".stack canvas");
    const ratio = canvas.width / canvas.getBoundingClientRect().width;
    const context = canvas.getContext("2d");
    const box = canvas.getBoundingClientRect();
    return [...root.querySelectorAll("[data-part=column][data-state=filled]")].map((column) => {
      const cell = column.querySelector("[data-part=cell]").getBoundingClientRect();
      const { data } = context.getImageData((cell.x - box.x + cell.width / 2) * ratio, (cell.y - box.y + cell.height / 2) * ratio, 1, 1);
      return data[3] > 0;
    });
  });
  await reader.settles(async () => (await painted()).length === 15 && (await painted()).every(Boolean), true, "every kept column is painted");
}));

test("a draft that could not be fetched gets another try with the next run", () => visit("speculative", async (reader, page) => {
  await page.route("**/story-draft.infer", (route) => route.abort());
  await reader.press("run");
  await reader.reaches("error");
  assert.match(await text(reader, "problem"), /story-draft\.infer could not be fetched/);
  await page.unroute("**/story-draft.infer");
  await reader.press("run");
  await reader.reaches("done");
}, { loading: "click", "max-new-tokens": "4" }, { expected: /story-draft/ }));

test("a round of speculation shows its proposals, their odds and the verdicts", () => visit("speculative", async (reader) => {
  await reader.set("gamma", 5);
  const { rounds } = await reader.run({ temperature: 1.2, maxNewTokens: 60, seed: 3 });
  assert.equal(rounds[1].guesses.length, 5);
  const rejected = rounds.findIndex(({ guesses }) => guesses.some(({ judged }) => judged && !judged.accepted));
  assert.ok(rejected > 0, "at this temperature some are rejected");
  await reader.element.evaluate((element, round) => element.seek(round), rejected);
  const cards = await reader.part("card").evaluateAll((all) => all.map(({ dataset }) => dataset.fate));
  const expected = rounds[rejected].guesses.map(({ judged }) => (judged ? (judged.accepted ? "accepted" : "rejected") : "dropped"));
  assert.deepEqual(cards, expected);
  assert.match(await text(reader, "round-caption"), /replaced by a token drawn from what the target has more of/);
  assert.match(await text(reader, "own-card"), /replacement/);
  assert.equal(await reader.part("round").count(), rejected + 1);
}));

test("batching: static waits, continuous does not, and each step is to be seen", () => visit("batching", async (reader) => {
  const served = await reader.run();
  const tokens = served.requests.map(({ tokens }) => tokens);
  await reader.part("batching-comparison").waitFor();
  const compared = Object.fromEntries((await rows(reader, "batching-comparison", ["way", "steps", "idle"])).map(([way, ...rest]) => [way, rest.map(Number)]));
  assert.ok(compared.continuous[0] < compared.static[0] && compared.continuous[1] < compared.static[1], JSON.stringify(compared));
  assert.equal(await reader.part("places").locator("[data-part=place]").count(), 3);
  await reader.element.locator("select[name=batching]").selectOption("static");
  await reader.set("chunk", 4);
  const again = await reader.run();
  assert.equal(again.settings.batching, "static");
  assert.ok(again.steps.every(({ ran }) => ran.every(({ positions }) => positions <= 4)));
  assert.deepEqual(again.requests.map(({ tokens }) => tokens), tokens);
  await reader.press("measure-batches");
  const measured = reader.part("batch-cost").locator("[data-batch='32']").first();
  await measured.waitFor();
  assert.ok(Number(await measured.getAttribute("data-milliseconds")) > 0);
}));

test("requests can be changed, added and taken away, and what can not be served is told", () => visit("paged", async (reader) => {
  await reader.press("add-request");
  assert.equal(await reader.part("request").count(), 9);
  await shorten(reader, 2, 4);
  const prompt = reader.part("requests").locator("textarea").first();
  await prompt.fill("Tom had a red ball");
  await prompt.dispatchEvent("change");
  const { requests } = await reader.run();
  assert.deepEqual(requests.map(({ prompt, tokens }) => [prompt.slice(0, 3), tokens.length]), [["Tom", 4], ["Onc", 4]]);
  await prompt.fill("a b c d e f g h i j k l m n o p q r s t u v w x y z ".repeat(7));
  await prompt.dispatchEvent("change");
  await reader.press("run");
  await reader.reaches("error");
  assert.match(await text(reader, "problem"), /^Request A may come to need \d+ slots, and the memory has 160: give it more memory/);
  await reader.set("slots", 512);
  await reader.press("run");
  await reader.reaches("done");
}));

test("a window drops columns, and rounding and dropping have their measured price", () => visit("window", async (reader) => {
  await reader.set("window", 6);
  await reader.set("sinks", 2);
  const trace = await reader.run({ maxNewTokens: 20 });
  const end = trace.prompt.tokens.length + trace.steps.length - 1;
  const states = await reader.part("column").evaluateAll((all) => all.map(({ dataset }) => dataset.state));
  assert.equal(states.filter((state) => state === "filled").length, 7, "two sinks and what the next token would see");
  assert.equal(states.filter((state) => state === "evicted").length, end - 7);
  const arrows = (await reader.arrows()).filter(([, weight]) => weight > 0).map(([to]) => to);
  assert.deepEqual(arrows, [0, 1, ...Array.from({ length: 6 }, (_, index) => end - 6 + index)]);
  assert.match(await text(reader, "layout-bytes"), /^While the newest of \d+ positions looks, the cache holds 20.0 KiB; with everything kept it would be/);
  await reader.press("score");
  const scores = () => reader.part("scores").locator("tr[data-layout]").evaluateAll((all) =>
    Object.fromEntries(all.map(({ dataset }) => [dataset.layout, Number(dataset.nats)])));
  await reader.settles(async () => Object.values(await scores()).filter((nats) => nats > 0).length, 7, "scores");
  const measured = await scores();
  const whole = measured["everything, as it is"];
  assert.ok(whole > 0.5 && whole < 1.3 && Math.abs(measured["everything, in 8 bits"] - whole) < 0.02);
  assert.ok(measured["2 sinks and a window of 6"] > whole + 0.3, JSON.stringify(measured));
}));

for (const scene of ["memory", "paged", "batching", "speculative", "window"]) {
  for (const width of [1280, 768, 360]) {
    test(`${scene}: at ${width} px nothing sticks out`, () => visit(scene, async (reader, page) => {
      const outside = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok((await outside()) <= 0, "before a run");
      await reader.run({ maxNewTokens: 30 });
      assert.ok((await outside()) <= 0, "after it");
    }, {}, { viewport: { width, height: 800 } }));
  }
  test(`${scene}: plays, steps, goes back and is scrubbed like any other`, () => visit(scene, async (reader) => {
    await reader.reaches("ready");
    await reader.part("speed").selectOption("4");
    await reader.press("step");
    await reader.reaches("paused");
    await reader.press("step");
    await reader.settles(() => reader.part("scrubber").inputValue(), "2", "two steps");
    await reader.press("back");
    await reader.settles(() => reader.part("scrubber").inputValue(), "1", "one step");
    await reader.part("speed").selectOption("max");
    await reader.press("run");
    await reader.reaches("done");
    await reader.scrub(1);
    assert.equal(await reader.part("scrubber").inputValue(), "1");
    await reader.press("reset");
    await reader.reaches("ready");
  }, { "max-new-tokens": "12" }));
}
