// The address keeps the state, behind "#".

import { picture } from "./showing.js";
import { choice, state } from "./state.js";

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

/** The range that a text of an address describes. */
export function savedRange(text) {
  const [low, high] = (text ?? "").split(",").map((part) => (part ? Number(part) : NaN));
  if (low < high) return { range: "hold", low, high };
  return { range: text === "full" ? "full" : "auto", low: 0, high: 1 };
}

/** The state, as the address has it. */
export function fragment() {
  const { name, rows, columns, at, field, part, map, along } = state;
  const all = new URLSearchParams({ name, rows, columns, at: at.join(","), field, part, map, along });
  all.set("mode", state.mode);
  if (state.scale !== "linear") all.set("scale", state.scale);
  all.set("flips", state.flips.map((is, axis) => (is ? axis : "")).filter((text) => text !== "").join(","));
  if (state.scale === "symlog" && state.holdsLinear) all.set("linear", state.linear);
  if (state.fill === choice().zero) all.set("fill", state.fill ? "1" : "0");
  if (picture.square !== null) all.set("square", picture.square ? "1" : "0");
  if (state.onGrid) all.set("grid", "1");
  const range = ({ range, low, high }) => (range === "hold" ? `${low},${high}` : range);
  if (state.mode === "channels") {
    all.set("channels", state.channels.map((one) => `${one.on ? 1 : 0}${one.colour}${range(one)}`).join(";"));
  } else if (state.range !== "auto") all.set("range", range(state));
  if (state.zero) all.set("zero", state.zero); // the ranges are relative to it
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
