// Prints a table of the files under the folder given: bytes raw, in gzip -9 and in brotli at quality 11.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { argv } from "node:process";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const site = argv.at(-1);

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
