// Texts of numbers, dates and places.

// Values may be relative to a `zero`, a whole number of any size (a BigInt): doubles tell neither
// large integers nor the nanoseconds of a date apart.

const ATTO = {
  W: 604800n * 10n ** 18n, D: 86400n * 10n ** 18n, h: 3600n * 10n ** 18n, m: 60n * 10n ** 18n, s: 10n ** 18n,
  ms: 10n ** 15n, us: 10n ** 12n, μs: 10n ** 12n, ns: 10n ** 9n, ps: 10n ** 6n, fs: 1000n, as: 1n,
};
const MILLI = 10n ** 15n;
const LAST = 8640000000000000n; // ms, the last moment of JavaScript's calendar

/** A number in few characters. */
export function short(x, digits = 5) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-4) return x.toExponential(Math.max(0, digits - 3)).replace(/\.?0*e/, "e").replace("e+", "e").replace("-", "−").replace("e-", "e−");
  if (Number.isInteger(x)) return String(x).replace("-", "−");
  return String(Number(x.toPrecision(digits))).replace("-", "−");
}

/** A unit of dates and durations, in attoseconds. */
export function unitOf(choice) {
  const [count, unit] = choice.unit.split(" ");
  return ATTO[unit] ? BigInt(count) * ATTO[unit] : null;
}

const floorDivide = (a, b) => (a >= 0n ? a / b : -((-a + b - 1n) / b));
const whole = (x) => (Number.isFinite(x) ? BigInt(Math.round(x)) : 0n);

/** The milliseconds since 1970 of a date, and the attoseconds beyond; null: out of the calendar. */
export function momentOf(x, choice, zero = 0n) {
  const unit = unitOf(choice);
  if (unit === null || !Number.isFinite(x)) return null;
  const atto = (zero + whole(x)) * unit;
  const ms = floorDivide(atto, MILLI);
  return ms > LAST || ms < -LAST ? null : { ms: Number(ms), atto: atto - ms * MILLI };
}

/** A date as far as `seconds`, the distance between two dates to tell apart; 0: in full. */
export function dateText({ ms, atto }, seconds = 0) {
  const [day, time] = new Date(ms).toISOString().replace(/^\+?(?=\d)/, "").replace(/^00(?=\d{4}-)/, "").slice(0, -1).split("T");
  if (seconds >= 360 * 86400) return day.replace(/-\d\d-\d\d$/, "");
  if (seconds >= 27 * 86400) return day.replace(/-\d\d$/, "");
  if (seconds >= 86400) return day;
  if (seconds >= 60) return `${day} ${time.slice(0, 5)}`;
  const fraction = (time.slice(9) + String(atto).padStart(15, "0")).replace(/0+$/, "");
  if (seconds > 0) {
    const digits = Math.max(0, Math.ceil(-Math.log10(seconds) - 1e-9));
    return `${day} ${time.slice(0, 8)}${digits ? `.${fraction.padEnd(digits, "0").slice(0, digits)}` : ""}`;
  }
  if (!fraction && time.startsWith("00:00:00")) return day;
  return `${day} ${time.slice(0, fraction || !time.startsWith("00", 6) ? 8 : 5)}${fraction ? `.${fraction}` : ""}`;
}

/** A value of a choice (its kind and unit) in few characters. */
export function valueText(x, choice, { digits = 5, zero = 0n, seconds = 0 } = {}) {
  if (choice.kind === "datetime" && Number.isFinite(x)) {
    const moment = momentOf(x, choice, zero);
    return moment ? dateText(moment, seconds) : `${short(Number(zero) + x, digits)} × ${choice.unit}`;
  }
  const text = zero && Number.isFinite(x) ? String(zero + whole(x)).replace("-", "−") : short(x, digits);
  return choice.kind === "timedelta" ? `${text} ${choice.unit.replace(/^1 /, "")}` : text;
}

const STEPS = [1e-6, 1e-3, 1, 60, 3600, 86400]; // seconds

/** A value that a float32 has rounded, relative to `zero`, with the digits that it still has. */
export function roundedText(x, choice, zero = 0n) {
  const error = Math.abs(x) * 2 ** -24;
  if ((!zero && choice.kind !== "datetime") || error < 0.5) return valueText(x, choice, { zero });
  const moment = choice.kind === "datetime" ? momentOf(x, choice, zero) : null;
  if (!moment) return valueText(Number(zero) + x, choice);
  const seconds = (error * Number(unitOf(choice))) / 1e18;
  const step = STEPS.find((one) => one >= 2 * seconds) ?? 86400;
  const half = BigInt(step * 1e6) * 10n ** 12n / 2n;
  const atto = floorDivide(BigInt(moment.ms) * MILLI + moment.atto + half, 2n * half) * 2n * half;
  const ms = floorDivide(atto, MILLI);
  return dateText({ ms: Number(ms), atto: atto - ms * MILLI });
}

/** Parse a user's input, relative to `zero`; NaN: no value. */
export function parse(text, choice, zero = 0n) {
  const plain = text.trim().replace(/−/g, "-").replace("∞", "Infinity");
  if (plain === "") return NaN;
  if (choice.kind === "datetime") {
    const unit = unitOf(choice);
    const [, head, fraction] = plain.match(/^(.*?\d:\d\d(?::\d\d)?)(?:\.(\d{1,18}))?Z?$/) ?? [null, plain, ""];
    const ms = Date.parse(/\d:\d/.test(head) ? `${head.replace(" ", "T")}Z` : head);
    if (unit === null || Number.isNaN(ms)) return NaN;
    return ratio(BigInt(ms) * MILLI + BigInt((fraction ?? "").padEnd(18, "0")) - zero * unit, unit);
  }
  const bare = choice.kind === "timedelta" ? plain.replace(/ .*/, "") : plain.replace(/(?<=\d) (?=\d)/g, "");
  if (zero && /^[-+]?\d+$/.test(bare)) return Number(BigInt(bare) - zero);
  const number = Number(bare) - Number(zero);
  return Number.isFinite(number) ? number : NaN;
}

/** A quotient of BigInts, as a double. */
export function ratio(a, b) {
  const n = a / b;
  return Number(n) + Number(a - n * b) / Number(b);
}

/** 1234567 with thin spaces. */
export function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, " ");
}

const SIGNS = { degrees_north: "°N", degree_north: "°N", degrees_east: "°E", degree_east: "°E", degrees: "°", degree: "°", degC: "°C", celsius: "°C", Celsius: "°C" };

/** Units as they are written beside numbers. */
export const unitText = (units) => SIGNS[units] ?? units;
