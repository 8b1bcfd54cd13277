// The baseline's worker: reads the model's file as docs/format.md describes it, hands the weights to the plain loops, and does
// one task a message. Times are of many tokens together wherever there are many.

const GROUP = 32;
let model;

const TASKS = {
  async load({ wasm, model: file }) {
    const { instance } = await WebAssembly.instantiateStreaming(fetch(wasm));
    model = instance.exports;
    const { shape, weights } = read(await (await fetch(file)).arrayBuffer());
    if (!shape.tied_embedding) throw new Error("the baseline's output matrix is the embedding");
    const place = model.baseline_reserve(weights.length);
    new Float32Array(model.memory.buffer, place, weights.length).set(weights);
    const { dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context } = shape;
    model.baseline_load(dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context);
  },

  /** The likeliest tokens after a prompt. */
  greedy({ prompt, tokens }) {
    return after(prompt, tokens).ids;
  },

  /** Milliseconds of a prompt up to the first token after it. */
  prefill({ prompt }) {
    const begin = performance.now();
    prefill(prompt);
    return performance.now() - begin;
  },

  /** Milliseconds of each token that follows the first one after a prompt. */
  decode({ prompt, tokens }) {
    return after(prompt, tokens).times;
  },

  /** The same without a cache: each token runs the whole text before it again. */
  decode_without_cache({ prompt, tokens }) {
    const text = [...prompt, prefill(prompt)];
    return timesOf(tokens - 1, () => text.push(prefill(text)));
  },

  /** Milliseconds of a token at positions from … below to, of which those before must have been run. */
  at({ from, to, times }) {
    const begin = performance.now();
    for (let time = 0; time < times; time++) {
      for (let position = from; position < to; position++) model.baseline_next(1, position);
    }
    return (performance.now() - begin) / (times * (to - from));
  },
};

function prefill(prompt) {
  const last = prompt.length - 1;
  for (let position = 0; position < last; position++) model.baseline_read(prompt[position], position);
  return model.baseline_next(prompt[last], last);
}

function after(prompt, tokens) {
  const ids = [prefill(prompt)];
  const times = timesOf(tokens - 1, () => ids.push(model.baseline_next(ids.at(-1), prompt.length + ids.length - 1)));
  return { ids, times };
}

function timesOf(count, step) {
  const times = [];
  let last = performance.now();
  while (times.length < count) {
    step();
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}

/** The shape and all weights as f32, in the order of the file. */
function read(file) {
  const view = new DataView(file);
  const headerBytes = view.getUint32(12, true);
  const { shape, tensors } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 24, headerBytes)));
  const counts = tensors.map(({ shape: [rows, columns] }) => rows * columns);
  const weights = new Float32Array(counts.reduce((sum, count) => sum + count, 0));
  let next = 0;
  for (const { shape: [rows, columns], element, offset } of tensors) {
    const begin = 24 + headerBytes + offset;
    const groups = Math.ceil(columns / GROUP);
    const weight = {
      f32: (row, column) => view.getFloat32(begin + 4 * (row * columns + column), true),
      int8: (row, column) => view.getInt8(begin + 2 * rows * groups + row * columns + column)
        * view.getFloat16(begin + 2 * (row * groups + Math.floor(column / GROUP)), true),
    }[element];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) weights[next++] = weight(row, column);
    }
  }
  return { shape, weights };
}

self.onmessage = async ({ data: { task, given } }) => {
  try {
    self.postMessage({ result: await TASKS[task](given) });
  } catch (error) {
    self.postMessage({ error: String(error?.message ?? error) });
  }
};
