// The lesson on the WebGPU engine: what the other files try on the CPU engine in detail, once through here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, ids, sum, useBrowser } from "./harness.mjs";

const stage = useBrowser();
const SETTINGS = { backend: "webgpu", loading: "eager", "max-new-tokens": "5", prompt: "Once upon a time" };
const visit = (body, attributes) => stage.visit(host({ ...SETTINGS, ...attributes }), body);
const text = (reader, part) => reader.part(part).textContent();

test("on WebGPU: beats, attention of any token, branches, both ways, and the probe", () => visit(async (reader) => {
  await reader.reaches("ready");
  assert.equal((await reader.run({ temperature: 1 })).backend.kind, "webgpu");
  const first = await reader.trace();
  await reader.element.locator(".story [data-focus='1']").click();
  const arrows = () => reader.part("arrow").evaluateAll((all) =>
    all.map(({ dataset }) => ({ from: Number(dataset.from), weight: Number(dataset.weight) })));
  const last = first.prompt.tokens.length + first.steps.length - 2;
  await reader.settles(async () => (await arrows()).length, 2 + (last - 1), "arrows both ways");
  const outward = (await arrows()).filter(({ from }) => from === 1);
  assert.ok(Math.abs(sum(outward.map(({ weight }) => weight)) - 1) < 1e-3);
  const other = first.steps[1].candidates.map(({ id }) => id).find((id) => id !== first.steps[1].token.id);
  await reader.element.evaluate((element, id) => element.branch(1, id), other);
  await reader.reaches("done");
  const branch = await reader.trace();
  assert.deepEqual([branch.steps[1].token.id, branch.steps[2].positions], [other, 1]);
  await reader.part("speed").selectOption("max");
  await reader.press("run-both");
  await reader.part("comparison").waitFor({ timeout: 60_000 });
  await reader.reaches("done");
  assert.match(await text(reader, "comparison"), /the same 5 tokens/);
  await reader.press("probe");
  await reader.element.locator("[data-part=probe][data-flops]").waitFor({ timeout: 60_000 });
}));

test("on WebGPU: one step's odds, the draw, and the same beginning written on", () => visit(async (reader) => {
  await reader.reaches("ready");
  await reader.run();
  await reader.part("lane").first().waitFor();
  const before = await reader.part("lane").count();
  assert.ok(before >= 10);
  await reader.set("temperature", 0);
  await reader.settles(() => reader.part("lane").evaluateAll((all) => all.filter(({ dataset }) => !dataset.cut).length), 1, "greedy leaves one");
  await reader.press("draw-many");
  await reader.settles(async () => (await text(reader, "draw-count")).startsWith("1,000"), true, "draws");
  await reader.press("contrast");
  await reader.settles(async () => /4 times the same \d+ columns/.test(await text(reader, "contrast")), true, "shared columns");
}, { scene: "sampling", temperature: "1" }));

test("on WebGPU: batching, a window and the three models", async () => {
  const cpu = {};
  for (const backend of ["cpu", "webgpu"]) {
    await visit(async (reader) => {
      const trace = await reader.run({ temperature: 0, maxNewTokens: 8 });
      assert.equal(trace.backend.kind, backend);
      cpu[backend] = ids(trace);
    }, { scene: "window", backend });
  }
  assert.deepEqual(cpu.webgpu, cpu.cpu, "a windowed cache gives the same tokens on both");
  await visit(async (reader) => {
    await reader.run({ temperature: 0 });
    await reader.press("run-groups");
    const texts = () => reader.part("group-text").allTextContents();
    const deadline = Date.now() + 90_000;
    while ((await texts()).filter((text) => text.length > 4 && !text.includes("on its way")).length < 3) {
      assert.ok(Date.now() < deadline, JSON.stringify(await texts()));
      await reader.page.waitForTimeout(300);
    }
  }, { scene: "memory" });
  await visit(async (reader) => {
    while ((await reader.part("request").count()) > 2) await reader.part("request").last().getByRole("button").click();
    for (const input of await reader.part("requests").locator("input[aria-label='New tokens']").all()) {
      await input.fill("3");
      await input.dispatchEvent("change");
    }
    const { requests } = await reader.run();
    assert.deepEqual(requests.map(({ tokens }) => tokens.length), [3, 3]);
  }, { scene: "batching" });
});
