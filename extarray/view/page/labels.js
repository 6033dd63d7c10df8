// The coordinates of axes, as texts that the server gives.

import { ask, askNumbers } from "./api.js";
import { failed } from "./notices.js";
import { valueTicks, wholeTicks, withoutDay } from "./scales.js";
import { state } from "./state.js";

const labelCache = new Map(); // axis -> Map of index -> text

const wantedLabels = new Map();
let labelTimer = 0;
let arrived = () => {};

/** Call an action whenever labels have come. */
export function whenLabelsCome(action) {
  arrived = action;
}

/** Forget all labels: the array has changed. */
export function forgetLabels() {
  labelCache.clear();
  sampleCache.clear();
}

/** The coordinate of an index of an axis; null: none.  Asks for unknown ones. */
export function label(axis, index) {
  if (axis < 0 || !state.info.coordinates[axis]) return null;
  const known = labelCache.get(axis)?.get(index);
  if (known !== undefined) return known || String(index);
  if (!wantedLabels.has(axis)) wantedLabels.set(axis, new Set());
  wantedLabels.get(axis).add(index);
  if (!labelTimer) labelTimer = setTimeout(fetchLabels, 15);
  return "";
}

async function fetchLabels() {
  labelTimer = 0;
  const wanted = [...wantedLabels];
  wantedLabels.clear();
  const { name } = state;
  for (const [axis, indices] of wanted) {
    try {
      const told = await ask("labels", { name, axis, indices: [...indices].join(",") });
      if (name !== state.name) return;
      if (!labelCache.has(axis)) labelCache.set(axis, new Map());
      [...indices].forEach((index, i) => labelCache.get(axis).set(index, told.labels[i]));
    } catch (error) {
      failed(error);
    }
  }
  arrived();
}

const SAMPLES = 2048; // coordinates of an axis to know at once
const sampleCache = new Map(); // axis -> the latest samples

/** Round coordinates from one index to another, as `{ ticks: [{ at, text }], offset }`. */
export function axisTicks(axis, from, to, most) {
  const whole = () => wholeTicks(Math.max(0, from), to, most);
  if (axis < 0 || !state.info.coordinates[axis]) return { ticks: whole().map((at) => ({ at, text: String(at) })), offset: "" };
  const known = samplesOf(axis, from, to);
  if (!known) return { ticks: [], offset: "" }; // on their way
  if (!known.rises) return { ticks: whole().map((at) => ({ at, text: label(axis, at) })), offset: "" };
  const place = (at) => between(known.places, known.values, at);
  const [a, b] = [place(from), place(to)];
  if (!(to > from)) return { ticks: [{ at: from, text: label(axis, Math.round(from)) }], offset: "" };
  // No ticks between neighbours; dates are wide.
  const few = Math.max(1, Math.min(most * (known.kind === "datetime" ? 0.75 : 1), to - from));
  const isRound = /^deg/i.test(state.info.coordinates[axis].units);
  const found = valueTicks(Math.min(a, b), Math.max(a, b), few, known, { zero: known.zero, isRound });
  const day = withoutDay(found.ticks);
  const sign = known.rises;
  const ticks = day.ticks.map(({ v, text }) => ({ at: between(known.values.map((x) => x * sign), known.places, v * sign), text }));
  return { ticks, offset: found.offset || day.offset };
}

/** The value of y at x, on straight lines between points of ascending xs. */
function between(xs, ys, x) {
  let [low, high] = [0, xs.length - 1];
  if (high < 1) return ys[0];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + ((x - xs[low]) / (xs[high] - xs[low])) * (ys[high] - ys[low]);
}

/** Coordinates of a part of an axis; null: not yet known. */
function samplesOf(axis, from, to) {
  const extent = state.info.shape[axis];
  const known = sampleCache.get(axis);
  const covers = known && known.start <= Math.floor(from) && known.stop >= Math.min(extent, Math.ceil(to) + 1);
  const isFine = covers && (known.step === 1 || (to - from) / known.step > SAMPLES / 16);
  if (!isFine && !known?.isComing) {
    // A part with room on either side, so that scrolling seldom asks.
    const room = Math.ceil(to - from) + 2;
    const start = extent <= SAMPLES ? 0 : Math.max(0, Math.floor(from) - room);
    const stop = extent <= SAMPLES ? extent : Math.min(extent, Math.ceil(to) + room);
    sampleCache.set(axis, { ...(known ?? { start: 0, stop: -1 }), isComing: true });
    fetchSamples(axis, start, stop);
  }
  return covers ? known : null;
}

async function fetchSamples(axis, start, stop) {
  const { name, info } = state;
  try {
    const told = await askNumbers("coordinates", { name, axis, start, stop, most: SAMPLES });
    if (name !== state.name || info !== state.info) return;
    const values = Array.from(told.data, (x) => told.base + told.scale * x);
    const places = values.map((_, i) => Math.min(start + i * told.step, stop - 1));
    // Ticks need coordinates that rise, or fall, all the way.
    const sign = Math.sign(values[1] - values[0]);
    const isEven = values.length > 1 && values.every((v, i) => i === 0 || Math.sign(v - values[i - 1]) === sign);
    sampleCache.set(axis, { ...told, start, stop, values, places, rises: isEven ? sign : 0 });
  } catch (error) {
    sampleCache.delete(axis);
    failed(error);
    return;
  }
  arrived();
}
