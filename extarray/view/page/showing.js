// The picture with its colours and their range.

import { cssOf, summary } from "./colours.js";
import { remember } from "./address.js";
import { Histogram, drawChunks } from "./charts.js";
import { Picture, readable } from "./picture.js";
import { $, choice, extent, shown, state } from "./state.js";
import { grouped, short, valueText } from "./text.js";

export const picture = new Picture($("stage"), $("picture"), $("overlay"));
export const histogram = new Histogram($("histogram"), (low, high) => setRange("hold", low, high));

export const look = () => ({ map: state.map, low: state.low, high: state.high, fill: state.fill });

export function showFrame(frame) {
  shown.counted = summary(frame, state.fill);
  autoRange();
  picture.frame = frame;
  recolour();
  const [down, across] = frame.steps;
  const told = [];
  if (down > 1 || across > 1) {
    if (frame.whole) told.push(`extremes of ${state.rows < 0 ? "" : `${grouped(down)} × `}${grouped(across)}`);
    else told.push(state.rows < 0 ? `every ${nth(across)}` : `every ${nth(down)} × ${nth(across)}`);
  }
  told.push(`${grouped(frame.shape[0])} × ${grouped(frame.shape[1])} read in ${short(frame.ms, 2)} ms`);
  $("note").textContent = told.join(" · ");
  document.body.dataset.frame = String(Number(document.body.dataset.frame ?? 0) + 1);
  document.body.dataset.level = String(frame.level);
}

export function nth(n) {
  return n === 1 ? "" : `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10 > 3 ? 0 : n % 10]}`;
}

export function autoRange() {
  if (state.range === "hold" || !shown.counted) return;
  let low = state.range === "auto" ? shown.counted.p1 : shown.counted.low;
  let high = state.range === "auto" ? shown.counted.p99 : shown.counted.high;
  if (!(high > low)) [low, high] = [shown.counted.low, shown.counted.high];
  if (choice().kind === "bool") [low, high] = [0, 1];
  else if (choice().kind === "complex" && state.part === "phase") [low, high] = [-Math.PI, Math.PI];
  else if (state.map === "Divide" && low < 0 && high > 0) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
  if (!(high > low)) { const room = Math.abs(low) * 0.01 || 1; low -= room; high += room; }
  state.low = low;
  state.high = high;
}

export function recolour() {
  const found = picture.recolour(look());
  $("nan").hidden = !found.nan;
  $("fillrow").hidden = !(found.fill || (state.fill && picture.frame?.fill !== null));
  picture.draw();
  histogram.draw(shown.counted, look());
  for (const [id, value] of [["low", state.low], ["high", state.high]]) {
    if (document.activeElement !== $(id)) {
      $(id).value = valueText(value, choice(), 6);
      $(id).setAttribute("aria-invalid", "false");
    }
  }
  $("auto").setAttribute("aria-pressed", String(state.range === "auto"));
  $("full").setAttribute("aria-pressed", String(state.range === "full"));
}

export function setRange(kind, low, high) {
  state.range = kind;
  if (kind === "hold") {
    state.low = low;
    state.high = high;
  } else autoRange();
  recolour();
  remember();
}

picture.numberText = (value) => {
  const t = (value - state.low) / (state.high - state.low || 1);
  return { text: valueText(value, choice(), 5), colour: readable(cssOf(state.map, Math.min(1, Math.max(0, t)))) };
};
picture.chunks = (context, x, y) => {
  if (!state.onGrid || !shown.gridMap) return;
  const { info } = state;
  const place = (axis, at) => (chunk) => at(Math.min(extent(axis), Math.max(0, chunk * info.chunks[axis] - info.offset[axis])));
  const down = state.rows < 0 ? (chunk) => y(chunk) : place(state.rows, y);
  drawChunks(context, shown.gridMap, place(state.columns, x), down, { faint: true, addresses: true });
};
