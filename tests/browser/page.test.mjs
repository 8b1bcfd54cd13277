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

test("no task holds the main thread for 50 ms while the CPU engine runs", async (t) => {
  const settings = { backend: "cpu", prompt: "Once upon a time", temperature: "0", "max-new-tokens": "16", loading: "eager" };
  await stage.visit(host(settings), async (reader, page) => {
    await reader.reaches("ready");
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
    const began = Date.now();
    await reader.press("run");
    await reader.reaches("done");
    const seconds = (Date.now() - began) / 1000;
    const { tasks, frames } = await page.evaluate(() => ({ tasks: window.tasks, frames: window.frames }));
    t.diagnostic(`${(frames / seconds).toFixed(1)} frames a second over ${seconds.toFixed(1)} s; long tasks: ${JSON.stringify(tasks)}`);
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
