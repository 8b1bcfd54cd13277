// The element in pages that other people wrote.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Reader, host, ids, siteFolder, useBrowser } from "./harness.mjs";
import { serve } from "./server.mjs";

const SETTINGS = { backend: "cpu", prompt: "Once upon a time", temperature: "0", "max-new-tokens": "6" };

const stage = useBrowser();

test("a page that holds nothing but the tag", () =>
  stage.visit("/hosts/bare.html", async (reader) => {
    await reader.press("run");
    await reader.part("newest").waitFor();
    await reader.press("reset");
    const trace = await reader.run({ maxNewTokens: 4 });
    assert.equal(trace.steps.length, 4);
  }));

test("nothing is downloaded before the reader asks for it", () =>
  stage.visit("/hosts/bare.html", async (reader, page) => {
    stage.server.requests.length = 0;
    await page.reload();
    await page.waitForTimeout(1000);
    const bytes = stage.server.requests.reduce((sum, request) => sum + request.bytes, 0);
    const names = stage.server.requests.map(({ path }) => path);
    assert.ok(!names.some((name) => /wasm|model|engine/.test(name)), String(names));
    assert.ok(bytes < 16_000, `${bytes} bytes: ${names}`);
    await reader.run({ maxNewTokens: 2 });
  }));

test("a mouse button that goes down on Run begins to load, and its click runs", () =>
  stage.visit("/hosts/bare.html", async (reader, page) => {
    stage.server.requests.length = 0;
    const { x, y, width, height } = await reader.element.evaluate(({ shadowRoot: root }) =>
      root.querySelector("[data-action=run]").getBoundingClientRect().toJSON());
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.down();
    const asked = () => stage.server.requests.some(({ path }) => path.endsWith("inferscope-app.js"));
    await reader.settles(async () => asked(), true, "the app was asked for");
    assert.equal(await reader.state(), "idle", "nothing is shown of it yet");
    await page.mouse.up();
    await reader.reaches("running");
    await reader.press("reset");
  }));

test("loading=eager and loading=visible load by themselves", async () => {
  await stage.visit(host({ ...SETTINGS, loading: "eager" }), (reader) => reader.reaches("ready"));
  await stage.visit(host({ ...SETTINGS, loading: "visible" }), (reader) => reader.reaches("ready"));
});

test("two elements on one page run on their own", () =>
  stage.visit("/hosts/two.html", async (first, page) => {
    const second = new Reader(page, "#second");
    const [one, two] = await Promise.all([first.run(), second.run()]);
    assert.equal(one.steps.length, 8);
    assert.equal(two.steps.length, 6);
    assert.notEqual(one.prompt.text, two.prompt.text);
    const alone = await first.run();
    assert.deepEqual(ids(alone), ids(one), "neither disturbed the other");
    await second.press("reset");
    await second.reaches("ready", "idle");
    assert.equal(await first.state(), "done");
  }));

test("an element that is removed and put back still works", () =>
  stage.visit(host(SETTINGS), async (reader, page) => {
    await reader.run();
    await page.evaluate(async () => {
      const element = document.querySelector("infer-scope");
      element.remove();
      await new Promise((resolve) => setTimeout(resolve, 100));
      document.body.append(element);
    });
    const again = await reader.run();
    assert.equal(again.steps.length, 6);
  }));

test("a host page's style sheet does not reach inside", async () => {
  const look = (reader) => reader.element.evaluate((element) => {
    const of = (selector) => {
      const part = element.shadowRoot.querySelector(selector);
      const style = getComputedStyle(part);
      const names = [
        "fontSize", "fontStyle", "fontWeight", "fontFamily", "lineHeight", "letterSpacing", "wordSpacing", "textAlign",
        "textTransform", "textIndent", "whiteSpace", "direction", "color", "opacity", "cursor", "display",
      ];
      return Object.fromEntries(names.map((name) => [name, style[name]]));
    };
    return { run: of("[data-action=run]"), text: of("[data-part=text]"), prompt: of("[data-part=prompt]") };
  });
  let plain;
  await stage.visit(host({ ...SETTINGS }), async (reader) => {
    await reader.run();
    plain = await look(reader);
  });
  await stage.visit("/hosts/hostile.html", async (reader) => {
    await reader.run();
    assert.deepEqual(await look(reader), plain);
  });
});

test("the site works from a sub-path", () =>
  stage.visit("/some/sub/path/", async (reader, page) => {
    await reader.press("run");
    await reader.reaches("running");
    const trace = await reader.run({ maxNewTokens: 4 });
    assert.equal(trace.steps.length, 4);
    const elsewhere = await page.evaluate(() =>
      performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname)
        .filter((path) => !path.startsWith("/some/sub/path/")));
    assert.deepEqual(elsewhere, []);
  }));

test("the element works in a page of another origin", async () => {
  const other = await serve(siteFolder());
  try {
    await stage.visit("/hosts/elsewhere.html?from=" + encodeURIComponent(other.url), async (reader, page) => {
      await page.evaluate(() => customElements.whenDefined("infer-scope").then(() => {}));
      const trace = await reader.run();
      assert.equal(trace.steps.length, 4);
    });
  } finally {
    await other.close();
  }
});
