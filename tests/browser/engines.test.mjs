// Which engine serves, and what the page says about it. The only adapter here is a software one; a page is made to
// believe in a hardware adapter where the test needs one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SLOW, host, ids, useBrowser } from "./harness.mjs";

const SETTINGS = { prompt: "Once upon a time", temperature: "0", "max-new-tokens": "6" };

const stage = useBrowser();

function pretendHardware() {
  Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });
}

function withoutWebgpu() {
  Object.defineProperty(Navigator.prototype, "gpu", { get: () => undefined });
}

const line = (reader) => reader.part("engine").textContent();

test("auto leaves a software adapter alone, serves on the CPU and says so", () =>
  stage.visit(host({ ...SETTINGS, backend: "auto" }), async (reader) => {
    const trace = await reader.run();
    assert.equal(trace.backend.kind, "cpu");
    assert.match(trace.backend.reason, /software/i);
    assert.match(await line(reader), /CPU/);
    assert.match(await line(reader), /software/i);
    assert.ok(!stage.server.requests.some(({ path }) => path.includes("webgpu_bg.wasm")), "WebGPU was not downloaded");
  }));

test("without WebGPU in the browser the CPU serves and the page says so", () =>
  stage.visit(host({ ...SETTINGS, backend: "auto" }), async (reader) => {
    const trace = await reader.run();
    assert.equal(trace.backend.kind, "cpu");
    assert.match(await line(reader), /WebGPU/);
  }, { init: withoutWebgpu }));

test("WebGPU by name where the browser has none falls back to the CPU and says so", () =>
  stage.visit(host({ ...SETTINGS, backend: "webgpu" }), async (reader) => {
    const trace = await reader.run();
    assert.equal(trace.backend.kind, "cpu");
    assert.match(await line(reader), /CPU/);
    assert.match(await line(reader), /WebGPU/);
  }, { init: withoutWebgpu }));

test("with a hardware adapter the CPU serves first and WebGPU takes over", { timeout: 2 * SLOW }, () =>
  stage.visit(host({ ...SETTINGS, backend: "auto" }), async (reader) => {
    const first = await reader.run();
    assert.equal(first.backend.kind, "cpu", "the reader does not wait for WebGPU");
    const deadline = Date.now() + SLOW;
    let last = first;
    while (last.backend.kind !== "webgpu") {
      assert.ok(Date.now() < deadline, `still on the CPU: ${await line(reader)}`);
      await reader.page.waitForTimeout(500);
      last = await reader.run({ maxNewTokens: 6 });
    }
    assert.deepEqual(ids(last), ids(first));
    assert.match(await line(reader), /WebGPU/);
  }, { init: pretendHardware }));

test("the reader can switch engines while the page is open", { timeout: 2 * SLOW }, () =>
  stage.visit(host({ ...SETTINGS, backend: "cpu", loading: "eager" }), async (reader) => {
    await reader.reaches("ready");
    const onCpu = await reader.run();
    await reader.input("backend").selectOption("webgpu");
    const onWebgpu = await reader.run();
    assert.equal(onWebgpu.backend.kind, "webgpu");
    assert.deepEqual(ids(onWebgpu), ids(onCpu));
    await reader.input("backend").selectOption("cpu");
    assert.equal((await reader.run()).backend.kind, "cpu");
  }));

test("auto goes on with the CPU when the WebGPU engine is not built, and says so", { timeout: 2 * SLOW }, () =>
  stage.visit(host({ ...SETTINGS, backend: "auto" }, "/without-webgpu/"), async (reader) => {
    const first = await reader.run();
    assert.equal(first.backend.kind, "cpu", "the CPU serves before anyone knows");
    const deadline = Date.now() + 20_000;
    let last = first;
    while (!/WebGPU.*(out|not|could|fail)/i.test(last.backend.reason)) {
      assert.ok(Date.now() < deadline, `the reason is still “${last.backend.reason}”`);
      await reader.page.waitForTimeout(200);
      last = await reader.run();
      assert.equal(last.backend.kind, "cpu");
    }
    assert.ok((await line(reader)).includes(last.backend.reason.replace(/\.$/, "")), await line(reader));
  }, { init: pretendHardware, expected: /404/ }));

test("WebGPU by name falls back to the CPU when its engine is not built, and says so", { timeout: 2 * SLOW }, () =>
  stage.visit(host({ ...SETTINGS, backend: "webgpu" }, "/without-webgpu/"), async (reader) => {
    const trace = await reader.run();
    assert.equal(trace.backend.kind, "cpu");
    assert.match(trace.backend.reason, /WebGPU was chosen, but/);
    assert.match(await line(reader), /CPU.*WebGPU was chosen, but/);
  }, { expected: /404/ }));

test("a graphics process that dies in mid-run costs no token: the CPU goes on", { timeout: 2 * SLOW }, () =>
  stage.visit(host({ ...SETTINGS, backend: "webgpu", "max-new-tokens": "12", loading: "eager" }), async (reader, page) => {
    await reader.reaches("ready");
    const wanted = await reader.element.evaluate((element) => new Promise((resolve, reject) => {
      element.addEventListener("step", ({ detail }) => detail.index === 3 && resolve("three steps were run"));
      element.run({ pace: "max" }).then((trace) => (window.trace = trace), reject);
    }));
    assert.ok(wanted);
    const session = await stage.browser.newBrowserCDPSession();
    await session.send("Browser.crashGpuProcess");
    await reader.reaches("done");
    const moved = await page.evaluate(() => JSON.parse(JSON.stringify(window.trace)));
    assert.equal(moved.backend.kind, "cpu");
    assert.match(await line(reader), /CPU engine: WebGPU was chosen, but/);
    assert.deepEqual(moved.steps.map(({ index }) => index), [...Array(12).keys()]);
    await reader.input("backend").selectOption("cpu");
    assert.deepEqual(ids(moved), ids(await reader.run()), "the same tokens as on the CPU from the start");
  }));
