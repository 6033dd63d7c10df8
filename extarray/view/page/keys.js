// The keys.

import { setLive } from "./arrays.js";
import { flip, setAlong, setAxes, togglePlay } from "./axes.js";
import { MAPS } from "./colours.js";
import { nextScale, setGrid, setMap } from "./controls.js";
import { nextMode } from "./modes.js";
import { fit, moveTo, zoom } from "./moving.js";
import { picture, setRange } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { $, extent, hidden, isEmpty, state } from "./state.js";
import { search } from "./tree.js";

/** Move the cursor across (1) or down (0) on the screen. */
function step(dimension, n) {
  const isTable = state.mode === "table";
  // In a table an array of one axis runs down.
  const axes = isTable && state.rows < 0 ? [state.columns, -1] : [state.rows, state.columns];
  const axis = axes[dimension];
  if (axis >= 0) moveTo(axis, state.at[axis] + (picture.flips[dimension] && !isTable ? -n : n));
}

const KEYS = {
  ArrowLeft: (n) => step(1, -n),
  ArrowRight: (n) => step(1, n),
  ArrowUp: (n) => step(0, -n),
  ArrowDown: (n) => step(0, n),
  "[": (n) => moveTo(state.slider, state.at[state.slider] - n),
  "]": (n) => moveTo(state.slider, state.at[state.slider] + n),
  "{": () => moveTo(state.slider, state.at[state.slider] - 10),
  "}": () => moveTo(state.slider, state.at[state.slider] + 10),
  PageUp: () => moveTo(state.slider, state.at[state.slider] - 1),
  PageDown: () => moveTo(state.slider, state.at[state.slider] + 1),
  Home: () => moveTo(state.slider, 0),
  End: () => moveTo(state.slider, extent(state.slider) - 1),
  " ": () => togglePlay(state.slider),
  t: () => state.rows >= 0 && setAxes(state.columns, state.rows),
  "+": () => zoom(1.6),
  "=": () => zoom(1.6),
  "-": () => zoom(1 / 1.6),
  0: fit,
  e: () => { picture.square = !picture.isSquare; fit(); },
  p: () => setAlong((state.along + 1) % state.info.shape.length),
  c: () => setMap(MAPS[(MAPS.indexOf(state.map) + 1) % MAPS.length]),
  x: () => flip(state.columns),
  y: () => flip(state.rows),
  m: nextMode,
  s: nextScale,
  a: () => setRange("auto"),
  f: () => setRange("full"),
  g: () => setGrid(!state.onGrid),
  l: () => setLive(!state.live),
  "/": search,
  "?": () => $("keys").showModal(),
};

export function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !state.info || $("keys").open) return;
  const { target } = event;
  const inText = target.matches("input[type=text], input[type=color], select");
  if (inText) return;
  // Sliders and buttons have their own keys.
  if (target.matches("input[type=range]") && /^(Arrow|Page|Home|End)/.test(event.key)) return;
  if (target.matches("button, summary, input[type=checkbox]") && event.key === " ") return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[1-9]$/.test(name)) {
    const axis = hidden()[Number(name) - 1];
    if (axis !== undefined) { state.slider = axis; tellSliders(); }
    return;
  }
  const action = KEYS[name];
  if (!action || !state.info.shape.length || (isEmpty() && !"?l/".includes(name))) return;
  event.preventDefault();
  action(event.shiftKey ? 10 : 1);
}
