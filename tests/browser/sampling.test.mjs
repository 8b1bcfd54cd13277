// The sampling scene: one real step's odds, rule by rule, the draw, and any token of the vocabulary.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, useBrowser } from "./harness.mjs";

const stage = useBrowser();

const SETTINGS = { scene: "sampling", backend: "cpu", loading: "eager", "max-new-tokens": "16", prompt: "Once there was a" };
const visit = (body, attributes, more) => stage.visit(host({ ...SETTINGS, ...attributes }), body, more);

const lanes = (reader) => reader.part("lane").evaluateAll((all) =>
  all.map(({ dataset }) => ({ token: Number(dataset.token), share: Number(dataset.share), cut: dataset.cut ?? null })));

/** The candidates of the step on screen as the trace has them, by token. */
const shown = (reader) => reader.element.evaluate((element) => {
  const words = element.shadowRoot.querySelector("[data-part=stages-step]").textContent;
  const trace = element.fullTrace();
  return trace.steps[Number(/step (\d+)/.exec(words)[1])];
});

/** Of the model's own odds, in nats. */
function entropy(step) {
  const best = Math.max(...step.candidates.map(({ logit }) => logit));
  const weights = step.candidates.map(({ logit }) => Math.exp(logit - best));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.reduce((sum, weight) => sum - (weight > 0 ? weight / total * Math.log(weight / total) : 0), 0);
}

test("a run stops at its most open step, once", () => visit(async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.run();
  assert.equal(trace.steps.length, 16);
  await reader.settles(() => reader.state(), "paused", "the state");
  const full = await reader.element.evaluate((element) => element.fullTrace());
  const entropies = full.steps.map(entropy);
  const step = await shown(reader);
  assert.equal(step.index, entropies.indexOf(Math.max(...entropies)));
  await reader.press("run");
  await reader.reaches("done");
  assert.equal(await reader.part("place").textContent(), "Step 15 of 15: decode", "played to its end, it stays there");
}));

test("the stages are those of the recorded step, and answer to the sliders", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  await reader.part("lane").first().waitFor();
  const step = await shown(reader);
  const by = new Map(step.candidates.map((candidate) => [candidate.id, candidate]));
  for (const { token, share } of await lanes(reader)) {
    assert.ok(Math.abs(share - by.get(token).probability) < 1e-5, `token ${token}`);
  }
  await reader.set("top_k", 1000 * Math.log(3) / Math.log(1024));
  await reader.settles(async () => (await lanes(reader)).filter(({ cut }) => cut === null).length, 3, "candidates left");
  const left = (await lanes(reader)).filter(({ cut }) => cut === null);
  assert.ok(Math.abs(left.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-4);
  assert.ok((await lanes(reader)).slice(3).every(({ cut }) => cut === "top_k"));
}));

test("presets set every rule, and greedy leaves one token", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  for (const name of ["greedy", "balanced", "own", "wild"]) {
    const button = reader.element.locator(`[data-preset=${name}]`);
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "true", name);
    assert.equal(await reader.element.locator("[aria-pressed=true]").count(), 1, name);
  }
  await reader.element.locator("[data-preset=greedy]").click();
  const [best, ...others] = await lanes(reader);
  assert.equal(best.share, 1);
  assert.ok(others.every(({ share }) => share === 0));
}));

test("a thousand draws keep to the odds, and begin anew with other odds", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  await reader.press("draw-many");
  await reader.settles(() => reader.part("draw-count").textContent(), "1,000 draws so far; press again for more", "draws");
  const odds = new Map((await lanes(reader)).map(({ token, share }) => [token, share]));
  const outcomes = await reader.part("outcome").evaluateAll((all) =>
    all.map(({ dataset }) => [Number(dataset.token), Number(dataset.share)]));
  assert.ok(outcomes.length > 3);
  for (const [token, share] of outcomes) {
    const expected = odds.get(token);
    const error = Math.sqrt(expected * (1 - expected) / 1000);
    assert.ok(Math.abs(share - expected) < 4.5 * error + 1e-9, `token ${token}: ${share}, expected ${expected}`);
  }
  await reader.set("temperature", "1.3");
  await reader.settles(() => reader.part("outcome").count(), 0, "outcomes");
}, { temperature: "1" }));

test("the coin's segment is the token drawn", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  await reader.part("draw").locator(".segment").first().waitFor();
  const step = await shown(reader);
  const hit = reader.part("draw").locator(".segment.hit");
  assert.equal(Number(await hit.getAttribute("data-token")), step.token.id);
  const [coin, line] = await Promise.all([reader.part("draw").locator(".coin").boundingBox(), hit.boundingBox()]);
  assert.ok(coin.x + 1.5 >= line.x && coin.x - 0.5 <= line.x + line.width, "the mark stands over it");
}, { "top-k": "8" }));

test("any token can be looked up", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  await reader.input("find").fill("ball");
  await reader.part("found").first().waitFor();
  const step = await shown(reader);
  const token = Number(await reader.part("found").first().getAttribute("data-token"));
  const order = step.candidates.map(({ id }) => id);
  const cells = await reader.part("found").first().locator("td").allTextContents();
  assert.equal(Number(cells[0].replace(",", "")), order.indexOf(token) + 1, "its rank");
  await reader.input("find").fill("no such word");
  assert.match(await reader.part("search").textContent(), /No token has that in it/);
}));

for (const width of [1280, 360]) {
  test(`at ${width} px nothing of it sticks out`, () => visit(async (reader, page) => {
    await reader.reaches("ready");
    await reader.run();
    await reader.press("draw-many");
    await reader.input("find").fill("a");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
  }, {}, { viewport: { width, height: 740 } }));
}

test("every character writes on from the same step, on the same columns", () => visit(async (reader) => {
  await reader.reaches("ready");
  const trace = await reader.run();
  const step = (await shown(reader)).index;
  await reader.press("contrast");
  const texts = () => reader.part("contrast").locator("[data-preset-text] .text").allTextContents();
  await reader.settles(async () => (await texts()).every((text) => text.length > 2 && !text.endsWith(" …")), true, "four texts");
  assert.equal((await texts()).length, 4);
  const columns = trace.prompt.tokens.length + step;
  assert.match(await reader.part("contrast").textContent(), new RegExp(`4 times the same ${columns} columns`));

  // Greedy is what a greedy run from there writes.
  const [greedy] = await texts();
  await reader.element.locator("[data-preset=greedy]").click();
  const best = (await shown(reader)).candidates[0].id;
  await reader.element.evaluate((element, [step, id]) => element.branch(step, id), [step, best]);
  await reader.reaches("done", "paused");
  await reader.settles(async () => (await reader.trace()).finish !== null, true, "the branch's end");
  const branch = await reader.trace();
  const written = branch.steps.slice(step).map(({ token }) => token.text).join("");
  assert.ok(greedy.slice(1).startsWith(written.slice(0, 40)) || written.startsWith(greedy.slice(1, 40)), `${greedy} and ${written}`);
}, { "max-new-tokens": "24" }));
