// A *prompt* of the bench has a known number of tokens, and goes on with a seed whose text does not end too early.
import assert from "node:assert/strict";
import { Reader } from "../harness.mjs";

const STORY = "Once upon a time, there was a small boy named Tom. Tom had a red house near the beach. Zoe the girl was his dear friend. "
  + "One cold day Tom found a shiny map near the tall door. The map said nine steps from the tree. Zoe said maybe another farmer hid some apples. ";

/** Hot enough that texts seldom end, and not so hot that they are noise. */
export const TEMPERATURE = 1.2;

/** Beginnings of the story by their length in tokens. They are found out on the CPU engine, which is quick to answer. */
export class Prompts {
  static async of(page) {
    const reader = new Reader(page, "#generate");
    // A little less than fills a context.
    const words = STORY.repeat(4).split(" ").slice(0, 203).join(" ");
    const { prompt } = await reader.run({ backend: "cpu", prompt: words, maxNewTokens: 1 });
    return new Prompts(reader, prompt.tokens);
  }

  constructor(reader, tokens) {
    this.reader = reader;
    this.tokens = tokens;
  }

  /** The longest beginning that ends with a word and has at most so many tokens: {text, ids}. */
  ofTokens(most) {
    assert.ok(most < this.tokens.length, `the story has ${this.tokens.length} tokens, and ${most} are wanted`);
    let end = most;
    while (!this.tokens[end].text.startsWith(" ")) end--;
    // The first token is the one that begins every text, and stands for nothing in it.
    const written = this.tokens.slice(1, end);
    return { text: written.map(({ text }) => text).join("").trim(), ids: this.tokens.slice(0, end).map(({ id }) => id) };
  }

  /** Settings of a run that goes on for so many tokens before its text ends. */
  async lasting(most, maxNewTokens) {
    const { text } = this.ofTokens(most);
    for (let seed = 1; seed <= 60; seed++) {
      const settings = { prompt: text, maxNewTokens, temperature: TEMPERATURE, seed };
      const { steps } = await this.reader.run({ ...settings, backend: "cpu", cache: "on" });
      if (steps.length === maxNewTokens) return settings;
    }
    return assert.fail(`no text of ${maxNewTokens} tokens goes on from a prompt of ${most}`);
  }
}
