// The axes: which ones are on show, and a slider for each of the others.

import { label } from "./labels.js";
import { frames, reload } from "./loading.js";
import { moveTo, setCursor } from "./moving.js";
import { picture } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { $, extent, hidden, isShown, state } from "./state.js";
import { grouped } from "./text.js";

const PLAY_MS = 90; // least time between two slices

/** Show other axes. */
export function setAxes(rows, columns) {
  if (rows === columns) return;
  state.rows = rows;
  state.columns = columns;
  if (isShown(state.slider) || state.slider < 0) state.slider = hidden()[0] ?? -1;
  buildAxes();
  layOut(true);
  reload();
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
  const { info } = state;
  picture.names = [state.rows, state.columns].map((axis) => {
    if (axis < 0) return "";
    const units = info.coordinates[axis]?.units;
    return units ? `${info.names[axis]} (${units})` : info.names[axis];
  });
  picture.labels = [state.rows, state.columns].map((axis) => (index) => label(axis, Math.round(index)));
  picture.setExtents(extent(state.rows), extent(state.columns), reset);
  if (reset) picture.frame = null;
  setCursor();
  picture.draw();
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
    title.append(name, size);
    const roles = document.createElement("div");
    roles.className = "choice";
    if (info.shape.length > 1) {
      for (const [role, text] of [["rows", "↓ rows"], ["columns", "→ columns"]]) {
        const made = button(text, `Show ${name} as ${role}`, state[role] === axis, () => setRole(axis, role));
        made.dataset.key = `${axis} ${role}`;
        roles.append(made);
      }
    }
    head.append(title, roles);
    row.append(head);
    if (!isShown(axis)) row.append(buildSlider(axis, name));
    return row;
  }));
  if (focused) $("axes").querySelector(`[data-key="${focused}"]`)?.focus();
  $("profileaxes").replaceChildren(...info.names.map((name, axis) => button(name, `The values along ${name}`, state.along === axis, () => setAlong(axis))));
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
