// The roofline under the generate scene: a real model on a published part, and the run on screen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, useBrowser } from "./harness.mjs";

const stage = useBrowser();

const visit = (body, more) =>
  stage.visit(host({ backend: "cpu", loading: "eager", "max-new-tokens": "8" }), body, more);

const spot = (reader, id) => reader.element.locator(`[data-spot=${id}]`);
const intensity = async (reader, id) => Number(await spot(reader, id).getAttribute("data-intensity"));
const limit = (reader, pass) => reader.element.locator(`[data-pass=${pass}]`).getAttribute("data-limit");

test("prefill turns from memory to arithmetic near 300 tokens on an H100, decode stays at one FLOP per byte", () =>
  visit(async (reader) => {
    await reader.part("roofline").waitFor();
    for (const [quarters, expected] of [[4 * 8, "memory"], [4 * 8 + 2, "arithmetic"]]) {
      await reader.set("roofline_prompt", quarters);
      await reader.settles(() => limit(reader, "prefill"), expected, `the limit at ${Math.round(2 ** (quarters / 4))} tokens`);
      assert.equal(await limit(reader, "decode"), "memory");
      assert.ok(Math.abs((await intensity(reader, "decode")) - 1) < 0.05);
    }
    await reader.set("roofline_batch", 4 * 6);
    assert.ok((await intensity(reader, "decode")) > 55, "64 sequences share the weights");
    await reader.input("roofline_bytes").selectOption("1");
    await reader.set("roofline_batch", 0);
    assert.ok(Math.abs((await intensity(reader, "decode")) - 2) < 0.1, "eight-bit weights are half the bytes");
  }));

test("every model and part has a place in the chart", () => visit(async (reader) => {
  const options = (name) => reader.input(name).locator("option").evaluateAll((all) => all.map(({ value }) => value));
  for (const model of await options("roofline_model")) {
    for (const part of await options("roofline_part")) {
      await reader.input("roofline_model").selectOption(model);
      await reader.input("roofline_part").selectOption(part);
      const text = await reader.part("roofline").textContent();
      assert.doesNotMatch(text, /NaN|inf|undefined/, `${model} on ${part}`);
    }
  }
}));

test("the run on screen stands in the chart as it was counted and measured", () => visit(async (reader) => {
  assert.equal(await spot(reader, "run-decode").count(), 0);
  const trace = await reader.run();
  await spot(reader, "run-decode").waitFor();
  const middle = trace.steps.slice(1)[Math.floor((trace.steps.length - 1) / 2)];
  const { flops, weight_bytes, cache_bytes_read } = middle.work;
  assert.ok(Math.abs((await intensity(reader, "run-decode")) - flops / (weight_bytes + cache_bytes_read)) < 1e-9);
  const rate = Number(await spot(reader, "run-decode").getAttribute("data-rate"));
  assert.ok(Math.abs(rate / (flops / (middle.milliseconds / 1000)) - 1) < 1e-6);
}));

test("this device can be measured, and stands among the parts", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.press("probe");
  const probe = reader.part("roofline").locator("[data-flops]");
  await probe.waitFor();
  const [flops, bytes] = [Number(await probe.getAttribute("data-flops")), Number(await probe.getAttribute("data-bytes"))];
  // Anything from a slow phone to a fast workstation.
  assert.ok(flops > 1e8 && flops < 1e15, `${flops} FLOP/s`);
  assert.ok(bytes > 1e8 && bytes < 1e14, `${bytes} bytes/s`);
  assert.equal(await reader.input("roofline_part").inputValue(), "this");
  assert.match(await reader.part("roofline").textContent(), /limits of this device are measured/);
  await reader.input("roofline_part").selectOption("h100");
  assert.equal(await limit(reader, "decode"), "memory");
  assert.equal((await reader.run()).steps.length, 8, "the engine goes on as before");
}));
