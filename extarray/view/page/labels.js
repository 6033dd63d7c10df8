// The coordinates of axes, as texts that the server gives.

import { ask } from "./api.js";
import { failed } from "./notices.js";
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
