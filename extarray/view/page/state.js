// The state of the page, and the facts that follow from it.

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
  map: "Dusk",
  range: "auto",
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
  hover: null, // an index for each axis, under the pointer
};

export const choice = () => state.info.choices[state.field];
export const extent = (axis) => (axis < 0 ? 1 : state.info.shape[axis]);
export const isShown = (axis) => axis === state.rows || axis === state.columns;
export const hidden = () => state.info.shape.map((_, axis) => axis).filter((axis) => !isShown(axis));
export const isEmpty = () => state.info.shape.some((n) => n === 0);
export const question = () => ({ name: state.name, at: state.at.join(","), field: state.field, part: state.part });

export function chunkOf(at) {
  return at.map((i, axis) => Math.floor((i + state.info.offset[axis]) / state.info.chunks[axis]));
}

export function unitsOf(axis) {
  const units = state.info.coordinates[axis]?.units;
  return units ? ` ${units}` : "";
}
