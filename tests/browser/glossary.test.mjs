// The glossary: its terms as data, and how they open in place.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reader, useBrowser } from "./harness.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const stage = useBrowser();

const glossary = readFileSync(`${ROOT}static/glossary.html`, "utf8");
const article = readFileSync(`${ROOT}index.html`, "utf8");
const terms = [...glossary.matchAll(/<dt id="([^"]+)">(.*?)<\/dt>\s*<dd>(.*?)<\/dd>/gs)]
  .map(([, id, title, body]) => ({ id, title, body, words: /<p>(.*?)<\/p>/s.exec(body)[1] }));

/** Every file of the sources that may link to a term. */
function* sources(folder) {
  for (const name of readdirSync(folder)) {
    const path = `${folder}/${name}`;
    if (statSync(path).isDirectory()) yield* sources(path);
    else if (/\.(rs|js|html)$/.test(name)) yield path;
  }
}

test("there are at least 60 terms, each with two or three sentences of its own", () => {
  assert.ok(terms.length >= 60, `${terms.length} terms`);
  assert.equal(new Set(terms.map(({ id }) => id)).size, terms.length, "ids are unique");
  assert.equal(new Set(terms.map(({ words }) => words)).size, terms.length);
  for (const { id, words } of terms) {
    const sentences = words.match(/[.!?]”?(?= |$)/g)?.length ?? 0;
    assert.ok(sentences >= 2 && sentences <= 4, `${id} has ${sentences} sentences`);
    assert.ok(words.length < 460, `${id} is long: ${words.length} letters`);
  }
});

test("no link of the glossary or to it is dead", () => {
  const ids = new Set(terms.map(({ id }) => id));
  for (const { id, body } of terms) {
    const links = [...body.matchAll(/href="([^"]+)"/g)].map(([, link]) => link);
    assert.ok(links.some((link) => link.startsWith("#")), `${id} leads nowhere`);
    for (const link of links) {
      if (link.startsWith("#")) assert.ok(ids.has(link.slice(1)) && link.slice(1) !== id, `${id} → ${link}`);
      else {
        assert.match(link, /^\.\/#/, `${id} → ${link}`);
        assert.ok(article.includes(`id="${link.slice(3)}"`), `${id} → ${link}: the article has no such place`);
      }
    }
  }
  const used = [];
  for (const path of [`${ROOT}index.html`, ...sources(`${ROOT}crates/app/src`), ...sources(`${ROOT}static`)]) {
    for (const [, id] of readFileSync(path, "utf8").matchAll(/glossary\.html#([a-z0-9-]+)/g)) used.push([id, path]);
  }
  assert.ok(used.length >= 15, `${used.length} uses`);
  for (const [id, path] of used) assert.ok(ids.has(id), `${path} uses ${id}, which is no term`);
  assert.ok(existsSync(`${ROOT}static/glossary.js`));
});

const card = (page) => page.locator("#term-card");

test("a term opens in place by pointing and by focus, and goes away", () => stage.visit("/", async (reader, page) => {
  const link = page.locator("a.term").first();
  const title = await link.textContent();
  await link.hover();
  await card(page).waitFor();
  assert.equal(await link.getAttribute("aria-describedby"), "term-card");
  assert.ok((await card(page).locator("b").textContent()).toLowerCase().startsWith(title.toLowerCase().slice(0, 4)));
  const box = await card(page).boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 1280);
  await page.mouse.move(5, 5);
  await card(page).waitFor({ state: "detached" });
  await link.focus();
  await card(page).waitFor();
  await page.keyboard.press("Escape");
  await card(page).waitFor({ state: "detached" });
  await link.click();
  await page.waitForURL(/glossary\.html#/);
}));

test("every term within the scenes is in the glossary, and opens in place there too", () =>
  stage.visit("/", async (reader, page) => {
    const ids = new Set(terms.map(({ id }) => id));
    for (const id of ["generate", "sampling", "memory", "paged", "batching", "speculative", "window"]) {
      const scene = new Reader(page, `#${id}`);
      await scene.run({ pace: "max", maxNewTokens: 12 });
      const links = await scene.element.locator("a.term").evaluateAll((all) =>
        all.map(({ href, textContent }) => ({ href, text: textContent })));
      assert.ok(links.length >= 3, `${id}: ${links.length} terms`);
      for (const { href, text } of links) {
        const [address, term] = href.split("#");
        assert.ok(address.endsWith("/glossary.html") && ids.has(term), `${id}: “${text}” leads to ${href}`);
        assert.notEqual(text.trim(), "");
      }
      const link = scene.element.locator("a.term").last();
      // From within the widget: such a move is not heard outside of it.
      await scene.element.locator("footer").hover({ position: { x: 3, y: 3 } });
      await link.hover();
      await scene.element.locator("#term-card").waitFor();
      assert.equal(await link.getAttribute("aria-describedby"), "term-card");
      const [card, place] = [await scene.element.locator("#term-card").boundingBox(), await link.boundingBox()];
      assert.ok(card.x >= 0 && card.x + card.width <= 1280 && card.height > 60, JSON.stringify(card));
      const gap = card.y > place.y ? card.y - place.y - place.height : place.y - card.y - card.height;
      assert.ok(gap >= 0 && gap < 20, `the card stands ${gap} px from its word`);
      // A click does not leave the page, and with it the run.
      await link.click();
      assert.equal(await scene.element.locator("#term-card a").getAttribute("target"), "_blank");
      const { steps, rounds } = await scene.trace();
      assert.ok((steps ?? rounds).length > 2, "the run is still there");
      await page.mouse.move(2, 2);
      await scene.element.locator("#term-card").waitFor({ state: "detached" });
    }
  }));

test("on a page that has nothing but the element its terms open as well", () => stage.visit("/hosts/bare.html", async (reader) => {
  await reader.element.evaluate((element) => element.load());
  await reader.element.locator("a.term").first().hover();
  await reader.element.locator("#term-card b").waitFor();
  assert.equal(await reader.element.locator("#term-card").evaluate((card) => getComputedStyle(card).position), "absolute");
}));

test("a card goes along with its link when what stands above it grows", () => stage.visit("/", async (reader, page) => {
  const link = page.locator("a.term").first();
  await link.focus();
  await card(page).waitFor();
  const apart = async () => Math.round((await card(page).boundingBox()).y - (await link.boundingBox()).y);
  const before = await apart();
  await page.evaluate(() => {
    const block = Object.assign(document.createElement("div"), { style: "height: 120px" });
    document.querySelector("h1").after(block);
  });
  await reader.settles(apart, before, "as far from its link as before");
}));

test("on a phone the first tap opens the term, and a way on is in it", async () => {
  const context = await stage.browser.newContext({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  await page.goto(`${stage.server.url}/`);
  const links = page.locator("a.term");
  for (const index of [0, (await links.count()) - 1]) {
    await links.nth(index).tap();
    await card(page).waitFor();
    const box = await card(page).boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 360, `${box.x} to ${box.x + box.width}`);
    assert.match(page.url(), /\/$/);
    // Beside it, whatever it covers.
    await page.touchscreen.tap(2, box.y > 60 ? box.y - 20 : box.y + box.height + 20);
    await card(page).waitFor({ state: "detached" });
  }
  await links.first().tap();
  await card(page).locator("a").tap();
  await page.waitForURL(/glossary\.html#/);
  await context.close();
});

test("the glossary can be searched, and says when nothing fits", () =>
  stage.visit("/glossary.html", async (_, page) => {
    const shown = () => page.locator("dt:visible").count();
    assert.equal(await shown(), terms.length);
    await page.locator(".find input").fill("speculative");
    assert.ok((await shown()) >= 2 && (await shown()) < 12);
    await page.locator(".find input").fill("no such word");
    assert.equal(await shown(), 0);
    assert.ok(await page.getByRole("status").isVisible());
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
  }, { viewport: { width: 360, height: 740 } }));
