// The controls of the values and their colours.

import { remember } from "./address.js";
import { MAPS, summary } from "./colours.js";
import { reload } from "./loading.js";
import { autoRange, picture, recolour, setRange } from "./showing.js";
import { $, choice, shown, state } from "./state.js";
import { parse } from "./text.js";

export function buildFields() {
  const { choices } = state.info;
  const options = (texts) => texts.map((text, i) => new Option(text, i));
  $("field").replaceChildren(...options(choices.map((one) => `${one.label} · ${one.dtype}`)));
  $("field").value = state.field;
  $("fieldrow").hidden = choices.length < 2 && !choices[0].label;
  const { parts } = choice();
  $("part").replaceChildren(...parts.map((part) => new Option(part, part)));
  $("part").value = state.part;
  $("partrow").hidden = parts.length === 0;
  $("fields").hidden = $("fieldrow").hidden && $("partrow").hidden;
  $("fillvalue").textContent = choice().fill;
  $("range").classList.toggle("wide", choice().kind === "datetime");
}

function setField(field, part) {
  if (field !== state.field) state.fill = !state.info.choices[field].zero;
  $("fill").checked = state.fill;
  state.field = field;
  state.part = part;
  if (state.range === "hold") state.range = "auto";
  const { kind } = choice();
  if (kind === "complex" && part === "phase") setMap("Circle", true);
  else if (state.map === "Circle") setMap("Dusk", true);
  buildFields();
  reload("frame profile value");
}

export function setMap(name, quietly) {
  state.map = name;
  $("map").value = name;
  if (quietly) return;
  autoRange();
  recolour();
  remember();
}

function setFill(on) {
  state.fill = on;
  $("fill").checked = on;
  if (picture.frame) {
    shown.counted = summary(picture.frame, on);
    autoRange();
  }
  recolour();
  remember();
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
  $("auto").addEventListener("click", () => setRange("auto"));
  $("full").addEventListener("click", () => setRange("full"));
  for (const id of ["low", "high"]) {
    $(id).addEventListener("change", () => {
      const ends = { low: state.low, high: state.high, [id]: parse($(id).value, choice()) };
      const fits = ends.low < ends.high;
      $(id).setAttribute("aria-invalid", String(!fits));
      if (fits) setRange("hold", ends.low, ends.high);
    });
    $(id).addEventListener("blur", () => state.info && recolour());
  }
  $("fill").addEventListener("change", () => setFill($("fill").checked));
  $("field").addEventListener("change", () => setField(Number($("field").value), state.part));
  $("part").addEventListener("change", () => setField(state.field, $("part").value));
  $("ongrid").addEventListener("click", () => setGrid(!state.onGrid));
}
