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
  if (state.range === "hold") fragment.set("range", `${state.low},${state.high}`);
  history.replaceState(null, "", `#${fragment}`);
}
