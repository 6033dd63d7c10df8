// The axes: which ones are on show, and a slider for each of the others.

import { axisTicks } from "./labels.js";
import { frames, reload } from "./loading.js";
import { moveTo, setCursor } from "./moving.js";
import { drawProfile } from "./profiles.js";
import { look, picture } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { $, choice, extent, hidden, isMixed, isShown, state, titleOf, valuesTitle } from "./state.js";
import { grouped } from "./text.js";

const PLAY_MS = 90; // least time between two slices

/** Show other axes. */
export function setAxes(rows, columns) {
  if (rows === columns) return;
  state.rows = rows;
  state.columns = columns;
  if (isMixed() && (state.colours === rows || state.colours === columns)) state.mode = "colours";
  flipAsUsual();
  if (isShown(state.slider) || state.slider < 0) state.slider = hidden()[0] ?? -1;
  buildAxes();
  changedMode();
  layOut(true);
  reload();
}

let changedMode = () => {};

/** Call an action when other axes may have changed how elements are shown. */
export function whenAxesChange(action) {
  changedMode = action;
}

/** Give an axis a role; the axis that had the role takes the other's place. */
function setRole(axis, role) {
  const other = role === "rows" ? "columns" : "rows";
  const pair = { rows: state.rows, columns: state.columns };
  if (pair[role] === axis) return;
  if (pair[other] === axis) pair[other] = pair[role];
  pair[role] = axis;
  setAxes(pair.rows, pair.columns);
}

/** Tell the picture which axes it has. */
export function layOut(reset) {
  const axes = [state.rows, state.columns];
  picture.names = axes.map(titleOf);
  picture.ticks = axes.map((axis) => (from, to, most) => axisTicks(axis, from, to, most));
  picture.line = state.mode === "lines" ? { look: look(), choice: choice(), title: valuesTitle() } : null;
  if (reset) picture.flips = axes.map(isFlipped);
  picture.setExtents(extent(state.rows), extent(state.columns), reset);
  if (reset) picture.frame = null;
  setCursor();
  picture.draw();
}

const isFlipped = (axis) => axis >= 0 && Boolean(state.flips[axis]);

/** Flip an axis: draw index 0 at the other side. */
export function flip(axis) {
  if (axis < 0 || (state.mode === "table")) return;
  state.flips[axis] = !state.flips[axis];
  picture.setFlips(isFlipped(state.rows), isFlipped(state.columns));
  picture.settle();
  buildAxes();
  picture.draw();
  drawProfile();
  reload("frame grid");
}

/** Flip axes as their coordinates suggest: latitudes rise, depths fall. */
export function flipAsUsual() {
  state.flips = state.info.names.map((_, axis) => {
    const usual = state.info.coordinates[axis]?.flip;
    return Boolean(usual && ((axis === state.rows && usual[0]) || (axis === state.columns && usual[1])));
  });
}

function button(text, title, pressed, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
  made.addEventListener("click", action);
  return made;
}

export function buildAxes() {
  const { info } = state;
  const focused = document.activeElement?.dataset?.key;
  $("axes").replaceChildren(...info.names.map((name, axis) => {
    const row = document.createElement("div");
    row.className = "axis";
    row.dataset.axis = axis;
    const head = document.createElement("div");
    head.className = "head";
    const title = document.createElement("span");
    title.className = "name";
    const size = document.createElement("small");
    size.textContent = grouped(extent(axis));
    title.title = titleOf(axis);
    title.append(name, size);
    const roles = document.createElement("div");
    roles.className = "choice";
    if (info.shape.length > 1) {
      for (const [role, text] of [["rows", "↓ rows"], ["columns", "→ columns"]]) {
        const made = button(text, `Show ${name} as ${role}`, state[role] === axis, () => setRole(axis, role));
        made.setAttribute("aria-label", `${text} ${name}`);
        made.dataset.key = `${axis} ${role}`;
        roles.append(made);
      }
    }
    if ((axis === state.rows || axis === state.columns) && state.mode !== "table") {
      const [sign, key] = axis === state.rows ? ["⇅", "Y"] : ["⇄", "X"];
      const made = button(sign, `Flip ${name} (${key})`, isFlipped(axis), () => flip(axis));
      made.setAttribute("aria-label", `Flip ${name}`);
      made.dataset.key = `${axis} flip`;
      roles.append(made);
    }
    head.append(title, roles);
    row.append(head);
    if (!isShown(axis)) row.append(buildSlider(axis, name));
    return row;
  }));
  if (focused) $("axes").querySelector(`[data-key="${focused}"]`)?.focus();
  $("profileaxes").replaceChildren(...info.names.map((name, axis) => {
    const made = button(name, `The values along ${titleOf(axis)}`, state.along === axis, () => setAlong(axis));
    made.setAttribute("aria-label", `Profile along ${name}`);
    return made;
  }));
  tellSliders();
}

function buildSlider(axis, name) {
  const box = document.createElement("div");
  box.className = "slide";
  const play = button("▶", `Play along ${name}`, undefined, () => togglePlay(axis));
  play.className = "play";
  play.setAttribute("aria-label", `Play along ${name}`);
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = 0;
  slider.dataset.key = `${axis} slider`;
  slider.setAttribute("aria-label", name);
  slider.addEventListener("input", () => {
    state.slider = axis;
    moveTo(axis, Number(slider.value));
  });
  box.append(play, slider, document.createElement("output"));
  return box;
}

export function setAlong(axis) {
  state.along = axis;
  for (const [i, made] of [...$("profileaxes").children].entries()) made.setAttribute("aria-pressed", String(i === axis));
  reload("profile");
}

export async function togglePlay(axis) {
  if (axis < 0) return;
  if (state.playing === axis) {
    state.playing = -1;
    tellSliders();
    return;
  }
  state.playing = axis;
  state.slider = axis;
  tellSliders();
  while (state.playing === axis && !isShown(axis) && extent(axis) > 1) {
    const pause = new Promise((done) => { setTimeout(done, PLAY_MS); });
    moveTo(axis, (state.at[axis] + 1) % extent(axis));
    await pause;
    while (frames.busy && !frames.now?.long) await new Promise((done) => { setTimeout(done, 10); });
  }
  if (state.playing === axis) state.playing = -1;
  tellSliders();
}
