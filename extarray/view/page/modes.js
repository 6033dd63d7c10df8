// How elements are shown: as a line, as colours, as a table; and the channels of mixed colours.

import { savedRange } from "./address.js";
import { buildAxes, flipAsUsual, layOut } from "./axes.js";
import { hideTable } from "./table.js";
import { reload } from "./loading.js";
import { channelName } from "./profiles.js";
import { picture, recolour, setActive } from "./showing.js";
import { $, choice, hidden, isEmpty, isMixed, MODES, shown, state } from "./state.js";

const MOST_CHANNELS = 8;
const MOST_ON = 4; // channels mixed at first
// Blue, green, magenta and yellow are told apart by most people; white is for light that passed.
const COLOURS = ["#3f7fff", "#00e64d", "#ff40ff", "#ffd200", "#ffffff", "#ff5a36", "#00d5e0", "#a080ff"];

/** The ways in which the array can be shown; the first is the usual one. */
function modesOf(info, field) {
  const { kind } = info.choices[field];
  if (kind === "text") return ["table", "colours"];
  if (info.shape.length === 1) return ["lines", "colours", "table"];
  const isNumber = kind === "number" && info.shape.length > 2;
  const rgb = isNumber && info.shape.some((n) => n === 3 || n === 4);
  const channels = isNumber && info.shape.some((n) => n > 1 && n <= MOST_CHANNELS);
  const found = ["colours", ...(rgb ? ["rgb"] : []), ...(channels ? ["channels"] : []), "table"];
  const usual = info.colours?.[0];
  return usual && found.includes(usual) ? [usual, ...found.filter((mode) => mode !== usual)] : found;
}

/** The axis of colours for a mode: the one that looks like it, or the last one that is short. */
function axisOf(mode) {
  const { colours, shape } = state.info;
  if (colours?.[0] === mode) return colours[1];
  const fits = (n) => (mode === "rgb" ? n === 3 || n === 4 : n > 1 && n <= MOST_CHANNELS);
  const free = shape.map((_, axis) => axis).filter((axis) => fits(shape[axis]));
  return free.filter((axis) => axis !== state.rows && axis !== state.columns).at(-1) ?? free.at(-1) ?? -1;
}

/** Choose how the array is shown at first, or as the wish says; also its rows and columns. */
export function chooseMode(wish) {
  const modes = modesOf(state.info, state.field);
  const wished = wish.get("mode");
  useMode(modes.includes(wished) ? wished : modes[0], wish.has("columns"));
  const told = wish.get("channels")?.split(";") ?? [];
  told.forEach((text, k) => {
    const found = text.match(/^([01])(#[0-9a-f]{6})(.*)$/);
    if (found && state.channels[k]) Object.assign(state.channels[k], { on: found[1] === "1", colour: found[2] }, savedRange(found[3]));
  });
}

function useMode(mode, keepsAxes) {
  state.mode = mode;
  state.channels = [];
  state.active = 0;
  state.colours = isMixed() ? axisOf(mode) : -1;
  if (!isMixed()) return;
  const axis = state.colours;
  const others = state.info.shape.map((_, j) => j).filter((j) => j !== axis);
  if (!keepsAxes || axis === state.rows || axis === state.columns) [state.rows, state.columns] = others.slice(-2);
  const size = state.info.shape[axis];
  state.channels = Array.from({ length: Math.min(size, mode === "rgb" ? 4 : MOST_CHANNELS) }, (_, index) => ({
    index, on: mode === "rgb" || index < MOST_ON, colour: COLOURS[index], range: "auto", low: 0, high: 1,
  }));
}

/** Show the elements in another way. */
export function setMode(mode) {
  if (mode === state.mode) return;
  const before = [state.rows, state.columns].join();
  useMode(mode, true);
  state.range = "auto";
  if (before !== [state.rows, state.columns].join()) flipAsUsual();
  if (!hidden().includes(state.slider)) state.slider = hidden()[0] ?? -1;
  shown.counted = null;
  buildAxes();
  buildModes();
  layOut(true);
  reload();
}

/** Show another field as it suits its kind: words are read, numbers are looked at. */
export function suitField(before, kind) {
  if (before !== kind && (before === "text" || kind === "text")) setMode(modesOf(state.info, state.field)[0]);
  buildModes();
  layOut(true);
}

/** The next mode, for the key. */
export function nextMode() {
  const modes = modesOf(state.info, state.field);
  setMode(modes[(modes.indexOf(state.mode) + 1) % modes.length]);
}

/** Build the controls of the modes. */
export function buildModes() {
  const modes = modesOf(state.info, state.field);
  if (!modes.includes(state.mode)) useMode(modes[0], true);
  $("mode").replaceChildren(...modes.map((mode) => new Option(MODES[mode], mode)));
  $("mode").value = state.mode;
  const { kind } = choice();
  const isTable = state.mode === "table";
  const isNothing = !state.info.shape.length || isEmpty();
  if (!isTable) hideTable();
  // Screen readers read a table by keys of their own.
  $("stage").setAttribute("role", isTable ? "region" : "application");
  $("picture").hidden = isTable;
  $("overlay").hidden = isTable;
  $("zoom").hidden = isTable || isNothing;
  $("showing").hidden = isNothing;
  $("save").hidden = isNothing;
  $("along").hidden = isNothing || state.mode === "lines" || choice().kind === "text";
  $("colourcard").hidden = isTable || isNothing;
  $("colourtitle").textContent = state.mode === "lines" ? "Values" : "Colours";
  // Texts are coloured in alphabetical order, but have no numbers.
  $("range").hidden = kind === "text";
  $("map").hidden = state.mode === "lines" || isMixed();
  $("full").hidden = state.mode === "lines";
  $("scalerow").hidden = isTable || kind === "bool" || kind === "text" || kind === "datetime" || (kind === "complex" && state.part === "phase");
  // Chunks are drawn over colours.
  $("ongrid").hidden = isTable || state.mode === "lines";
  buildChannels();
}

function buildChannels() {
  $("channels").hidden = state.mode !== "channels";
  $("channels").replaceChildren(...(state.mode === "channels" ? state.channels : []).map((one, k) => {
    const row = document.createElement("div");
    row.className = "channel";
    const on = document.createElement("input");
    on.type = "checkbox";
    on.checked = one.on;
    on.addEventListener("change", () => { one.on = on.checked; recolour(); reload(""); });
    const colour = document.createElement("input");
    colour.type = "color";
    colour.value = one.colour;
    colour.addEventListener("input", () => { one.colour = colour.value; recolour(); reload(""); });
    const name = document.createElement("button");
    name.type = "button";
    name.addEventListener("click", () => { setActive(k); tellChannels(); });
    row.append(on, colour, name);
    return row;
  }));
  tellChannels();
}

/** Name the channels, and mark the one whose range is on show. */
export function tellChannels() {
  for (const [k, row] of [...$("channels").children].entries()) {
    const [on, colour, name] = row.children;
    const text = channelName(k);
    on.setAttribute("aria-label", `Show ${text}`);
    colour.setAttribute("aria-label", `Colour of ${text}`);
    name.textContent = text;
    name.title = `Set the range of ${text}`;
    name.setAttribute("aria-pressed", String(k === state.active));
  }
}

/** Follow the controls of the modes. */
export function listenToModes() {
  $("mode").addEventListener("change", () => setMode($("mode").value));
}
