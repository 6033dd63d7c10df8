// Scales of values, and round ticks on them.

import { dateText, momentOf, ratio, short, unitOf } from "./text.js";

export const SCALES = { linear: "Linear", log: "Logarithmic", symlog: "Symmetric log" };

/** Places of values on a scale: `to` is NaN for values that have no place; `from` is its inverse. */
export function scaleOf({ scale, linear, zero }) {
  const shift = Number(zero ?? 0n);
  if (scale === "log") return { to: (v) => (v + shift > 0 ? Math.log(v + shift) : NaN), from: (t) => Math.exp(t) - shift };
  // Linear within about the distance `linear` from zero, logarithmic beyond.
  if (scale === "symlog") return { to: (v) => Math.asinh((v + shift) / linear), from: (t) => linear * Math.sinh(t) - shift };
  return { to: (v) => v, from: (t) => t };
}

/** A step of 1, 2 or 5 times a power of ten. */
export function niceStep(least) {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * (1 - 1e-9)) ?? 10 * power;
}

/** Whole numbers from `from` to `to` that are multiples of a nice step. */
export function wholeTicks(from, to, most) {
  const step = Math.max(1, niceStep((to - from) / Math.max(1, most)));
  const ticks = [];
  for (let i = Math.ceil(from / step) * step; i <= to; i += step) ticks.push(i);
  return ticks;
}

/** Round values from `low` to `high`, each `{ v, text }`; `offset` is to be added to all of them. */
export function valueTicks(low, high, most, choice, look) {
  if (!(high > low)) return { ticks: [], offset: "" };
  const found = ticksOf(low, high, most, choice, look);
  // One tick tells no scale.
  return found.ticks.length < 2 ? ticksOf(low, high, 2 * most + 1, choice, look) : found;
}

function ticksOf(low, high, most, choice, look) {
  const zero = look.zero ?? 0n;
  if (choice.kind === "datetime") return { ticks: dateTicks(low, high, most, choice, zero), offset: "" };
  const unit = choice.kind === "timedelta" ? ` ${choice.unit.replace(/^1 /, "")}` : "";
  const told = (found) => ({ ticks: found.ticks.map(({ v, text }) => ({ v, text: text + unit })), offset: found.offset });
  if (look.scale === "log" || look.scale === "symlog") {
    const found = powers(low + Number(zero), high + Number(zero), most, look);
    if (found.length > 1) return told({ ticks: found.map((v) => ({ v: v - Number(zero), text: power(v) })), offset: "" });
  }
  return told(zero ? nearTicks(low, high, most, zero) : linearTicks(low, high, most, look.isRound));
}

const DEGREES = [10, 15, 30, 45, 60, 90];

function linearTicks(low, high, most, isRound) {
  const least = (high - low) / Math.max(1, most);
  const step = (isRound && least > 5 && DEGREES.find((n) => n >= least)) || niceStep(least);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  // Numbers far from zero that are near each other share their first digits.
  const isNear = largest > 1e5 && step < largest * 1e-6;
  const start = isNear ? Math.floor(low / (step * 100)) * step * 100 : 0;
  const decimals = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const text = (v) => (Math.max(largest, 0) >= 1e7 || largest < 1e-3 ? short(Number(v.toPrecision(6)), 6) : v.toFixed(decimals).replace("-", "−"));
  const ticks = [];
  for (let k = Math.ceil((low - start) / step - 1e-9); k * step <= (high - start) * (1 + 1e-12) + 1e-12 * step && ticks.length < 50; k += 1) {
    ticks.push({ v: start + k * step, text: isNear ? `+${short(k * step)}` : text(k * step || 0) });
  }
  return { ticks, offset: isNear ? String(start).replace("-", "−") : "" };
}

/** Ticks of large integers: differences from one of them. */
function nearTicks(low, high, most, zero) {
  const step = BigInt(Math.max(1, Math.round(niceStep((high - low) / Math.max(1, most)))));
  const round = step * 100n;
  const from = zero + BigInt(Math.floor(low));
  const start = (from / round) * round - (from < 0n ? round : 0n);
  const ticks = [];
  for (let at = start; ticks.length < 50; at += step) {
    const v = Number(at - zero);
    if (v > high) break;
    if (v >= low) ticks.push({ v, text: `+${at - start}` });
  }
  return { ticks, offset: String(start).replace("-", "−") };
}

/** Powers of ten, some of them if there are many, and the numbers between if there are few. */
function powers(low, high, most, { scale, linear }) {
  const least = scale === "log" ? 0 : linear;
  const side = (from, to) => {
    if (!(to > 0)) return [];
    const first = Math.ceil(Math.log10(Math.max(from, least, to * 1e-30)) - 1e-9);
    const last = Math.floor(Math.log10(to) + 1e-9);
    const found = [];
    const part = scale === "log" || low >= 0 || high <= 0 ? most : most / 2;
    const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, part)));
    for (let k = last; k >= first; k -= step) found.push(10 ** k);
    if (found.length > 2 || (scale === "symlog" && found.length)) return found.reverse();
    for (const k of [first - 1, ...found.map(Math.log10).map(Math.round)]) for (const n of [2, 5]) if (n * 10 ** k >= from && n * 10 ** k <= to) found.push(n * 10 ** k);
    return [...new Set(found)].sort((a, b) => a - b);
  };
  const up = side(Math.max(low, 0), high);
  if (scale === "log") return up;
  return [...side(Math.max(-high, 0), -low).map((v) => -v).reverse(), ...(low <= 0 && high >= 0 ? [0] : []), ...up];
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 1000 as 1000, 1e6 as 10⁶. */
function power(v) {
  const k = Math.log10(Math.abs(v));
  if (v === 0 || Math.abs(k - Math.round(k)) > 1e-9 || (k < 5 && k > -4)) return short(v);
  return `${v < 0 ? "−" : ""}10${[...String(Math.round(k))].map((c) => RAISED[c]).join("")}`;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const DAY = 86400;

/** Round dates; the text of each has as much as tells it from the others. */
function dateTicks(low, high, most, choice, zero) {
  const unit = unitOf(choice);
  const [a, b] = [momentOf(Math.floor(low), choice, zero), momentOf(Math.ceil(high), choice, zero)];
  if (!a || !b) {
    return linearTicks(low + Number(zero), high + Number(zero), most).ticks.map(({ v, text }) => ({ v: v - Number(zero), text }));
  }
  const seconds = ((high - low) * Number(unit)) / 1e18;
  const least = seconds / Math.max(1, most);
  const found = [];
  const push = (atto, step) => {
    const v = ratio(atto - zero * unit, unit);
    if (v < low || v > high) return;
    const ms = atto >= 0n ? atto / 10n ** 15n : -((-atto + 10n ** 15n - 1n) / 10n ** 15n);
    found.push({ v, text: dateText({ ms: Number(ms), atto: atto - ms * 10n ** 15n }, step) });
  };
  if (least > 7 * DAY) {
    // Months and years differ in length.
    const months = [1, 2, 3, 6].find((n) => n * 30 * DAY >= least) ?? 12 * Math.max(1, niceStep(least / (365.25 * DAY)));
    const first = new Date(a.ms);
    let at = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
    for (let n = 0; n < 60; n += 1, at += months) {
      const date = new Date(0);
      date.setUTCFullYear(Math.floor(at / 12), ((at % 12) + 12) % 12, 1);
      if (!(date.getTime() <= b.ms)) break;
      push(BigInt(date.getTime()) * 10n ** 15n, months >= 12 ? 366 * DAY : 28 * DAY);
    }
    return found;
  }
  const step = least > 0.5 ? STEPS.find((n) => n >= least) ?? 7 * DAY : niceStep(least);
  const stride = BigInt(Math.max(1, Math.round(step * 1e15))) * 1000n;
  const begin = BigInt(a.ms) * 10n ** 15n + a.atto;
  // Weeks begin on Mondays; 1970 began on a Thursday.
  const shift = step === 7 * DAY ? 4n * 86400n * 10n ** 18n : 0n;
  let at = ((begin - shift) / stride) * stride + shift;
  while (at > begin) at -= stride;
  for (let n = 0; n < 60 && ratio(at - zero * unit, unit) <= high; n += 1, at += stride) push(at, step);
  return found;
}

/** Shorten dates that have a day in common; return the texts and the day. */
export function withoutDay(ticks) {
  const days = new Set(ticks.map(({ text }) => text.slice(0, 10)));
  const isInADay = ticks.length > 1 && days.size === 1 && ticks.every(({ text }) => /^\d{4}-\d\d-\d\d \d/.test(text));
  return isInADay ? { ticks: ticks.map((one) => ({ ...one, text: one.text.slice(11) })), offset: [...days][0] } : { ticks, offset: "" };
}
