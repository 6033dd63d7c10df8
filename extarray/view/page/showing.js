// The picture with its colours and their range.

import { remember } from "./address.js";
import { Histogram, drawChunks } from "./charts.js";
import { cssOf, mix, paint, placeOf, summary } from "./colours.js";
import { Picture, readable } from "./picture.js";
import { $, choice, extent, isMixed, shown, state } from "./state.js";
import { grouped, roundedText, short, unitOf, valueText } from "./text.js";

export const picture = new Picture($("stage"), $("picture"), $("overlay"));
export const histogram = new Histogram($("histogram"), (low, high) => setRange("hold", low, high));

/** The scale of the values: only amounts have logarithms. */
export function scaleNow() {
  const { kind } = choice();
  const isAmount = kind === "number" || kind === "timedelta" || (kind === "complex" && state.part !== "phase");
  return isAmount && (state.map !== "Labels" || isMixed()) ? state.scale : "linear";
}

/** How values become colours, or places on an axis. */
export const look = () => ({
  map: state.map, low: state.low, high: state.high, fill: state.fill, scale: scaleNow(), linear: state.linear, zero: state.zero,
  colour: { channels: state.channels[state.active]?.colour, rgb: "#ffffff" }[state.mode] ?? null,
  isPlain: state.mode === "lines",
});

const PRIMARIES = ["#ff0000", "#00ff00", "#0000ff"];

/** The numbers that the histogram and the range are about: of one channel, or all. */
function rangedPart(frame) {
  if (!frame.channels) return frame;
  return state.mode === "channels" ? channelOf(frame, state.active) : channelOf(frame, 0, 3); // without the opacity
}

function channelOf(frame, k, count = 1) {
  const n = frame.shape[0] * frame.shape[1];
  const part = (all) => all?.subarray(k * n, (k + count) * n);
  return { ...frame, data: part(frame.data), bits: part(frame.bits) };
}

/** The greatest opacity: that of the data type, or 1. */
const opaque = (frame) => ({ u1: 255, u2: 65535 }[frame.code] ?? 1);

/** Count the numbers of the frame, and set the range. */
export function count(frame = picture.frame) {
  if (!frame) return;
  if (state.zero !== frame.zero) {
    const moved = Number(state.zero - frame.zero);
    for (const one of [state, ...state.channels]) { one.low += moved; one.high += moved; }
    state.zero = frame.zero;
  }
  if (state.mode === "channels" && frame.channels) {
    state.channels.forEach((one, k) => {
      if (k === state.active || one.range === "hold") return;
      [one.low, one.high] = rangeOf(one.range, summary(channelOf(frame, k), look()), frame) ?? [one.low, one.high];
    });
  }
  shown.counted = summary(rangedPart(frame), { ...look(), linear: state.holdsLinear ? state.linear : null });
  if (shown.counted && !state.holdsLinear) state.linear = 10 ** Math.floor(Math.log10(shown.counted.small));
  autoRange();
}

export function showFrame(frame) {
  picture.frame = frame;
  count(frame);
  recolour();
  const [down, across] = frame.steps;
  const told = [];
  if (down > 1 || across > 1) {
    if (frame.whole) told.push(`extremes of ${state.rows < 0 ? "" : `${grouped(down)} × `}${grouped(across)}`);
    else told.push(state.rows < 0 ? `every ${nth(across)}` : `every ${nth(down)} × ${nth(across)}`);
  }
  told.push(`${state.rows < 0 ? "" : `${grouped(frame.shape[0])} × `}${grouped(frame.shape[1])} read in ${short(frame.ms, 2)} ms`);
  $("note").textContent = told.join(" · ");
  document.body.dataset.frame = String(Number(document.body.dataset.frame ?? 0) + 1);
  document.body.dataset.level = String(frame.level);
}

export function nth(n) {
  return n === 1 ? "" : `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10 > 3 ? 0 : n % 10]}`;
}

/** The ends of a range: `auto` leaves out the outermost percent, `full` nothing. */
function rangeOf(range, counted, frame) {
  if (!counted) return null;
  let low = range === "auto" && state.mode !== "lines" ? counted.p1 : counted.low;
  let high = range === "auto" && state.mode !== "lines" ? counted.p99 : counted.high;
  if (!(high > low)) [low, high] = [counted.low, counted.high];
  if (choice().kind === "bool") [low, high] = [0, 1];
  else if (choice().kind === "complex" && state.part === "phase") [low, high] = [-Math.PI, Math.PI];
  else if (state.mode === "rgb" && range === "auto" && frame.code === "u1") [low, high] = [0, 255];
  else if (state.mode === "rgb" && range === "auto" && frame.code === "f4" && counted.low >= 0 && counted.high <= 1) [low, high] = [0, 1];
  else if (state.map === "Divide" && state.mode === "colours" && scaleNow() !== "log" && low < 0 && high > 0) {
    [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
  }
  if (!(high > low)) {
    const room = Math.abs(low) * 0.01 || 1;
    if (!isMixed()) low -= room; // a channel without anything is black
    high += room;
  }
  if (scaleNow() === "log" && low + Number(state.zero) <= 0) low = counted.low;
  return [low, high];
}

export function autoRange() {
  if (state.range !== "hold") [state.low, state.high] = rangeOf(state.range, shown.counted, picture.frame) ?? [state.low, state.high];
  keepRange();
}

/** The range on show is that of a channel. */
function keepRange() {
  const one = state.channels[state.active];
  if (state.mode === "channels" && one) Object.assign(one, { range: state.range, low: state.low, high: state.high });
}

/** Set the range of another channel from now on. */
export function setActive(k) {
  state.active = k;
  const { range, low, high } = state.channels[k];
  Object.assign(state, { range, low, high });
  count();
  recolour();
  remember();
}

/** Paint the frame as the state says; return the counts of what has no colour. */
function paintFrame() {
  const { frame } = picture;
  if (!frame || state.mode === "lines") return { nan: 0, fill: 0, none: 0 };
  return paintAs(picture.pixels, frame, look());
}

/** Paint any frame with a look, or with the looks of the channels. */
export function paintAs(canvas, frame, base) {
  if (!frame.channels) return paint(canvas, frame, base);
  const layers = state.channels.map((one, k) => {
    if (state.mode === "channels") return { k, colour: one.colour, look: { ...base, low: one.low, high: one.high }, on: one.on };
    if (k < 3) return { k, colour: PRIMARIES[k], look: base, on: true };
    return { k, isAlpha: true, look: { ...base, scale: "linear", low: 0, high: opaque(frame) }, on: true };
  }).filter((one) => one.on);
  return mix(canvas, frame, layers);
}

export function recolour() {
  const found = paintFrame();
  if (picture.line) picture.line.look = look();
  $("none").hidden = !found.none;
  $("nan").hidden = !found.nan;
  $("fillrow").hidden = !(found.fill || (state.fill && picture.frame?.fill !== null));
  picture.draw();
  histogram.draw(shown.counted, look(), choice());
  for (const [id, value] of [["low", state.low], ["high", state.high]]) {
    if (document.activeElement !== $(id)) {
      $(id).value = valueText(value, choice(), { digits: 6, zero: state.zero, seconds: resolution() });
      $(id).setAttribute("aria-invalid", "false");
    }
  }
  $("linearrow").hidden = $("scalerow").hidden || scaleNow() !== "symlog";
  if (document.activeElement !== $("linear")) {
    $("linear").value = short(state.linear);
    $("linear").setAttribute("aria-invalid", "false");
  }
  $("range").classList.toggle("wide", choice().kind === "datetime" || state.zero !== 0n);
  $("auto").setAttribute("aria-pressed", String(state.range === "auto"));
  $("full").setAttribute("aria-pressed", String(state.range === "full"));
}

export function setRange(kind, low, high) {
  state.range = kind;
  if (kind === "hold") {
    state.low = low;
    state.high = high;
    keepRange();
  } else autoRange();
  recolour();
  remember();
}

/** Seconds that matter in a date of the range; 0: every one. */
function resolution() {
  const unit = choice().kind === "datetime" ? unitOf(choice()) : null;
  if (!unit) return 0;
  const seconds = ((state.high - state.low) * Number(unit)) / 1e18;
  return [60, 1, 1e-3, 1e-6].find((step) => step <= seconds / 1000 && step >= Number(unit) / 1e18) ?? 0;
}

picture.numberText = (value) => {
  if (choice().kind === "text") return null; // a number stands for the first letters
  const t = placeOf(look())(value);
  return { text: roundedText(value, choice(), state.zero), colour: readable(cssOf(state.map, Math.min(1, Math.max(0, t || 0)))) };
};
picture.chunks = (context, x, y) => {
  if (!state.onGrid || !shown.gridMap) return;
  const { info } = state;
  const place = (axis, at) => (chunk) => at(Math.min(extent(axis), Math.max(0, chunk * info.chunks[axis] - info.offset[axis])));
  const down = state.rows < 0 ? (chunk) => y(chunk) : place(state.rows, y);
  drawChunks(context, shown.gridMap, place(state.columns, x), down, { faint: true, addresses: true });
};
