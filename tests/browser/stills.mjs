// Takes the still pictures that the article shows where JavaScript is off: node tests/browser/stills.mjs. They are of the
// built page, at fixed settings, so they change only when the page or the model does.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Reader, host, launch, siteFolder } from "./harness.mjs";
import { serve } from "./server.mjs";

const FOLDER = fileURLToPath(new URL("../../static/pictures/", import.meta.url));
const PROMPT = "Once upon a time, there was a brave girl named Zumo. One sunny day";
const SETTINGS = { backend: "cpu", loading: "eager", prompt: PROMPT, seed: 1 };

mkdirSync(FOLDER, { recursive: true });
const server = await serve(siteFolder());
const browser = await launch();
const page = await browser.newPage({ viewport: { width: 900, height: 900 }, colorScheme: "light", deviceScaleFactor: 1.5 });
const reader = new Reader(page);

const open = async (attributes) => {
  await page.goto(server.url + host({ ...SETTINGS, ...attributes }));
  await reader.reaches("ready");
};

/** A part of the widget as WebP, which the browser itself makes of its screenshot. */
async function still(name, parts) {
  await page.evaluate(() => scrollTo(0, 0));
  const boxes = await Promise.all(parts.map((part) => reader.element.locator(part).boundingBox()));
  const left = Math.min(...boxes.map(({ x }) => x)) - 12;
  const top = Math.min(...boxes.map(({ y }) => y)) - 12;
  const clip = {
    x: left,
    y: top,
    width: Math.max(...boxes.map(({ x, width }) => x + width)) + 12 - left,
    height: Math.max(...boxes.map(({ y, height }) => y + height)) + 12 - top,
  };
  const png = await page.screenshot({ clip, fullPage: true });
  const webp = await page.evaluate(async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.86 });
    const bytes = new Uint8Array(await blob.arrayBuffer());
    return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
  }, png.toString("base64"));
  const bytes = Buffer.from(webp, "base64");
  writeFileSync(`${FOLDER}${name}.webp`, bytes);
  console.log(`${name}.webp: ${Math.round(clip.width)} × ${Math.round(clip.height)}, ${bytes.length} bytes`);
}

try {
  await open({});
  await reader.run({ pace: "timed", maxNewTokens: 1 });
  await still("prefill", [".story", ".grid"]);
  await open({});
  await reader.run({ maxNewTokens: 40 });
  await still("decode", [".story", ".grid"]);
  await open({});
  await reader.part("speed").selectOption("max");
  await reader.press("run-both");
  await reader.part("comparison").waitFor();
  await reader.reaches("done");
  await still("growth", [".growth"]);
  await still("roofline", [".roofline"]);
  await open({ scene: "sampling", temperature: 1, "top-k": 1024, "max-new-tokens": 80 });
  await reader.run();
  await reader.element.locator("[data-preset=balanced]").click();
  await reader.press("draw-many");
  await reader.settles(async () => (await reader.part("draw-count").textContent()).startsWith("1,000"), true, "draws");
  await still("stages", [".stages"]);
  await still("draw", [".draw"]);
  await open({ scene: "memory" });
  await reader.reaches("ready");
  await still("memory", [".memory"]);
  await open({ scene: "paged" });
  await reader.run();
  await reader.element.evaluate((element) => element.seek(18));
  await reader.part("memory-comparison").waitFor();
  await still("paged", [".blocks"]);
  await open({ scene: "batching" });
  await reader.run();
  await reader.part("batching-comparison").waitFor();
  await still("batching", [".schedule"]);
  await open({ scene: "speculative", temperature: 1.2, seed: 3 });
  await reader.run({ maxNewTokens: 60 });
  const { rounds } = await reader.trace();
  const rejected = rounds.findIndex(({ guesses }) => guesses.filter(({ judged }) => judged?.accepted).length >= 2 && guesses.some(({ judged }) => judged && !judged.accepted));
  await reader.element.evaluate((element, round) => element.seek(round), rejected);
  await still("speculative", [".rounds"]);
  await open({ scene: "window" });
  await reader.run({ maxNewTokens: 40 });
  await still("window", [".story", ".grid"]);
} finally {
  await browser.close();
  await server.close();
}
