// Prints a table of the files under the folder given: bytes raw, in gzip -9 and in brotli at quality 11; then what a reader
// waits for, beside its budget, and fails where one is exceeded.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import process, { argv } from "node:process";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const site = argv.at(-1);

// Budgets in bytes of brotli. An app in one piece has no __wasm_split.js.
const ELEMENT = ["infer-scope.js"];
const APP = ["inferscope-app.js", "inferscope-app_bg.wasm", "__wasm_split.js", "infer-scope.css"];
const CPU = ["engine/worker.js", "engine/cpu.js", "engine/cpu_bg.wasm"];
const MODEL = ["model/story.infer", "model/story.tokenizer.bin"];
const BUDGETS = [
  ["the element", ELEMENT, 4_000],
  ["the app, as a first run needs it", APP, 150_000],
  ["the CPU engine", CPU, 200_000],
  ["the model", MODEL, 1_100_000],
  ["all of these: from nothing to the first token", [...ELEMENT, ...APP, ...CPU, ...MODEL], 1_500_000],
  ["the WebGPU engine", ["engine/webgpu.js", "engine/webgpu_bg.wasm"], 1_200_000],
];

function filesIn(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesIn(path) : [path];
  });
}

function sizes(bytes) {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return [bytes.length, gzipSync(bytes, { level: 9 }).length, brotliCompressSync(bytes, { params }).length];
}

const rows = filesIn(site).sort().map((path) => [relative(site, path), sizes(readFileSync(path))]);
const total = rows.reduce((sum, [, row]) => sum.map((value, column) => value + row[column]), [0, 0, 0]);
const number = (value) => value.toLocaleString("en-US").padStart(12);
const width = Math.max(...rows.map(([name]) => name.length), "all files".length);
console.log("".padEnd(width) + ["raw", "gzip", "brotli 11"].map((head) => head.padStart(12)).join(""));
for (const [name, row] of [...rows, ["all files", total]]) {
  console.log(name.padEnd(width) + row.map(number).join(""));
}

console.log();
const brotli = new Map(rows.map(([name, row]) => [name, row[2]]));
let over = false;
for (const [part, files, budget] of BUDGETS) {
  const bytes = files.reduce((sum, file) => sum + (brotli.get(file) ?? 0), 0);
  over ||= bytes > budget;
  console.log(`${number(bytes)} of ${number(budget).trim()} ${bytes > budget ? "OVER BUDGET " : ""}${part}`);
}
process.exitCode = over ? 1 : 0;
