// The address keeps the state, behind "#".

import { picture } from "./showing.js";
import { state } from "./state.js";

export const saved = () => new URLSearchParams(location.hash.slice(1));
let rememberTimer = 0;

/** Keep the state in the address, behind "#", so that a reload restores it. */
export function remember() {
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(rememberNow, 400);
}

let others = () => [];

/** Keep more than the first array: `entries()` returns names and values. */
export function keepToo(entries) {
  others = entries;
}

/** The state, as the address has it. */
export function fragment() {
  const { name, rows, columns, at, field, part, map, along } = state;
  const all = new URLSearchParams({ name, rows, columns, at: at.join(","), field, part, map, along });
  if (state.range === "hold") all.set("range", `${state.low},${state.high}`);
  if (picture.view && !picture.fitting) all.set("window", picture.seen().map((x) => Number(x.toFixed(3))).join(","));
  for (const [key, value] of others()) all.set(key, value);
  return all;
}

export function rememberNow() {
  history.replaceState(null, "", `#${fragment()}`);
}
