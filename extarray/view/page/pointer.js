// The pointer on the picture.

import { reload } from "./loading.js";
import { fit, moved, pointAt, setHover, zoom } from "./moving.js";
import { picture } from "./showing.js";
import { $, isEmpty, state } from "./state.js";
import { elementOf, scrollTable } from "./table.js";

/** Follow the pointer and the wheel on the table. */
function listenToTable() {
  const table = $("table");
  table.addEventListener("pointermove", (event) => pointAt(elementOf(event.target)));
  table.addEventListener("pointerleave", () => pointAt(null));
  table.addEventListener("click", (event) => {
    const found = elementOf(event.target);
    if (!found) return;
    state.at = found;
    moved([state.rows, state.columns]);
  });
  table.addEventListener("wheel", (event) => {
    event.preventDefault();
    const step = (delta) => Math.sign(delta) * Math.max(1, Math.round(Math.abs(delta) / (event.deltaMode ? 1 : 40)));
    if (event.shiftKey) scrollTable(0, step(event.deltaY || event.deltaX));
    else scrollTable(step(event.deltaY), step(event.deltaX));
  }, { passive: false });
}

/** Follow the pointer, the wheel, and the buttons that zoom. */
export function listenToPointer() {
  const stage = $("stage");
  let press = null;
  listenToTable();
  stage.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button, #table, #say") || event.button) return;
    press = { x: event.clientX, y: event.clientY, moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (state.mode === "table") return;
    const box = stage.getBoundingClientRect();
    if (press) {
      const [dx, dy] = [event.clientX - press.x, event.clientY - press.y];
      if (press.moved || Math.hypot(dx, dy) > 4) {
        press = { x: event.clientX, y: event.clientY, moved: true };
        stage.classList.add("moved");
        picture.pan(dx, dy);
        picture.draw();
        reload("frame grid");
      }
      return;
    }
    const found = state.info && !isEmpty() ? picture.elementAt(event.clientX - box.x, event.clientY - box.y) : null;
    setHover(found);
  });
  stage.addEventListener("pointerup", (event) => {
    stage.classList.remove("moved");
    const box = stage.getBoundingClientRect();
    if (press && !press.moved && state.info && !isEmpty()) {
      const found = picture.elementAt(event.clientX - box.x, event.clientY - box.y);
      if (found) {
        if (state.rows >= 0) state.at[state.rows] = found.row;
        state.at[state.columns] = found.column;
        moved([state.rows, state.columns]);
      }
    }
    press = null;
  });
  stage.addEventListener("pointercancel", () => { press = null; stage.classList.remove("moved"); });
  stage.addEventListener("pointerleave", () => state.mode !== "table" && setHover(null));
  stage.addEventListener("wheel", (event) => {
    if (state.mode === "table") return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - box.x, event.clientY - box.y);
  }, { passive: false });
  $("in").addEventListener("click", () => zoom(1.6));
  $("out").addEventListener("click", () => zoom(1 / 1.6));
  $("fit").addEventListener("click", () => fit());
}
