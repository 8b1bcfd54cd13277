// The article page itself: the default run, its width, its smoothness.
import assert from "node:assert/strict";
import { test } from "node:test";
import { host, useBrowser } from "./harness.mjs";

const stage = useBrowser();

test("the page as it comes: Run writes a text", () =>
  stage.visit("/", async (reader) => {
    await reader.press("run");
    await reader.reaches("running");
    await reader.part("newest").waitFor();
    const trace = await reader.run();
    assert.ok(trace.steps.length > 10);
    assert.ok(trace.text.trim().length > 20);
    assert.equal(await reader.state(), "done");
  }));

for (const width of [1280, 768, 360]) {
  test(`at ${width} px nothing sticks out of the page`, () =>
    stage.visit("/", async (reader, page) => {
      const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok((await overflow()) <= 0, "before the run");
      await reader.run({ maxNewTokens: 12 });
      assert.ok((await overflow()) <= 0, "after it");
      await page.evaluate(() => scrollTo(500, 0));
      assert.equal(await page.evaluate(() => scrollX), 0);
    }, { viewport: { width, height: 740 } }));
}

for (const [scene, speed] of [["generate", "1"], ["window", "2"], ["speculative", "2"], ["paged", "4"], ["batching", "4"]]) test(`no task holds the main thread for 50 ms while the CPU engine runs ${scene}`, async (t) => {
  const settings = { backend: "cpu", scene, prompt: "Once upon a time", temperature: "0", "max-new-tokens": "10", loading: "eager" };
  await stage.visit(host(settings), async (reader, page) => {
    await reader.reaches("ready");
    await reader.part("speed").selectOption(speed);
    await page.waitForTimeout(500);
    await page.evaluate(() => {
      window.tasks = [];
      const observer = new PerformanceObserver((list) => {
        for (const { startTime, duration } of list.getEntries()) window.tasks.push([startTime, duration].map(Math.round));
      });
      observer.observe({ type: "longtask" });
      window.frames = 0;
      const count = () => {
        window.frames++;
        requestAnimationFrame(count);
      };
      count();
    });
    // A task of ours comes in every run; what the machine does besides comes once. So one run of three must be free of them.
    let tasks;
    for (let attempt = 0; attempt < 3 && tasks?.length !== 0; attempt++) {
      await page.evaluate(() => {
        window.tasks = [];
        window.frames = 0;
      });
      const began = Date.now();
      await reader.press("run");
      await reader.reaches("done");
      const seconds = (Date.now() - began) / 1000;
      const seen = await page.evaluate(() => ({ tasks: window.tasks, frames: window.frames }));
      tasks = seen.tasks;
      t.diagnostic(`${(seen.frames / seconds).toFixed(1)} frames a second over ${seconds.toFixed(1)} s; long tasks: ${JSON.stringify(tasks)}`);
    }
    assert.deepEqual(tasks, [], "[start, duration] in ms");
  });
});

test("every control has a name for those who do not see it", () =>
  stage.visit("/", async (reader) => {
    await reader.run({ maxNewTokens: 4 });
    const nameless = await reader.element.evaluate((element) => {
      const controls = [...element.shadowRoot.querySelectorAll("button, input, select, textarea")];
      return controls
        .filter((control) => !control.labels?.length && !control.ariaLabel && !control.getAttribute("aria-labelledby")
          && !(control.localName === "button" && control.textContent.trim()) && !control.title)
        .map((control) => control.outerHTML.slice(0, 120));
    });
    assert.deepEqual(nameless, []);
  }));

test("without JavaScript the article has still pictures, each with its words", async () => {
  const context = await stage.browser.newContext({ javaScriptEnabled: false, viewport: { width: 360, height: 740 } });
  const page = await context.newPage();
  await page.goto(`${stage.server.url}/`);
  await page.waitForLoadState("load");
  // The page has no scripts of its own to ask, so the pictures are asked for from outside.
  const pictures = await page.locator("img").all();
  assert.ok(pictures.length >= 6, `${pictures.length} pictures`);
  for (const picture of pictures) {
    const [source, words] = await Promise.all([picture.getAttribute("src"), picture.getAttribute("alt")]);
    assert.ok(words.length > 40, `${source} has no words`);
    const answer = await context.request.get(new URL(source, `${stage.server.url}/`).href);
    assert.equal(answer.status(), 200, source);
    const box = await picture.boundingBox();
    assert.ok(box.width > 100 && box.height > 40, `${source} is ${box.width} by ${box.height}`);
    assert.ok(box.x >= 0 && box.x + box.width <= 360, `${source} sticks out`);
  }
  await context.close();
});
