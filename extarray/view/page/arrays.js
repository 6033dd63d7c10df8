// The array on show: its facts, and news of it.

import { savedRange } from "./address.js";
import { ask } from "./api.js";
import { buildAxes, flipAsUsual, layOut } from "./axes.js";
import { other, relink, takeUpOther } from "./compare.js";
import { MAPS } from "./colours.js";
import { buildFields, setGrid } from "./controls.js";
import { drawGrowth } from "./growthmap.js";
import { forgetLabels } from "./labels.js";
import { reload } from "./loading.js";
import { buildModes, chooseMode } from "./modes.js";
import { News } from "./news.js";
import { failed, say, setLost } from "./notices.js";
import { drawProfile, tellValue } from "./profiles.js";
import { SCALES } from "./scales.js";
import { histogram, look, picture } from "./showing.js";
import { $, choice, hidden, isEmpty, isMixed, isShown, shown, state, valuesTitle } from "./state.js";
import { hideTable } from "./table.js";
import { grouped } from "./text.js";
import { markShown, revision, setTree } from "./tree.js";

let latest = 0;

/** Show an array, with the wished state as far as it fits. */
export async function show(name, wish = new URLSearchParams()) {
  latest += 1;
  const mine = latest;
  const info = await ask("array", { name });
  if (mine !== latest) return; // the reader has chosen another one meanwhile
  state.name = name;
  state.info = info;
  say(null);
  setLost(false);
  forgetLabels();
  const n = info.shape.length;
  const whole = (key, least, most, other) => {
    const number = wish.has(key) ? Number(wish.get(key)) : NaN;
    return Number.isInteger(number) && number >= least && number <= most ? number : other;
  };
  state.columns = whole("columns", 0, n - 1, n - 1);
  state.rows = n < 2 ? -1 : whole("rows", 0, n - 1, n - 2);
  if (state.rows === state.columns) [state.rows, state.columns] = [n > 1 ? n - 2 : -1, n - 1];
  state.field = whole("field", 0, info.choices.length - 1, 0);
  chooseMode(wish);
  const wished = wish.get("at") ? wish.get("at").split(",").map(Number) : [];
  state.at = info.shape.map((size, axis) => {
    const middle = isShown(axis) ? Math.floor(size / 2) : 0;
    const index = wished.length === n && Number.isInteger(wished[axis]) ? wished[axis] : middle;
    return Math.max(0, Math.min(index, size - 1));
  });
  state.part = info.choices[state.field].parts.includes(wish.get("part")) ? wish.get("part") : "magnitude";
  state.map = MAPS.includes(wish.get("map")) ? wish.get("map") : "Dusk";
  state.scale = Object.hasOwn(SCALES, wish.get("scale") ?? "") ? wish.get("scale") : "linear";
  flipAsUsual();
  if (wish.has("flips")) state.flips = info.names.map((_, axis) => wish.get("flips").split(",").includes(String(axis)));
  state.along = whole("along", 0, n - 1, hidden()[0] ?? state.columns);
  state.slider = hidden()[0] ?? -1;
  state.playing = -1;
  const { range, low, high } = state.mode === "channels" ? state.channels[0] : savedRange(wish.get("range"));
  Object.assign(state, { range, low, high });
  state.zero = /^-?\d+$/.test(wish.get("zero") ?? "") ? BigInt(wish.get("zero")) : 0n;
  state.holdsLinear = Number(wish.get("linear")) > 0;
  if (state.holdsLinear) state.linear = Number(wish.get("linear"));
  state.fill = wish.has("fill") ? wish.get("fill") === "1" : !info.choices[state.field].zero;
  if (wish.has("square")) picture.square = wish.get("square") === "1";
  if (wish.has("grid")) setGrid(wish.get("grid") === "1");
  shown.counted = null;
  shown.profile = null;
  shown.chunkMap = null;
  shown.gridMap = null;
  shown.table = null;
  picture.frame = null;
  shown.hover = null;
  $("map").value = state.map;
  $("scale").value = state.scale;
  $("fill").checked = state.fill;
  hideTable();
  buildAll(true).catch(failed);
  markShown(name);
  relink();
  listed();
  reload();
  news.update();
}

/** Show the part of the plane that an address describes. */
export function seePart(wish) {
  const part = (wish.get("window") ?? "").split(",").map(Number);
  if (part.length !== 4 || !part.every(Number.isFinite) || !state.info.shape.length || isEmpty()) return;
  picture.see(part.slice(0, 2), part.slice(2));
  picture.draw();
  reload("frame grid");
}

let listed = () => {};

/** Call an action when another array is on show, or when there are other arrays. */
export function whenListed(action) {
  listed = action;
}

async function buildAll(reset) {
  const { info } = state;
  document.title = `${info.name} – extarray`;
  $("title").textContent = info.name;
  $("facts").textContent = [...(info.title ? [valuesTitle()] : []), info.shape.length ? info.shape.map(grouped).join(" × ") : "no axes", kindOf(info), info.bytes].join("  ·  ");
  $("facts").title = info.dtype;
  const none = info.shape.length === 0;
  buildFields();
  tellInfo();
  buildModes();
  $("growthcard").hidden = none || isEmpty() || !info.has_growth;
  $("say").hidden = !none && !isEmpty();
  $("say").textContent = none || !isEmpty() ? "" : `This array is empty: ${info.shape.map(grouped).join(" × ")} elements.`;
  if (none) { await showSingle(); return; }
  buildAxes();
  layOut(reset);
  if (isEmpty()) {
    $("value").textContent = "no elements yet";
    $("where").textContent = "";
    $("note").textContent = "";
    picture.frame = null;
    histogram.draw(null, look(), choice());
    drawProfile();
    shown.chunkMap = null;
    drawGrowth();
    picture.draw();
  }
  document.body.dataset.revision = String(info.revision);
  document.body.dataset.shape = info.shape.join(",");
}

/** The data type, short. */
function kindOf(info) {
  const { choices } = info;
  if (choices[0].packing) return `${choices[0].dtype} stored as ${info.dtype}`;
  return choices[0].label ? `records of ${choices.length} values` : info.dtype;
}

/** An array without axes has one value. */
async function showSingle() {
  $("axes").replaceChildren("This array has no axes: it is one value.");
  $("where").textContent = "";
  $("note").textContent = "";
  document.body.dataset.shape = "";
  picture.frame = null;
  const { name } = state;
  const told = await ask("value", { name, at: "", field: state.field });
  if (name !== state.name) return;
  tellValue([], told);
  $("say").replaceChildren(made("strong", $("value").textContent), made("span", state.info.title));
}

function made(kind, text) {
  const element = document.createElement(kind);
  element.textContent = text;
  return element;
}

function tellInfo() {
  const { info } = state;
  const rows = [
    ["Chunks", info.chunks.join(" × ")],
    ["Grid", info.grid.join(" × ")],
    ["On disk", info.disk],
    ["Fill value", info.fill],
    ["Order", info.order],
  ];
  if (info.origin.some((n) => n)) rows.push(["Origin", info.origin.join(", ")]);
  for (const line of info.attrs) {
    const cut = line.indexOf(": ");
    rows.push(cut > 0 ? [line.slice(0, cut), line.slice(cut + 2)] : ["", line]);
  }
  $("info").replaceChildren(...rows.flatMap(([name, text]) => {
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = text;
    return [dt, dd];
  }));
}

/** Adopt news: the array has grown, shrunk, or is another one. */
function takeUp(info) {
  const old = state.info;
  const hasOtherColours = isMixed() && info.shape[state.colours] !== old.shape[state.colours];
  if (info.shape.length !== old.shape.length || hasOtherColours || JSON.stringify(info.choices) !== JSON.stringify(old.choices)) {
    show(state.name).catch(failed);
    return;
  }
  const before = old.shape;
  state.info = info;
  forgetLabels();
  state.at = state.at.map((index, axis) => {
    // If the last slice was on show, show the new last slice.
    if (!isShown(axis) && before[axis] > 0 && index === before[axis] - 1) return Math.max(0, info.shape[axis] - 1);
    return Math.max(0, Math.min(index + info.origin[axis] - old.origin[axis], info.shape[axis] - 1));
  });
  say(null);
  buildAll(before.some((n) => n === 0)).catch(failed);
  relink();
  $("live").classList.remove("fresh");
  void $("live").offsetWidth;
  $("live").classList.add("fresh");
  reload();
}

export const news = new News({
  wanted: () => {
    if (!state.live || !state.info) return null;
    const arrays = [{ name: state.name, revision: state.info.revision }];
    if (other.info) arrays.push({ name: other.name, revision: other.info.revision });
    return { arrays, tree: revision() };
  },
  list: (tree) => { setTree(tree); listed(); },
  tell: (info) => {
    if (info.name !== state.name) { takeUpOther(info); return; }
    setLost(false);
    takeUp(info);
  },
  failed: (error, name) => {
    if (name === state.name) setLost(true);
    failed(error);
  },
  restored: () => { setLost(false); say(null); },
});

export function setLive(on) {
  state.live = on;
  $("live").setAttribute("aria-pressed", String(on));
  setLost(false);
  news.update();
}
