// Moving the cursor, the slice, and the part of the plane on show.

import { drawGrowth, growth } from "./growthmap.js";
import { reload, values } from "./loading.js";
import { failed } from "./notices.js";
import { drawProfile, profile } from "./profiles.js";
import { picture } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { drawTable, fetchTable, revealInTable } from "./table.js";
import { extent, isEmpty, isShown, shown, state } from "./state.js";

/** Go to an index of an axis. */
export function moveTo(axis, index) {
  const to = Math.min(extent(axis) - 1, Math.max(0, index));
  if (axis < 0 || to === state.at[axis]) return false;
  state.at[axis] = to;
  moved([axis]);
  return true;
}

/** Show everything that depends on the indices of some axes. */
export function moved(axes) {
  const parts = new Set(["value"]);
  for (const axis of axes) {
    if (axis < 0) continue;
    if (!isShown(axis)) {
      parts.add("frame");
      // Chunks of another plane have other addresses.
      parts.add("growth");
      if (state.onGrid) parts.add("grid");
    }
    if (axis !== state.along || axes.length > 1) parts.add("profile");
  }
  setCursor();
  drawProfile();
  drawGrowth();
  tellSliders();
  reload([...parts].join(" "));
}

export function setCursor() {
  if (state.mode === "table" && !isEmpty()) {
    revealInTable(state.at);
    drawTable();
    fetchTable().catch(failed);
    return;
  }
  picture.cursor = isEmpty() ? null : { row: state.rows < 0 ? 0 : state.at[state.rows], column: state.at[state.columns] };
  if (picture.cursor && picture.reveal(picture.cursor.row, picture.cursor.column)) {
    picture.draw();
    reload("frame grid");
  } else picture.drawOverlay();
}

function goToChunk(cell) {
  const place = (axis, chunk) => Math.min(extent(axis) - 1, Math.max(0, chunk * state.info.chunks[axis] - state.info.offset[axis]));
  if (state.rows >= 0) state.at[state.rows] = place(state.rows, cell.row);
  state.at[state.columns] = place(state.columns, cell.column);
  moved([state.rows, state.columns]);
}

export function setHover(found) {
  if (!state.info || isEmpty() || !state.info.shape.length) return;
  const before = picture.hover;
  if (before?.row === found?.row && before?.column === found?.column) return;
  picture.hover = found;
  picture.drawOverlay();
  if (found) {
    shown.hover = [...state.at];
    if (state.rows >= 0) shown.hover[state.rows] = found.row;
    shown.hover[state.columns] = found.column;
  } else shown.hover = null;
  values.want([...(shown.hover ?? state.at)]);
}

export function zoom(factor, x, y) {
  picture.zoom(factor, x, y);
  picture.draw();
  reload("frame grid");
}

export function fit() {
  picture.fit();
  picture.draw();
  reload("frame grid");
}

/** Point at an element, by the indices of all axes. */
export function pointAt(at) {
  shown.hover = at;
  values.want([...(at ?? state.at)]);
}

profile.chosen = (index) => moveTo(state.along, index);
growth.chosen = goToChunk;
