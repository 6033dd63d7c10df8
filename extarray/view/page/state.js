// The state of the page, and the facts that follow from it.

import { unitText } from "./text.js";

export const $ = (id) => document.getElementById(id);

/** The state of the page. */
export const state = {
  name: null,
  info: null,
  rows: -1, // axes; -1: none
  columns: -1,
  at: [], // an index for each axis; along shown axes, the cursor's
  field: 0,
  part: "magnitude",
  mode: "colours", // how elements are shown: see MODES
  flips: [], // for each axis, whether index 0 is at the bottom or at the right
  colours: -1, // the axis of red, green and blue, or of channels
  channels: [], // { index, on, colour, range, low, high } of each channel
  active: 0, // the channel whose range the controls set
  map: "Dusk",
  scale: "linear",
  linear: 1, // the symmetric logarithm is linear up to here
  holdsLinear: false, // whether the user has said so
  range: "auto",
  zero: 0n, // the values below are relative to it
  low: 0,
  high: 1,
  fill: false,
  slider: -1, // the axis that [ and ] move
  along: -1, // the axis of the profile
  live: true,
  onGrid: false,
  playing: -1,
};

/** The latest answers of the server, as far as several drawings use them. */
export const shown = {
  counted: null, // of the frame: histogram, least, greatest
  profile: null,
  chunkMap: null,
  gridMap: null,
  table: null, // texts
  hover: null, // an index for each axis, under the pointer
};

export const MODES = { lines: "Line", colours: "Colours", rgb: "Red, green, blue", channels: "Channels", table: "Table" };

export const isMixed = () => state.mode === "rgb" || state.mode === "channels";
export const choice = () => state.info.choices[state.field];
export const extent = (axis) => (axis < 0 ? 1 : state.info.shape[axis]);
export const isShown = (axis) => axis === state.rows || axis === state.columns || (isMixed() && axis === state.colours);
export const hidden = () => state.info.shape.map((_, axis) => axis).filter((axis) => !isShown(axis));
export const isEmpty = () => state.info.shape.some((n) => n === 0);
export const question = () => ({ name: state.name, at: state.at.join(","), field: state.field, part: state.part });
/** Which elements along the axis of colours are shown, for requests. */
export const mixture = () => (isMixed()
  ? { colours: state.colours, channels: state.channels.map((one) => one.index).join(",") } : {});

export function chunkOf(at) {
  return at.map((i, axis) => Math.floor((i + state.info.offset[axis]) / state.info.chunks[axis]));
}

export function unitsOf(axis, info = state.info) {
  const units = unitText(info.coordinates[axis]?.units ?? "");
  return units ? ` ${units}` : "";
}

/** The name of an axis in words, with its units. */
export function titleOf(axis) {
  if (axis < 0) return "";
  const { title, units } = state.info.coordinates[axis] ?? {};
  const own = state.info.names[axis];
  // "lat" says no more than "latitude".
  const name = !title ? own : title.toLowerCase().includes(own.toLowerCase()) ? title : `${own}: ${title}`;
  return units ? `${name} (${unitText(units)})` : name;
}

/** The values in words, with their units. */
export function valuesTitle() {
  const { title, units, choices } = state.info;
  const name = choices[state.field].label || title || "";
  const shownUnits = choices[state.field].label ? "" : unitText(units ?? "");
  return shownUnits && name ? `${name} (${shownUnits})` : name || shownUnits;
}
