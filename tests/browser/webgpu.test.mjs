// The whole article on the WebGPU engine: what the other files try on the CPU engine in detail, once through here, on one page
// with one engine, since warming it up on an emulated GPU takes longest.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Reader, ids, sum, useBrowser } from "./harness.mjs";

const stage = useBrowser();
const text = (reader, part) => reader.part(part).textContent();
const SHORT = { backend: "webgpu", prompt: "Once upon a time", maxNewTokens: 5 };

async function generate(reader) {
  const first = await reader.run({ ...SHORT, temperature: 1 });
  assert.equal(first.backend.kind, "webgpu");
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
}

async function sampling(reader) {
  await reader.run({ ...SHORT, temperature: 1 });
  await reader.part("lane").first().waitFor();
  assert.ok((await reader.part("lane").count()) >= 10);
  await reader.set("temperature", 0);
  await reader.settles(() => reader.part("lane").evaluateAll((all) => all.filter(({ dataset }) => !dataset.cut).length), 1, "greedy leaves one");
  await reader.press("draw-many");
  await reader.settles(async () => (await text(reader, "draw-count")).startsWith("1,000"), true, "draws");
  await reader.press("contrast");
  await reader.settles(async () => /4 times the same \d+ columns/.test(await text(reader, "contrast")), true, "shared columns");
  await reader.press("reset");
}

async function windowed(reader) {
  const settings = { ...SHORT, temperature: 0, maxNewTokens: 10, prompt: "Once upon a time, there was a brave girl named Zumo" };
  const gpu = await reader.run(settings);
  const cpu = await reader.run({ ...settings, backend: "cpu" });
  assert.deepEqual([gpu.backend.kind, cpu.backend.kind], ["webgpu", "cpu"]);
  assert.deepEqual(ids(gpu), ids(cpu), "a windowed cache gives the same tokens on both");
}

async function served(reader, single) {
  await reader.element.evaluate((element) => element.setAttribute("backend", "webgpu"));
  while ((await reader.part("request").count()) > 2) await reader.part("request").last().getByRole("button").click();
  for (const input of await reader.part("requests").locator("input[aria-label='New tokens']").all()) {
    await input.fill("3");
    await input.dispatchEvent("change");
  }
  const { requests } = await reader.run();
  for (const { prompt, max_new_tokens: maxNewTokens, seed, tokens } of requests) {
    const alone = await single.run({ ...SHORT, prompt, maxNewTokens, seed, temperature: 0.8 });
    assert.deepEqual(ids(alone), tokens, prompt);
  }
}

async function speculative(reader, single) {
  const { tokens } = await reader.run({ ...SHORT, temperature: 0, maxNewTokens: 6 });
  assert.deepEqual(ids(await single.run({ ...SHORT, temperature: 0, maxNewTokens: 6 })), tokens);
}

test("every scene of the article runs on WebGPU, and gives what it gives on the processor", () => stage.visit("/", async (_, page) => {
  const scene = (id) => new Reader(page, `#${id}`);
  const load = async (id) => {
    await scene(id).element.evaluate((element) => element.load());
    return scene(id);
  };
  const single = await load("generate");
  await generate(single);
  await sampling(await load("sampling"));
  await windowed(await load("window"));
  await served(await load("paged"), single);
  await served(await load("batching"), single);
  await speculative(await load("speculative"), single);
}));
