// The address keeps the state, behind "#".

import { state } from "./state.js";

export const saved = () => new URLSearchParams(location.hash.slice(1));
let rememberTimer = 0;

/** Keep the state in the address, behind "#", so that a reload restores it. */
export function remember() {
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(rememberNow, 400);
}

export function rememberNow() {
  const { name, rows, columns, at, field, part, map, along } = state;
  const fragment = new URLSearchParams({ name, rows, columns, at: at.join(","), field, part, map, along });
  fragment.set("mode", state.mode);
  if (state.scale !== "linear") fragment.set("scale", state.scale);
  fragment.set("flips", state.flips.map((is, axis) => (is ? axis : "")).filter((text) => text !== "").join(","));
  if (state.mode === "channels") fragment.set("channels", state.channels.map((one) => `${one.on ? 1 : 0}${one.colour}`).join(";"));
  if (state.range === "hold" && state.mode !== "channels") {
    fragment.set("range", `${state.low},${state.high}`);
    if (state.zero) fragment.set("zero", state.zero);
  }
  history.replaceState(null, "", `#${fragment}`);
}
