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
  all.set("mode", state.mode);
  if (state.scale !== "linear") all.set("scale", state.scale);
  all.set("flips", state.flips.map((is, axis) => (is ? axis : "")).filter((text) => text !== "").join(","));
  if (state.mode === "channels") all.set("channels", state.channels.map((one) => `${one.on ? 1 : 0}${one.colour}`).join(";"));
  if (state.range === "hold" && state.mode !== "channels") {
    all.set("range", `${state.low},${state.high}`);
    if (state.zero) all.set("zero", state.zero);
  }
  if (picture.view && !picture.fitting) {
    const { rows, columns } = picture.seen;
    all.set("window", [...rows, ...columns].map((edge) => Number(edge.toFixed(3))).join(","));
  }
  for (const [key, value] of others()) all.set(key, value);
  return all;
}

export function rememberNow() {
  history.replaceState(null, "", `#${fragment()}`);
}
