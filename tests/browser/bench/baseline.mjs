// The *baseline* is the model in plain loops (crates/baseline), in a worker of the page that the engines are measured on.
import assert from "node:assert/strict";
import { Reader, ids } from "../harness.mjs";

export class Baseline {
  static async on(page) {
    const worker = await page.evaluateHandle(() => new Worker("/bench/baseline-worker.js", { type: "module" }));
    const baseline = new Baseline(page, worker);
    await baseline.does("load", { wasm: "/bench/baseline.wasm", model: "/model/story.infer" });
    return baseline;
  }

  constructor(page, worker) {
    this.page = page;
    this.worker = worker;
  }

  /** Has the worker do one of its tasks, and gives the result. */
  does(task, given) {
    return this.page.evaluate(([worker, message]) => new Promise((done, failed) => {
      worker.onmessage = ({ data }) => ("error" in data ? failed(new Error(data.error)) : done(data.result));
      worker.onerror = ({ message }) => failed(new Error(message ?? "the baseline could not be loaded"));
      worker.postMessage(message);
    }), [this.worker, { task, given }]);
  }

  /** Holds its greedy tokens against those of the CPU engine, for prompts of several lengths, and gives how many there were. */
  async agrees(page, prompts) {
    const reader = new Reader(page, "#generate");
    let compared = 0;
    for (const most of [6, 16, 64, 200]) {
      const { text, ids: prompt } = prompts.ofTokens(most);
      const trace = await reader.run({ backend: "cpu", prompt: text, temperature: 0, maxNewTokens: 200 });
      assert.deepEqual(trace.prompt.tokens.map(({ id }) => id), prompt, "the prompt has other tokens than were meant");
      const tokens = await this.does("greedy", { prompt, tokens: trace.steps.length });
      assert.deepEqual(tokens, ids(trace), `after ${prompt.length} tokens the baseline writes another text than the engine`);
      compared += tokens.length;
    }
    return compared;
  }
}
