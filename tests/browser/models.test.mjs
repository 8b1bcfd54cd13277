// Several models on one page, and the reader's own: dropped, chosen, given by a script, wrong in many ways.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { ENGINES, Reader, SLOW, THIRD_PARTY, host, ids, useBrowser } from "./harness.mjs";
import { tinyModel, tinySafetensors, tokenizer } from "./tiny.mjs";

const PROMPT = "Once upon a time";
const SETTINGS = { backend: "cpu", prompt: PROMPT, temperature: "0", "max-new-tokens": "6" };

const stage = useBrowser();

const visit = (attributes, body, more) => stage.visit(host({ ...SETTINGS, loading: "eager", ...attributes }), body, more);

const model = (reader) => reader.input("model");
const options = (reader) => model(reader).locator("option").evaluateAll((all) => all.map(({ value }) => value));
const problem = async (reader) => (await reader.part("problem").textContent()).trim();

// Others' models, as their own program runs them.

const skip = existsSync(THIRD_PARTY) ? false : "skipped: shared/reference is not beside the checkout";

const THEIRS = [
  { folder: "stories260K", files: ["stories260K.bin", "tok512.bin"], shape: { dim: 64, vocab_size: 512, context: 512 } },
  { folder: "babyllama-tok105", files: ["model5000.bin", "tok105.bin"], shape: { dim: 128, vocab_size: 105, context: 256 } },
];

/** Every reference run of a model: the prompt, the token at each position, the text. */
function references(folder) {
  const path = `${THIRD_PARTY}/${folder}/reference`;
  return readdirSync(path).filter((name) => name.endsWith(".ids.txt")).sort().map((name) => {
    const prompt = `${path}/${name.replace(".ids.", ".prompt.")}`;
    const lines = readFileSync(`${path}/${name}`, "utf8").split("\n");
    return {
      name,
      prompt: existsSync(prompt) ? readFileSync(prompt, "utf8") : PROMPT,
      ids: lines.filter((line) => /^\d+$/.test(line)).map(Number),
      text: readFileSync(`${path}/${name.replace(".ids.", ".t0.")}`, "utf8"),
    };
  });
}

const theirFiles = ({ folder, files }) =>
  files.map((name) => ({ name, bytes: readFileSync(`${THIRD_PARTY}/${folder}/${name}`) }));

for (const theirs of THEIRS) {
  test(`${theirs.folder}, dropped on the page, writes what its own program writes`, { skip, timeout: 2 * SLOW }, () =>
    visit({}, async (reader) => {
      await reader.reaches("ready");
      await reader.drag(theirFiles(theirs));
      await reader.settles(() => model(reader).inputValue(), theirs.files[0].replace(".bin", ""), "the picker");
      await reader.reaches("ready");
      for (const [index, reference] of references(theirs.folder).entries()) {
        // One text to its end, and of the others the beginning.
        const maxNewTokens = index === 0 ? 257 : 80;
        const trace = await reader.run({ prompt: reference.prompt, temperature: 0, maxNewTokens });
        const { dim, vocab_size, context } = trace.model;
        assert.deepEqual({ dim, vocab_size, context }, theirs.shape);
        const seen = [...trace.prompt.tokens.map(({ id }) => id), ...ids(trace)];
        const length = index === 0 ? reference.ids.length : 80;
        assert.deepEqual(seen.slice(0, length), reference.ids.slice(0, length), reference.name);
        const [text, theirText] = [trace.prompt.text + trace.text, reference.text.replace(/\n$/, "")];
        assert.equal(text.slice(0, theirText.length), theirText.slice(0, text.length), reference.name);
      }
    }));
}

test("another's model runs on the WebGPU engine too", { skip, timeout: 2 * SLOW }, () =>
  visit({ backend: "webgpu", loading: "click" }, async (reader) => {
    const [, theirs] = THEIRS;
    // Dropped before anything is loaded: nothing but this model is.
    stage.server.requests.length = 0;
    await reader.drag(theirFiles(theirs));
    await reader.reaches("ready");
    const trace = await reader.run();
    assert.equal(trace.backend.kind, "webgpu");
    const [reference] = references(theirs.folder);
    const seen = [...trace.prompt.tokens.map(({ id }) => id), ...ids(trace)];
    assert.deepEqual(seen, reference.ids.slice(0, seen.length));
    const fetched = stage.server.requests.map(({ path }) => path).filter((path) => path.startsWith("/model/"));
    assert.deepEqual(fetched, [], "the models that ship were not downloaded");
  }));

// Files that make no model.

const [good, goodTokenizer] = tinyModel("good");
const cut = ({ name, bytes }) => ({ name, bytes: bytes.subarray(0, bytes.length - 100) });
const noise = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * index * 31 + 7 * index + 201) % 251));

const BAD = [
  ["a checkpoint that is cut off", [cut(good), goodTokenizer], /good\.bin.*cut off/],
  ["a tokenizer that is cut off", [good, cut(goodTokenizer)], /good-tokenizer\.bin/],
  ["random bytes", [{ name: "noise.bin", bytes: noise }], /noise\.bin/],
  ["random bytes beside a tokenizer", [{ name: "noise.bin", bytes: noise }, goodTokenizer], /noise\.bin/],
  ["two checkpoints", [good, { ...good, name: "second.bin" }, goodTokenizer], /two|twice/i],
  ["the tokenizer of another model", [good, { name: "other.bin", bytes: tokenizer(41) }], /41.*tokens|tokens.*41/],
  ["a checkpoint alone", [good], /needs its tokenizer/],
  ["a tokenizer alone", [goodTokenizer], /needs its checkpoint/],
  ["an empty file", [{ name: "nothing.bin", bytes: Buffer.alloc(0) }, goodTokenizer], /nothing\.bin is empty/],
  ["a picture", [{ name: "cat.png", bytes: Buffer.from("\x89PNG\r\n\x1a\n and more", "latin1") }], /cat\.png/],
];

describe("files that make no model get a sentence, and the model before still runs", { timeout: SLOW }, () => {
  test("after a run, each in turn", () => visit({}, async (reader, page) => {
    await reader.reaches("ready");
    const before = await reader.run();
    const chosen = before.model.id;
    await page.evaluate(() => {
      window.errors = [];
      document.addEventListener("error", ({ detail }) => window.errors.push(detail.message));
    });
    for (const [what, files, words] of BAD) {
      const count = await page.evaluate(() => window.errors.length);
      await reader.drag(files);
      await reader.settles(() => page.evaluate(() => window.errors.length), count + 1, `an error event for ${what}`);
      const sentence = await problem(reader);
      assert.match(sentence, words, what);
      assert.match(sentence, /^[A-Z].*\.$/s, what);
      assert.doesNotMatch(sentence, /undefined|\[object|panicked|unwrap|null/, what);
      assert.equal(await reader.state(), "done", "the run stays on screen");
      assert.equal((await reader.trace()).text, before.text);
    }
    const after = await reader.run();
    assert.equal(after.model.id, chosen);
    assert.deepEqual(ids(after), ids(before));
    assert.equal(await reader.part("problem").count(), 0, "the sentence goes with the next run");
  }));

  test("21 MB are refused before they are read", () => visit({}, async (reader) => {
    await reader.reaches("ready");
    const refused = await reader.element.evaluate((element) => {
      const file = new File([new Uint8Array(21e6)], "big.bin");
      file.arrayBuffer = () => { throw new Error("it was read"); };
      return element.loadModel([file]).catch(({ message, kind }) => ({ message, kind }));
    });
    assert.match(refused.message, /21\.0 MB.*20\.0 MB/);
    assert.equal(refused.kind, "model");
    assert.equal(await problem(reader), refused.message);
    assert.equal((await reader.run()).steps.length, 6);
  }));

  test("before anything was loaded", () => visit({ loading: "click" }, async (reader) => {
    const refused = await reader.loadModel([good]);
    assert.match(refused.error, /needs its tokenizer/);
    await reader.reaches("idle");
    const trace = await reader.run();
    assert.equal(trace.steps.length, 6, "Run loads the model that ships");
  }));
});

// Choosing.

test("loadModel() resolves with the model's description, and the scene fits its shape", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await reader.set("top_k", 1000);
  const shipped = (await reader.trace())?.model.id ?? (await reader.run()).model.id;
  const shape = { layers: 3, heads: 4, kvHeads: 1, vocab: 40, context: 64 };
  const description = await reader.loadModel(tinyModel("mine", shape));
  assert.deepEqual(description, {
    id: "mine", dim: 16, hidden_dim: 24, n_layers: 3, n_heads: 4, n_kv_heads: 1, head_dim: 4, vocab_size: 40, context: 64,
  });
  assert.equal(await reader.state(), "ready");
  assert.equal(await reader.part("prompt").inputValue(), PROMPT, "the reader's prompt stays");
  await reader.settles(async () => (await reader.columns()).free.length, 64, "slots of the cache");
  await reader.settles(() => reader.part("prompt-tokens").locator("[data-part=chip]").count(), 18, "a token a letter");
  assert.equal(await reader.element.locator("output[data-rule=top_k]").textContent(), "40", "top-k still keeps all");
  assert.equal(await reader.input("layer").locator("option").count(), 4);
  assert.equal(await reader.input("head").locator("option").count(), 5);
  assert.match(await reader.part("model").textContent(), /mine, your own: .*3 layers, 4 query heads over 1 KV head, a vocabulary of 40, a context of 64/);

  const trace = await reader.run();
  assert.deepEqual(trace.model, description);
  assert.equal(await reader.part("cell").count(), 3 * (18 + trace.steps.length - 1));
  assert.equal((await reader.candidates()).length >= 10, true);
  await model(reader).selectOption(shipped);
  await reader.reaches("ready");
  assert.equal(await reader.part("newest").count(), 0, "the other model's run is put away");
  assert.equal(Number(await reader.element.locator("output[data-rule=top_k]").textContent()) > 40, true, "and here as well");
  assert.equal((await reader.run()).model.id, shipped);
  await model(reader).selectOption("mine");
  await reader.reaches("ready");
  assert.deepEqual(ids(await reader.run()), ids(trace), "it is still there, and the same");
  const both = await reader.run({ topK: 500, model: shipped });
  assert.equal(both.settings.top_k, 500, "a setting given with a model is for that model");
}));

test("a model as Hugging Face lays it out writes what it writes in the llama2.c layout", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await reader.loadModel(tinyModel("mine"));
  const expected = await reader.run({ maxNewTokens: 24 });
  await reader.drag(tinySafetensors());
  await reader.settles(() => model(reader).inputValue(), "model", "the picker");
  const trace = await reader.run({ maxNewTokens: 24 });
  assert.deepEqual({ ...trace.model, id: "mine" }, expected.model);
  assert.deepEqual(ids(trace), ids(expected));
  const [weights, , words] = tinySafetensors();
  await reader.drag([weights, words]);
  await reader.part("problem").waitFor();
  assert.match(await problem(reader), /config\.json/);
}));

test("the attribute, run() and the picker choose a model; an unknown one is told", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  const shipped = (await reader.run()).model.id;
  await reader.loadModel(tinyModel("mine"));
  const setAttribute = (value) => reader.element.evaluate((element, value) => element.setAttribute("model", value), value);
  await setAttribute(shipped);
  assert.equal((await reader.run()).model.id, shipped);
  assert.equal((await reader.run({ model: "mine" })).model.id, "mine", "run() waits for the model");
  assert.equal(await model(reader).inputValue(), "mine");
  await setAttribute("nobody");
  const notice = await reader.part("notice").textContent();
  assert.match(notice, new RegExp(`There is no model “nobody”; this is “mine”\\. Known: .*${shipped}.*mine`));
  assert.equal((await reader.run()).model.id, "mine");
}));

test("an unknown model in the page's own text is told, and the first that ships runs", () =>
  visit({ model: "nobody" }, async (reader) => {
    await reader.reaches("ready");
    const trace = await reader.run();
    assert.match(await reader.part("notice").textContent(), new RegExp(`no model “nobody”; this is “${trace.model.id}”`));
  }));

test("every model that ships can be picked and runs", { timeout: SLOW }, (t) => visit({}, async (reader) => {
  await reader.reaches("ready");
  if ((await model(reader).count()) === 0) return t.skip("skipped: only one model ships");
  for (const id of await options(reader)) {
    await model(reader).selectOption(id);
    // Without waiting: Run is pressed while the model is still on its way.
    const trace = await reader.run();
    assert.equal(trace.model.id, id);
    assert.equal(trace.steps.length, 6);
    await reader.element.evaluate((element) => element.reset());
  }
}));

test("a model chosen in mid-run ends the run", () => visit({ "max-new-tokens": "40" }, async (reader) => {
  await reader.reaches("ready");
  await reader.loadModel(tinyModel("mine"));
  const settings = { maxNewTokens: 24, temperature: 1, seed: 2 };
  const ended = reader.element.evaluate((element, settings) => element.run(settings).catch(({ name }) => name), settings);
  await reader.reaches("running");
  const [first] = await options(reader);
  await model(reader).selectOption(first);
  assert.equal(await ended, "AbortError");
  await reader.reaches("ready");
  assert.equal(await reader.used(), 0);
  assert.equal((await reader.run({ maxNewTokens: 4 })).model.id, first);
}));

test("two elements on one page run different models, each undisturbed", () =>
  stage.visit("/hosts/two.html", async (first, page) => {
    const second = new Reader(page, "#second");
    const alone = await first.run();
    const mine = await second.loadModel(tinyModel("mine"));
    const [one, two] = await Promise.all([first.run(), second.run({ prompt: "Once" })]);
    assert.equal(two.model.id, mine.id);
    assert.notEqual(one.model.id, two.model.id);
    assert.deepEqual(ids(one), ids(alone));
    assert.equal(await first.input("model").count() === 0 || (await first.input("model").inputValue()) === one.model.id, true);
    await page.evaluate(() => document.querySelector("#second").remove());
    await page.waitForTimeout(100);
    assert.deepEqual(ids(await first.run()), ids(alone), "one that leaves takes only its own model along");
    // A model of the same name, of another shape.
    await first.loadModel(tinyModel("mine", { layers: 1, context: 32 }));
    assert.equal((await first.run({ prompt: "Once" })).model.n_layers, 1);
  }));

// The reader's ways to give files.

test("a drag of files shows where to drop them, and no other drag does", () => visit({}, async (reader) => {
  await reader.reaches("ready");
  await reader.element.evaluate((element) => {
    const data = new DataTransfer();
    data.setData("text/plain", "words");
    const over = new DragEvent("dragenter", { dataTransfer: data, bubbles: true, composed: true, cancelable: true });
    element.shadowRoot.querySelector("h3").dispatchEvent(over);
  });
  assert.equal(await reader.part("drop").count(), 0);
  await reader.drag(tinyModel("mine"), { hold: true });
  await reader.part("drop").waitFor({ state: "visible" });
  await reader.part("drop").dispatchEvent("dragleave");
  await reader.part("drop").waitFor({ state: "detached" });
  await reader.drag(tinyModel("mine"));
  await reader.settles(() => model(reader).inputValue(), "mine", "the picker");
  assert.equal(await reader.part("drop").count(), 0);
}));

test("files can be chosen with the keyboard alone", () => visit({}, async (reader, page) => {
  await reader.reaches("ready");
  // Before the keys: a chooser that comes before anybody listens is not heard of.
  const asked = page.waitForEvent("filechooser");
  await reader.action("own-model").focus();
  await page.keyboard.press("Enter");
  await reader.part("own-model").waitFor();
  assert.equal(await reader.action("own-model").getAttribute("aria-expanded"), "true");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const files = (list) => list.map(({ name, bytes }) => ({ name, mimeType: "application/octet-stream", buffer: bytes }));
  const chooser = await asked;
  assert.ok(chooser.isMultiple());
  await chooser.setFiles(files([good]));
  await reader.part("problem").waitFor();
  assert.match(await problem(reader), /needs its tokenizer/);
  await reader.input("model-files").setInputFiles(files([good, goodTokenizer]));
  await reader.settles(() => model(reader).inputValue(), "good", "the picker");
  assert.equal(await reader.part("problem").count(), 0);
  assert.equal((await reader.run()).model.id, "good");
}));

for (const width of [1280, 360]) {
  test(`at ${width} px a model of another shape sticks out nowhere`, () => visit({}, async (reader, page) => {
    await reader.reaches("ready");
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await reader.press("own-model");
    assert.ok((await overflow()) <= 0, "with the note open");
    await reader.loadModel(tinyModel("a-model-with-quite-a-long-name-as-people-give-them-v2-final", { layers: 1, context: 500 }));
    await reader.run({ maxNewTokens: 20 });
    assert.ok((await overflow()) <= 0, "after a run");
  }, { viewport: { width, height: 740 } }));
}
