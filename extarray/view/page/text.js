// Texts of numbers, dates and places.

const SECONDS = {
  W: 604800, D: 86400, h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, μs: 1e-6, ns: 1e-9, ps: 1e-12, fs: 1e-15, as: 1e-18,
};

/** A number in few characters. */
export function short(x, digits = 5) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-4) return x.toExponential(Math.max(0, digits - 3)).replace("e+", "e").replace("-", "−").replace("e-", "e−");
  if (Number.isInteger(x)) return String(x).replace("-", "−");
  return String(Number(x.toPrecision(digits))).replace("-", "−");
}

/** A value of a choice (its kind and unit) in few characters. */
export function valueText(x, choice, digits) {
  if (choice.kind === "datetime" && Number.isFinite(x)) {
    const [count, unit] = choice.unit.split(" ");
    const moment = new Date(x * Number(count) * SECONDS[unit] * 1000);
    if (Number.isNaN(moment.getTime())) return short(x, digits);
    const text = moment.toISOString().replace(/\.000Z$|Z$/, "").replace("T", " ");
    return text.replace(/ 00:00:00$/, "").replace(/^\+?0*(?=\d{4})/, "");
  }
  if (choice.kind === "timedelta") return `${short(x, digits)} ${choice.unit.replace(/^1 /, "")}`;
  return short(x, digits);
}

/** Parse a user's input; NaN: no value. */
export function parse(text, choice) {
  const plain = text.trim().replace(/−/g, "-").replace("∞", "Infinity");
  if (plain === "") return NaN;
  if (choice.kind === "datetime") {
    const [count, unit] = choice.unit.split(" ");
    const ms = Date.parse(/\d:\d/.test(plain) ? `${plain.replace(" ", "T")}Z` : plain);
    return ms / 1000 / (Number(count) * SECONDS[unit]);
  }
  const number = Number(choice.kind === "timedelta" ? plain.replace(/ .*/, "") : plain);
  return Number.isFinite(number) ? number : NaN;
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

/** Nice numbers from `from` to `to`. */
export function ticks(from, to, most) {
  const step = niceStep((to - from) / Math.max(1, most));
  const found = [];
  for (let k = Math.ceil(from / step); k * step <= to * (1 + 1e-12) && found.length < 50; k += 1) found.push(k * step);
  return { step, ticks: found };
}

/** 1234567 with thin spaces. */
export function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, " ");
}
