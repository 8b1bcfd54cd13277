// A *round* is one measurement; a figure is the median of several, part by part.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** A median for each named part of the rounds' results. */
export function medians(rounds) {
  const parts = Object.keys(rounds[0]).map((part) => [part, Number(median(rounds.map((it) => it[part])).toFixed(3))]);
  return Object.fromEntries(parts);
}

export function mebibytes(bytes) {
  return Number((bytes / 2 ** 20).toFixed(2));
}
