// Takes pictures of the page for people to look at: node tests/browser/look.mjs FOLDER. Widths 1280, 768 and 360, light
// and dark, each before the run, in the prefill, in the middle, at the end, and without the cache; with a branch and a
// question; with the sampling scene after its run and a thousand draws; each scene of what serving systems build; then with the note on
// models of one's own open, with files held over the widget, and on each of others' models that lie beside the checkout.
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { argv } from "node:process";
import { Reader, THIRD_PARTY, launch, siteFolder } from "./harness.mjs";
import { serve } from "./server.mjs";
import { tinyModel } from "./tiny.mjs";

const folder = argv[2];
if (!folder) throw new Error("say where the pictures go: node tests/browser/look.mjs FOLDER");
mkdirSync(folder, { recursive: true });

const others = existsSync(THIRD_PARTY) ? readdirSync(THIRD_PARTY, { withFileTypes: true }).filter((each) => each.isDirectory()) : [];

const server = await serve(siteFolder());
const browser = await launch();
try {
  for (const width of [1280, 768, 360]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      const reader = new Reader(page);
      const picture = async (name) => {
        await page.screenshot({ path: `${folder}/${width}-${colorScheme}-${name}.png`, fullPage: true });
      };
      await page.goto(server.url);
      await page.waitForTimeout(1500);
      await picture("1-idle");
      await reader.press("run");
      await reader.reaches("running");
      await page.waitForTimeout(500);
      await picture("2-prefill");
      await reader.settles(async () => (await reader.part("timeline").locator("[data-step]").count()) >= 5, true, "steps");
      await page.waitForTimeout(350);
      await picture("3-decode");
      await reader.run();
      await picture("4-done");
      await reader.input("cache").uncheck();
      await reader.run({ cache: "off" });
      await picture("5-without-cache");
      await reader.run({ cache: "on", temperature: 1 });
      await reader.press("look-at-all");
      await reader.element.evaluate((element) => element.seek(6));
      await reader.element.locator("[data-action=branch]:not([disabled])").first().click();
      await reader.reaches("done");
      await reader.input("ask").check();
      await reader.press("run");
      await reader.part("question").waitFor();
      await picture("5-branch-and-question");
      await reader.press("skip");
      await reader.input("ask").uncheck();
      const sampling = new Reader(page, "#sampling");
      await sampling.run();
      await sampling.press("draw-many");
      await sampling.input("find").fill("ba");
      await page.waitForTimeout(1500);
      await picture("5-sampling");
      for (const id of ["memory", "paged", "batching", "speculative", "window"]) {
        const scene = new Reader(page, `#${id}`);
        await scene.run();
        if (id === "memory") await scene.press("run-groups");
        if (id === "batching") await scene.press("measure-batches");
        if (id === "window") await scene.press("score");
        await page.waitForTimeout(2500);
        if (id === "paged" || id === "batching") await scene.element.evaluate((element) => element.seek(18));
        if (id === "paged") await scene.part("map").locator("[data-owner]").first().click();
        if (id === "speculative") await scene.element.evaluate((element) => element.seek(4));
        await page.waitForTimeout(300);
        await scene.element.screenshot({ path: `${folder}/${width}-${colorScheme}-5-${id}.png` });
      }
      await reader.press("own-model");
      await reader.part("own-model").waitFor();
      await picture("6-own-model");
      await reader.drag(tinyModel("tiny"), { hold: true });
      await reader.part("drop").waitFor();
      await page.screenshot({ path: `${folder}/${width}-${colorScheme}-7-drop.png` });
      await reader.part("drop").dispatchEvent("dragleave");
      for (const { name } of others) {
        const files = readdirSync(`${THIRD_PARTY}/${name}`).filter((file) => file.endsWith(".bin"));
        await reader.loadModel(files.map((file) => ({ name: file, bytes: readFileSync(`${THIRD_PARTY}/${name}/${file}`) })));
        await reader.run({ cache: "on" });
        await picture(`8-${name}`);
      }
      await context.close();
      console.log(`${width} px, ${colorScheme}: done`);
    }
  }
} finally {
  await browser.close();
  await server.close();
}
