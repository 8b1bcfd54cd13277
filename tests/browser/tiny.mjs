// A *tiny model* is a checkpoint and a tokenizer of the llama2.c layout made here, with weights that mean nothing: small
// enough to make in a test, in any shape, and good enough to be read, run and shown.

const LETTERS = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?'";

/** The files of a model of that shape, as [{name, bytes}]. The vocabulary is three control tokens and letters. */
export function tinyModel(name, { dim = 16, hidden = 24, layers = 2, heads = 4, kvHeads = 2, vocab = 40, context = 48 } = {}) {
  return [
    { name: `${name}.bin`, bytes: checkpoint(dim, hidden, layers, heads, kvHeads, vocab, context) },
    { name: `${name}-tokenizer.bin`, bytes: tokenizer(vocab) },
  ];
}

export function tokenizer(vocab) {
  const pieces = ["<unk>", "\n<s>\n", "\n</s>\n", ...LETTERS.slice(0, vocab - 3)];
  while (pieces.length < vocab) pieces.push(`${LETTERS[1 + (pieces.length % 26)]}${LETTERS[1 + (pieces.length % 25)]}`);
  const parts = [number(Math.max(...pieces.map((piece) => piece.length)))];
  for (const piece of pieces) parts.push(float(0), number(piece.length), Buffer.from(piece));
  return Buffer.concat(parts);
}

function checkpoint(dim, hidden, layers, heads, kvHeads, vocab, context) {
  const kvDim = (dim / heads) * kvHeads;
  const layer = 2 * dim * dim + 2 * dim * kvDim + 3 * dim * hidden;
  const counts = [vocab * dim, layers * dim, layers * (layer - 3 * dim * hidden), layers * dim, layers * 3 * dim * hidden];
  const weights = [...counts, dim].flatMap((count, index) =>
    // Norms are the second, the fourth and the last kind.
    Array.from({ length: count }, () => ([1, 3, 5].includes(index) ? 1 : (random() - 0.5) * 0.8)));
  const angles = Array(context * (dim / heads)).fill(0);
  const header = [dim, hidden, layers, heads, kvHeads, vocab, context].map(number);
  return Buffer.concat([...header, Buffer.from(new Float32Array([...weights, ...angles]).buffer)]);
}

// The same numbers in every run (Park and Miller 1988, "Random Number Generators: Good Ones Are Hard to Find").
let state = 1;
function random() {
  state = (state * 48271) % 2147483647;
  return state / 2147483647;
}

function number(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function float(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}
