// A second array, beside the first or over it, whose cursor and axes follow those of the first.

import { remember } from "./address.js";
import { ask, askNumbers, Latest } from "./api.js";
import { summary } from "./colours.js";
import { axisTicks } from "./labels.js";
import { failed } from "./notices.js";
import { Picture } from "./picture.js";
import { placeText, textOf, withUnits } from "./profiles.js";
import { look, paintAs, picture } from "./showing.js";
import { $, isMixed, mixture, shown, state } from "./state.js";
import { grouped } from "./text.js";

/** The second array; `name` null: none. */
export const other = {
  name: null,
  info: null,
  axes: [], // for each of its axes the axis of the first that it follows, or -1
  at: [],
  how: "beside",
  mix: 0.5, // of the picture that lies over the first
  same: true, // whether it has the colours of the first
};

const beside = new Picture($("otherstage"), $("otherpicture"), $("otheroverlay"));
const over = new Picture($("stage"), $("overpicture"), document.createElement("canvas"));
const drawing = () => (other.how === "over" && fits() ? over : beside);
let asked = "";
let painted = "";
let told = "";

const hasNames = (info) => !info.names.every((name, axis) => name === `axis ${axis}`);

/** For each axis of the second array the axis of the first that agrees with it, or -1. */
export function linkedAxes(first, second) {
  const found = hasNames(first) && hasNames(second)
    ? second.names.map((name) => first.names.indexOf(name)) : [];
  if (found.some((axis) => axis >= 0)) return found;
  // Without names neighbouring axes of equal extents agree, or else the last ones.
  const [n, m] = [first.shape.length, second.shape.length];
  const linked = (shift) => second.shape.map((_, axis) => (axis + shift >= 0 && axis + shift < n ? axis + shift : -1));
  const score = (shift) => linked(shift).filter((mine, axis) => mine >= 0 && first.shape[mine] === second.shape[axis]).length;
  let best = n - m;
  for (let shift = n - 1; shift > -m; shift -= 1) if (score(shift) > score(best)) best = shift;
  return linked(best);
}

const axisOf = (mine) => other.axes.indexOf(mine);
const rowsOf = () => (state.rows < 0 ? -1 : axisOf(state.rows));
const columnsOf = () => axisOf(state.columns);
const lengthOf = (axis) => (axis < 0 ? 1 : other.info.shape[axis]);
const clamped = (i, n) => Math.max(0, Math.min(i, n - 1));

/** True if both planes have the same extents. */
const fits = () => lengthOf(rowsOf()) === picture.extents[0] && lengthOf(columnsOf()) === picture.extents[1];

/** Why the second array cannot be shown; empty: it can. */
function problem() {
  const { info } = other;
  if (state.mode === "table") return "is not shown beside a table";
  if (!info.shape.length || info.shape.some((n) => n === 0)) return "has no plane of elements";
  if (columnsOf() < 0 || (state.rows >= 0 && rowsOf() < 0)) return "has no axes that agree with rows and columns";
  return "";
}

/** The place in the second array that agrees with one in the first. */
function placeOf(at) {
  return other.axes.map((mine, axis) => clamped(mine < 0 ? other.at[axis] : at[mine], other.info.shape[axis]));
}

const fieldOf = () => (state.field < other.info.choices.length ? state.field : 0);
const question = (at) => ({ name: other.name, at: placeOf(at).join(","), field: fieldOf(), part: state.part });

/** The colours or channels of the second array, as far as it has those of the first. */
function otherMixture() {
  const axis = isMixed() ? axisOf(state.colours) : -1;
  if (axis < 0 || other.info.shape[axis] !== state.info.shape[state.colours]) return {};
  return { ...mixture(), colours: axis };
}

const frames = new Latest(async (task, now) => {
  const part = (axis, [start, stop, pixels]) => [axis, Math.min(start, lengthOf(axis)), Math.min(stop, lengthOf(axis)), pixels].join(",");
  const view = drawing();
  const { mode } = state;
  const { rows, columns } = view.window();
  const query = {
    ...question(state.at),
    ...otherMixture(),
    ends: state.mode === "lines" ? 1 : null,
    together: state.mode === "rgb" ? 1 : null,
    rows: rowsOf() < 0 ? null : part(rowsOf(), rows),
    columns: part(columnsOf(), columns),
    ms: 100,
    have: task.again && view.frame ? view.frame.known : null,
  };
  let level = task.again && view.frame ? view.frame.level : null;
  let whole = null;
  while (true) {
    const begun = performance.now();
    const frame = await askNumbers("plane", { ...query, level, whole }, now.controller.signal);
    if (!frame || query.name !== other.name || mode !== state.mode) return;
    // Later looks compare what is read in steps, which is fast, and not the extremes.
    frame.known = whole ? view.frame.known : frame.check;
    frame.pace = whole ? view.frame.pace : performance.now() - begun;
    query.have = null;
    view.frame = frame;
    painted = "";
    follow();
    document.body.dataset.other = String(Number(document.body.dataset.other ?? 0) + 1);
    if ((frame.level === 0 && !frame.more) || frames.stale || document.hidden) return;
    if (frame.level === 0) whole = 1;
    level = Math.max(0, frame.level - 1);
    now.long = true;
  }
});
frames.failed = failedOther;

const values = new Latest(async (at) => {
  const { name } = other;
  const answer = await ask("value", { ...question(at), ...otherMixture() });
  if (name !== other.name) return;
  $("othervalue").textContent = withUnits(textOf(answer), other.info, fieldOf());
  $("otherplace").replaceChildren(...placeText(placeOf(at), answer, other.info, other.axes.indexOf(state.colours)));
});
values.failed = failedOther;

function failedOther(error) {
  if (other.name === null) return;
  if (error.status === 409) return; // the array has changed; news will tell
  if (error.status === undefined) failed(error);
  else $("othername").textContent = `${other.name}: ${error.message}`;
}

/** The colours of the second picture. */
function otherLook() {
  const { frame } = drawing();
  let mine = look();
  if (!frame) return mine;
  // Both ranges are relative to a number that each frame has for itself.
  const moved = Number(state.zero - (frame.zero ?? 0n));
  mine = { ...mine, low: mine.low + moved, high: mine.high + moved, zero: frame.zero ?? 0n };
  // Two lines in one picture have one axis.
  if (other.same || frame.channels || (state.mode === "lines" && drawing() === over)) return mine;
  const counted = summary(frame, mine);
  if (!counted) return mine;
  let [low, high] = state.range === "full" || state.mode === "lines" ? [counted.low, counted.high] : [counted.p1, counted.p99];
  if (!(high > low)) [low, high] = [counted.low, counted.high];
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  return { ...mine, low, high };
}

/** Bring the second picture to where the first is. */
export function follow() {
  if (other.name === null || !state.info?.shape.length || !picture.view) return;
  const reason = problem();
  $("othername").textContent = reason ? `${other.name} ${reason}` : other.name;
  $("othervalue").hidden = Boolean(reason);
  $("otherplace").hidden = Boolean(reason);
  if (reason) {
    $("otherstage").hidden = true;
    $("overpicture").hidden = true;
    return;
  }
  const view = drawing();
  $("otherstage").hidden = view !== beside;
  $("overpicture").hidden = view !== over;
  $("overpicture").style.opacity = String(other.mix);
  $("overpicture").classList.toggle("line", Boolean(picture.line));
  $("samerow").hidden = Boolean(view.frame?.channels) || (view === over && Boolean(picture.line));
  // Linked by indices, so these are true for both; coordinates may differ.
  const sides = [rowsOf(), columnsOf()];
  view.names = sides.map((axis) => (axis < 0 ? "" : other.info.names[axis]));
  view.ticks = sides.map((axis) => (from, to, most) => axisTicks(-1, from, to, most));
  view.flips = picture.flips;
  view.square = picture.square;
  view.extents = [lengthOf(rowsOf()), lengthOf(columnsOf())];
  view.fitting = picture.fitting || !fits();
  if (!view.fitting) {
    // The same elements in the middle, at the same size.
    const [a, b] = [picture.plot, view.plot];
    const { sx, sy, c, r } = picture.view;
    view.view = { sx, sy, c: c + (a.w - b.w) / 2 / sx, r: r + (a.h - b.h) / 2 / sy };
  }
  view.settle();
  const place = (at) => (at ? { row: rowsOf() < 0 ? 0 : placeOf(at)[rowsOf()], column: placeOf(at)[columnsOf()] } : null);
  view.cursor = place(state.at);
  view.hover = place(shown.hover);
  const colours = otherLook();
  const now = JSON.stringify([view === over, view.window(), question(state.at), otherMixture(), state.mode, state.rows, state.columns, other.info.revision]);
  if (now !== asked) {
    asked = now;
    frames.want({ again: false });
  }
  const paint = JSON.stringify([view === over, { ...colours, zero: null }, state.channels, state.mode]);
  if (paint !== painted && view.frame) {
    painted = paint;
    if (!picture.line) paintAs(view.pixels, view.frame, colours);
  }
  view.line = picture.line && { look: colours, choice: other.info.choices[fieldOf()], title: "" };
  view.draw();
  const at = shown.hover ?? state.at;
  const where = JSON.stringify([question(at), other.info.revision]);
  if (where !== told) {
    told = where;
    values.want([...at]);
  }
}

/** Look again at elements that may have been overwritten without news. */
export function lookAgain() {
  if (other.info?.is_still !== false || frames.busy || !(drawing().frame?.pace < 300)) return;
  frames.want({ again: true });
  values.want([...(shown.hover ?? state.at)]);
}

/** Show a second array, or none. */
export async function compare(name) {
  let info = null;
  if (name) {
    try {
      info = await ask("array", { name });
    } catch (error) {
      failed(error);
    }
  }
  other.name = info ? name : null;
  takeUpOther(info);
}

/** Adopt the facts of the second array. */
export function takeUpOther(info) {
  other.info = info;
  const isOn = info !== null;
  [asked, painted, told] = ["", "", ""];
  beside.frame = null;
  over.frame = null;
  $("other").value = other.name ?? "";
  $("comparing").hidden = !isOn;
  $("otherstage").hidden = true;
  $("overpicture").hidden = true;
  $("otherbar").hidden = !isOn || !state.info.shape.length;
  if (isOn) {
    other.axes = linkedAxes(state.info, info);
    other.at = info.shape.map((n, axis) => clamped(other.at[axis] ?? 0, n));
    buildFree();
  }
  changed();
  follow(); // decides on the room that is left for the first picture
  relayOut();
  remember();
}

/** The first array, or its axes, have changed. */
export function relink() {
  if (other.name === null) return;
  if (other.info) takeUpOther(other.info);
}

/** The stage has another size. */
function relayOut() {
  tellHow();
  if (!state.info?.shape.length) return;
  picture.settle();
  picture.draw();
}

/** Sliders for axes of the second array that the first does not have. */
function buildFree() {
  $("otheraxes").replaceChildren(...other.info.names.flatMap((name, axis) => {
    if (other.axes[axis] >= 0) return [];
    const row = document.createElement("label");
    const slider = document.createElement("input");
    const text = document.createElement("span");
    const tell = () => { text.textContent = `${name} ${other.at[axis]} of ${grouped(other.info.shape[axis])}`; };
    slider.type = "range";
    slider.min = 0;
    slider.max = Math.max(0, other.info.shape[axis] - 1);
    slider.value = other.at[axis];
    slider.addEventListener("input", () => {
      other.at[axis] = Number(slider.value);
      tell();
      follow();
      remember();
    });
    tell();
    row.append(text, slider);
    return [row];
  }));
}

function tellHow() {
  const isOver = other.how === "over";
  $("beside").setAttribute("aria-pressed", String(!isOver));
  $("over").setAttribute("aria-pressed", String(isOver));
  $("mixrow").hidden = !isOver;
  $("mix").value = other.mix;
  $("same").checked = other.same;
}

/** Offer arrays for comparison. */
export function offer(arrays) {
  const names = arrays.filter((one) => !one.error && one.name !== state.name).map((one) => one.name);
  $("compare").hidden = !names.length && other.name === null;
  $("other").replaceChildren(new Option("no other array", ""), ...names.map((name) => new Option(name, name)));
  if (other.name !== null && !names.includes(other.name)) $("other").append(new Option(other.name, other.name));
  $("other").value = other.name ?? "";
}

/** Restore a comparison that an address describes. */
export async function restore(wish) {
  other.how = wish.get("how") === "over" ? "over" : "beside";
  const mix = Number(wish.get("mix") ?? 0.5);
  other.mix = mix >= 0 && mix <= 1 ? mix : 0.5;
  other.same = wish.get("same") !== "0";
  other.at = (wish.get("otherat") ?? "").split(",").map((text) => Number(text) || 0);
  const name = wish.get("with");
  if (name && name !== state.name) await compare(name);
}

/** Follow the controls. */
export function listenToComparison() {
  picture.followed = follow;
  $("other").addEventListener("change", () => compare($("other").value));
  for (const how of ["beside", "over"]) {
    $(how).addEventListener("click", () => {
      other.how = how;
      takeUpOther(other.info);
    });
  }
  $("mix").addEventListener("input", () => {
    other.mix = Number($("mix").value);
    follow();
    remember();
  });
  $("same").addEventListener("change", () => {
    other.same = $("same").checked;
    painted = "";
    follow();
    remember();
  });
  const stage = $("otherstage");
  const elementAt = (event) => {
    const box = stage.getBoundingClientRect();
    return other.name === null || problem() ? null : beside.elementAt(event.clientX - box.x, event.clientY - box.y);
  };
  const mine = (found) => {
    const at = [...state.at];
    if (state.rows >= 0) at[state.rows] = clamped(found.row, state.info.shape[state.rows]);
    at[state.columns] = clamped(found.column, state.info.shape[state.columns]);
    return at;
  };
  stage.addEventListener("pointermove", (event) => {
    const found = elementAt(event);
    hovered(found ? mine(found) : null);
  });
  stage.addEventListener("pointerleave", () => hovered(null));
  stage.addEventListener("click", (event) => {
    const found = elementAt(event);
    if (found) pointed(mine(found));
  });
}

let changed = () => {};

/** Call an action when another second array is on show, or when it has changed. */
export function whenCompared(action) {
  changed = action;
}

let hovered = () => {};
let pointed = () => {};

/** Call actions when the pointer is over the second picture, and when it is clicked. */
export function whenPointed(onHover, onPoint) {
  hovered = onHover;
  pointed = onPoint;
}
