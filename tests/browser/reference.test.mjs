// The tokens in the browser are those of the reference implementation, where its output lies beside the checkout. The model
// is the first that the project had; it is given to the page as a reader's own.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { ENGINES, REFERENCE, SLOW, host, ids, useBrowser } from "./harness.mjs";

const skip = existsSync(REFERENCE) ? false : "skipped: shared/reference is not beside the checkout";

const stage = useBrowser();

const prototype = () =>
  ["story-1m.bin", "tok1024.bin"].map((name) => ({ name, bytes: readFileSync(`${REFERENCE}/../${name}`) }));

for (const engine of ENGINES) {
  test(`greedy tokens on the ${engine} engine are the reference's`, { skip, timeout: 2 * SLOW }, () =>
    stage.visit(host({ backend: engine, loading: "click" }), async (reader) => {
      await reader.loadModel(prototype());
      const names = readdirSync(REFERENCE).filter((name) => name.endsWith(".prompt.txt")).sort();
      const chosen = engine === "cpu" ? names : names.slice(2, 3);
      for (const name of chosen) {
        const prompt = readFileSync(`${REFERENCE}/${name}`, "utf8");
        const lines = readFileSync(`${REFERENCE}/${name.replace("prompt.txt", "ids.txt")}`, "utf8").split("\n");
        const expected = lines.filter((line) => /^\d+$/.test(line)).map(Number);
        const trace = await reader.run({ prompt, temperature: 0, maxNewTokens: engine === "cpu" ? 128 : 8 });
        const seen = [...trace.prompt.tokens.map(({ id }) => id), ...ids(trace)];
        assert.deepEqual(seen, expected.slice(0, seen.length), name);
      }
    }));
}
