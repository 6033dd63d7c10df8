// The controls of the values and their colours.

import { remember } from "./address.js";
import { MAPS } from "./colours.js";
import { reload } from "./loading.js";
import { drawProfile } from "./profiles.js";
import { SCALES } from "./scales.js";
import { autoRange, count, recolour, scaleNow, setRange } from "./showing.js";
import { $, choice, state } from "./state.js";
import { parse } from "./text.js";

export function buildFields() {
  const { choices } = state.info;
  const options = (texts) => texts.map((text, i) => new Option(text, i));
  $("field").replaceChildren(...options(choices.map((one) => `${one.label || "value"} · ${one.dtype}`)));
  $("field").value = state.field;
  $("fieldrow").hidden = choices.length < 2 && !choices[0].label;
  const { parts } = choice();
  $("part").replaceChildren(...parts.map((part) => new Option(part, part)));
  $("part").value = state.part;
  $("partrow").hidden = parts.length === 0;
  $("fields").hidden = $("fieldrow").hidden && $("partrow").hidden;
  $("fillvalue").textContent = choice().fill;
}

function setField(field, part) {
  const before = choice().kind;
  if (field !== state.field) state.fill = !state.info.choices[field].zero;
  $("fill").checked = state.fill;
  state.field = field;
  state.part = part;
  if (state.range === "hold") state.range = "auto";
  const { kind } = choice();
  if (kind === "complex" && part === "phase") setMap("Circle", true);
  else if (state.map === "Circle") setMap("Dusk", true);
  buildFields();
  changedField(before, kind);
  reload("frame profile value");
}

let changedField = () => {};

/** Call an action, with the kinds before and now, when another field is shown. */
export function whenFieldChanges(action) {
  changedField = action;
}

export function setMap(name, quietly) {
  state.map = name;
  $("map").value = name;
  if (quietly) return;
  count();
  autoRange();
  recolour();
  remember();
}

function setFill(on) {
  state.fill = on;
  $("fill").checked = on;
  count();
  recolour();
  remember();
}

export function setScale(scale) {
  state.scale = scale;
  $("scale").value = scale;
  // A range with numbers that have no logarithm is no range.
  if (state.range === "hold" && scale === "log" && state.low + Number(state.zero) <= 0) state.range = "auto";
  changedScale();
}

function changedScale() {
  count();
  recolour();
  drawProfile();
  remember();
}

/** The next scale, for the key. */
export function nextScale() {
  if ($("scalerow").hidden) return;
  const names = Object.keys(SCALES);
  setScale(names[(names.indexOf(state.scale) + 1) % names.length]);
}

export function setGrid(on) {
  state.onGrid = on;
  $("ongrid").setAttribute("aria-pressed", String(on));
  reload("grid");
}

/** Follow the controls. */
export function listenToControls() {
  $("map").replaceChildren(...MAPS.map((name) => new Option(name, name)));
  $("map").addEventListener("change", () => setMap($("map").value));
  $("scale").replaceChildren(...Object.entries(SCALES).map(([name, text]) => new Option(text, name)));
  $("scale").addEventListener("change", () => setScale($("scale").value));
  $("auto").addEventListener("click", () => setRange("auto"));
  $("full").addEventListener("click", () => setRange("full"));
  for (const id of ["low", "high"]) {
    $(id).addEventListener("change", () => {
      const ends = { low: state.low, high: state.high, [id]: parse($(id).value, choice(), state.zero) };
      const fits = ends.low < ends.high && !(scaleNow() === "log" && ends.low + Number(state.zero) <= 0);
      $(id).setAttribute("aria-invalid", String(!fits));
      if (fits) setRange("hold", ends.low, ends.high);
    });
    $(id).addEventListener("blur", () => state.info && recolour());
  }
  $("linear").addEventListener("change", () => {
    const text = $("linear").value.trim();
    const number = parse(text, { kind: "number" });
    const fits = text === "" || number > 0;
    $("linear").setAttribute("aria-invalid", String(!fits));
    if (!fits) return;
    state.holdsLinear = text !== "";
    if (state.holdsLinear) state.linear = number;
    changedScale();
  });
  $("fill").addEventListener("change", () => setFill($("fill").checked));
  $("field").addEventListener("change", () => setField(Number($("field").value), state.part));
  $("part").addEventListener("change", () => setField(state.field, $("part").value));
  $("ongrid").addEventListener("click", () => setGrid(!state.onGrid));
}
