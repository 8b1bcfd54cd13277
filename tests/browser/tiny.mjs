// A *tiny model* is a checkpoint and a tokenizer made here, with weights that mean nothing: small enough to make in a test,
// in any shape, and good enough to be read, run and shown.

const LETTERS = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?'";

const SHAPE = { dim: 16, hidden: 24, layers: 2, heads: 4, kvHeads: 2, vocab: 40, context: 48 };

/** The files of a model of that shape in the llama2.c layout, as [{name, bytes}]. It knows letters and nothing else. */
export function tinyModel(name, changes) {
  const shape = { ...SHAPE, ...changes };
  const { dim, hidden, layers, heads, kvHeads, vocab, context } = shape;
  const weights = makeWeights(shape);
  const all = (kind) => weights.layers.flatMap((layer) => layer[kind]);
  const kinds = ["norm1", "query", "key", "value", "output", "norm2", "gate", "down", "up"];
  const angles = Array(context * (dim / heads)).fill(0);
  const numbers = [...weights.embedding, ...kinds.flatMap(all), ...weights.norm, ...angles];
  const header = [dim, hidden, layers, heads, kvHeads, vocab, context].map(integer);
  return [
    { name: `${name}.bin`, bytes: Buffer.concat([...header, floats(numbers)]) },
    { name: `${name}-tokenizer.bin`, bytes: tokenizer(vocab) },
  ];
}

/** The same model as Hugging Face lays it out. */
export function tinySafetensors(changes) {
  const shape = { ...SHAPE, ...changes };
  const { dim, hidden, layers, heads, kvHeads, vocab, context } = shape;
  const weights = makeWeights(shape);
  const [head, kvDim] = [dim / heads, (dim / heads) * kvHeads];
  const tensors = [["model.embed_tokens", [vocab, dim], weights.embedding], ["model.norm", [dim], weights.norm]];
  weights.layers.forEach((layer, index) => {
    const add = (name, size, numbers) => tensors.push([`model.layers.${index}.${name}`, size, numbers]);
    add("input_layernorm", [dim], layer.norm1);
    add("post_attention_layernorm", [dim], layer.norm2);
    add("self_attn.q_proj", [dim, dim], halves(layer.query, dim, head));
    add("self_attn.k_proj", [kvDim, dim], halves(layer.key, dim, head));
    add("self_attn.v_proj", [kvDim, dim], layer.value);
    add("self_attn.o_proj", [dim, dim], layer.output);
    add("mlp.gate_proj", [hidden, dim], layer.gate);
    add("mlp.down_proj", [dim, hidden], layer.down);
    add("mlp.up_proj", [hidden, dim], layer.up);
  });
  let end = 0;
  const entries = tensors.map(([name, size, numbers]) => {
    const offsets = [end, (end += 4 * numbers.length)];
    return [`${name}.weight`, { dtype: "F32", shape: size, data_offsets: offsets }];
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const length = Buffer.concat([integer(header.length), integer(0)]);
  const config = {
    architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_act: "silu", hidden_size: dim, intermediate_size: hidden,
    num_hidden_layers: layers, num_attention_heads: heads, num_key_value_heads: kvHeads, vocab_size: vocab,
    max_position_embeddings: context, rms_norm_eps: 1e-5, rope_theta: 10000, tie_word_embeddings: true,
    bos_token_id: 1, eos_token_id: 1,
  };
  return [
    { name: "model.safetensors", bytes: Buffer.concat([length, header, ...tensors.map(([, , numbers]) => floats(numbers))]) },
    { name: "config.json", bytes: Buffer.from(JSON.stringify(config)) },
    { name: "tokenizer.bin", bytes: tokenizer(vocab) },
  ];
}

/** A tokenizer of that many tokens: three control tokens, letters, and pairs of letters where those do not suffice. */
export function tokenizer(vocab) {
  const pieces = ["<unk>", "\n<s>\n", "\n</s>\n", ...LETTERS.slice(0, vocab - 3)];
  while (pieces.length < vocab) pieces.push(`${LETTERS[1 + (pieces.length % 26)]}${LETTERS[1 + (pieces.length % 25)]}`);
  const parts = [integer(Math.max(...pieces.map((piece) => piece.length)))];
  for (const piece of pieces) parts.push(floats([0]), integer(piece.length), Buffer.from(piece));
  return Buffer.concat(parts);
}

/** The weights of a shape, always the same ones. */
function makeWeights({ dim, hidden, layers, heads, kvHeads, vocab }) {
  const random = generator(1);
  const matrix = (rows, columns) => Array.from({ length: rows * columns }, () => (random() - 0.5) * 0.8);
  const ones = () => Array(dim).fill(1);
  const kvDim = (dim / heads) * kvHeads;
  return {
    embedding: matrix(vocab, dim),
    norm: ones(),
    layers: Array.from({ length: layers }, () => ({
      norm1: ones(), query: matrix(dim, dim), key: matrix(kvDim, dim), value: matrix(kvDim, dim), output: matrix(dim, dim),
      norm2: ones(), gate: matrix(hidden, dim), down: matrix(dim, hidden), up: matrix(hidden, dim),
    })),
  };
}

// One layout rotates the pairs (2i, 2i + 1) of a head's rows, the other (i, i + head / 2).
function halves(numbers, columns, head) {
  const row = (index) => numbers.slice(index * columns, (index + 1) * columns);
  const rows = numbers.length / columns;
  return Array.from({ length: rows }, (_, index) => {
    const [first, within] = [index - (index % head), index % head];
    return row(first + (within < head / 2 ? 2 * within : 2 * (within - head / 2) + 1));
  }).flat();
}

// Park and Miller 1988, "Random Number Generators: Good Ones Are Hard to Find".
function generator(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

function integer(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function floats(numbers) {
  return Buffer.from(new Float32Array(numbers).buffer);
}
