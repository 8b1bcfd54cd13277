// *Memory* has three owners: the page's heap, the linear memory of the engine's WebAssembly, which only grows, and for WebGPU
// the GPU. No browser tells a page what it holds there, so two figures stand for it: the bytes of the buffers that the engine
// holds, counted as it creates and destroys them (gpu-buffers.js), and on Linux what the browser's GPU process has resident,
// in which a software adapter's buffers lie, and those of a graphics card with memory of its own do not.
import { readFile } from "node:fs/promises";
import { Reader, host } from "../harness.mjs";
import { mebibytes } from "./numbers.mjs";
import { TEMPERATURE } from "./prompts.mjs";

class Meter {
  constructor(bench, page) {
    this.bench = bench;
    this.page = page;
  }

  engine() {
    return this.page.workers().find((worker) => worker.url().includes(`kind=${this.bench.backend}`));
  }

  /** Bytes of the engine's linear memory. The engine's module answers a second call of its loader with what it exports. */
  wasm() {
    return this.engine().evaluate(async (kind) => {
      const engine = await import(new URL(`./${kind}.js`, location.href));
      return (await engine.default()).memory.buffer.byteLength;
    }, this.bench.backend);
  }

  async heap() {
    await this.page.requestGC();
    return this.page.evaluate(() => performance.memory.usedJSHeapSize);
  }

  /** Bytes of the engine's buffers on the GPU; what lies about as garbage is collected first. */
  buffers() {
    return this.engine().evaluate(async () => {
      for (let time = 0; time < 3; time++) {
        gc();
        await new Promise((done) => setTimeout(done, 50));
      }
      return self.gpuBufferBytes;
    });
  }

  /** Resident bytes of the browser's GPU process, or none where the system does not say. */
  async gpuProcess() {
    const client = await this.bench.browser.newBrowserCDPSession();
    const { processInfo } = await client.send("SystemInfo.getProcessInfo");
    await client.detach();
    const { id } = processInfo.find(({ type }) => type === "GPU") ?? {};
    const status = await readFile(`/proc/${id}/status`, "utf8").catch(() => "");
    const resident = status.match(/^VmRSS:\s+(\d+) kB$/m)?.[1];
    return resident && Number(resident) * 1024;
  }

  /** All of them, in MiB, with a word of when. */
  async all(when) {
    const parts = { heap_mib: await this.heap(), wasm_mib: await this.wasm() };
    if (this.bench.backend === "webgpu") {
      Object.assign(parts, { gpu_buffers_mib: await this.buffers(), gpu_process_mib: await this.gpuProcess() });
    }
    const known = Object.entries(parts).filter(([, bytes]) => bytes !== undefined);
    return Object.fromEntries(known.map(([part, bytes]) => [`${part}_${when}`, mebibytes(bytes)]));
  }
}

async function onOwnPage(bench, body) {
  const page = await bench.browser.newPage();
  try {
    await page.goto(bench.url + host({ backend: bench.backend, loading: "eager" }, "/counting-gpu-buffers/"));
    return await body(new Reader(page), new Meter(bench, page));
  } finally {
    await page.close();
  }
}

const runs = {
  id: "memory", unit: "MiB", once: true,
  measure: (bench) => onOwnPage(bench, async (reader, meter) => {
    const settings = { maxNewTokens: bench.slow ? 2 : 24 };
    await reader.run(settings);
    const after1 = await meter.all("after_1");
    for (let run = 0; run < 49; run++) await reader.run(settings);
    return { tokens_of_a_run: settings.maxNewTokens, ...after1, ...await meter.all("after_50") };
  }),
};

/** Whether steps leave anything behind. The first runs are not counted: they grow the memory to what a run needs. */
const steps = {
  id: "memory_of_steps", unit: "MiB", once: true,
  measure: (bench) => onOwnPage(bench, async (reader, meter) => {
    const tokens = bench.tokens(200);
    const wanted = bench.slow ? 4 * tokens : 1000;
    let seed = 1;
    const decode = async (most) => {
      const { steps } = await reader.run({ prompt: "Once upon a time", maxNewTokens: most, temperature: TEMPERATURE, seed: seed++ });
      return steps.length - 1;
    };
    for (let run = 0; run < 2; run++) await decode(tokens);
    const before = await meter.all("before");
    let done = 0;
    while (done < wanted) done += await decode(Math.max(2, Math.min(tokens, wanted - done + 1)));
    return { steps: done, ...before, ...await meter.all("after") };
  }),
};

export const MEMORY = [runs, steps];
