// Colour maps, and painting numbers as pixels.

import { FILL_BITS } from "./api.js";

// A few colours each, of rising lightness in maps for amounts; interpolated in OKLab.
const ANCHORS = {
  Dusk: ["#20124d", "#3a4c8b", "#287a8e", "#35a37c", "#86c854", "#f0d649"],
  Ember: ["#0b0716", "#4a1060", "#a12a5e", "#e2613f", "#f9b257", "#fdf6d8"],
  Ice: ["#06182a", "#164a7c", "#4a8fc0", "#a3cfe6", "#f2faff"],
  Grey: ["#080808", "#f8f8f8"],
  Divide: ["#1f4e8c", "#7fb0d6", "#f3f1ed", "#e2956f", "#98302a"],
  Circle: null,
  Labels: null,
};

export const MAPS = Object.keys(ANCHORS);
const N = 256;
const LABELS = 12;

function toLab(hex) {
  const rgb = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const [r, g, b] = rgb;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function toPixel([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const rgb = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => {
    const v = c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, v)));
  });
  return (0xff000000 | (rgb[2] << 16) | (rgb[1] << 8) | rgb[0]) >>> 0;
}

const made = new Map();

/** The 256 pixels of a map. */
export function pixelsOf(name) {
  if (!made.has(name)) {
    const table = new Uint32Array(N);
    if (name === "Circle") {
      for (let i = 0; i < N; i += 1) {
        const h = (2 * Math.PI * i) / N;
        table[i] = toPixel([0.72, 0.12 * Math.cos(h), 0.12 * Math.sin(h)]);
      }
    } else if (name === "Labels") {
      for (let i = 0; i < N; i += 1) {
        const k = i % LABELS;
        const h = k * 2.399963;
        table[i] = toPixel([0.55 + 0.09 * (k % 3), 0.13 * Math.cos(h), 0.13 * Math.sin(h)]);
      }
    } else {
      const anchors = ANCHORS[name].map(toLab);
      for (let i = 0; i < N; i += 1) {
        const place = (i / (N - 1)) * (anchors.length - 1);
        const k = Math.min(Math.floor(place), anchors.length - 2);
        const t = place - k;
        table[i] = toPixel(anchors[k].map((c, j) => c + (anchors[k + 1][j] - c) * t));
      }
    }
    made.set(name, table);
  }
  return made.get(name);
}

/** A CSS colour of a map at 0...1. */
export function cssOf(name, t) {
  const pixel = pixelsOf(name)[Math.min(N - 1, Math.max(0, Math.round(t * (N - 1))))];
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}

const NOTHING = 0; // transparent: the hatching below shows
const TINT = ((0x80 << 24) | (52 << 16) | (142 << 8) | 214) >>> 0;

/** Paint a frame on a canvas of its size; return the counts of NaN and of the fill value. */
export function paint(canvas, frame, look) {
  const [height, width] = frame.shape;
  canvas.width = width;
  canvas.height = height;
  if (!width || !height) return { nan: 0, fill: 0 };
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  const table = pixelsOf(look.map);
  const low = (look.low - frame.base) / frame.scale;
  const high = (look.high - frame.base) / frame.scale;
  const k = high > low ? N / (high - low) : 0;
  const { data, bits } = frame;
  const isLabels = look.map === "Labels";
  const colourOf = (x) => {
    if (isLabels) return table[(((Math.round(frame.base + frame.scale * x) % LABELS) + LABELS) % LABELS)];
    const i = (x - low) * k;
    return table[i <= 0 ? 0 : i >= N ? N - 1 : i | 0];
  };
  const fillPixel = look.fill ? TINT : frame.fill === null ? NOTHING : colourOf(frame.fill);
  let nan = 0;
  let fill = 0;
  if (!bits) {
    // Few distinct numbers: look up a pixel for each.
    const bytes = data.BYTES_PER_ELEMENT;
    const size = bytes === 1 ? 256 : 65536;
    const kind = bytes === 1 ? Uint8Array : Uint16Array;
    const signed = data instanceof Int8Array || data instanceof Int16Array;
    const pixels = new Uint32Array(size);
    for (let i = 0; i < size; i += 1) pixels[i] = colourOf(signed && i >= size / 2 ? i - size : i);
    let mark = -1;
    if (frame.fill !== null) {
      mark = frame.fill & (size - 1);
      pixels[mark] = fillPixel;
    }
    const raw = new kind(data.buffer, data.byteOffset, data.length);
    for (let i = 0; i < raw.length; i += 1) {
      const v = raw[i];
      if (v === mark) fill += 1;
      out[i] = pixels[v];
    }
  } else if (isLabels) {
    for (let i = 0; i < data.length; i += 1) {
      if (bits[i] === FILL_BITS) { out[i] = fillPixel; fill += 1; }
      else if (data[i] !== data[i]) nan += 1;
      else out[i] = colourOf(data[i]);
    }
  } else {
    for (let i = 0; i < data.length; i += 1) {
      const x = data[i];
      if (x === x) {
        const p = (x - low) * k;
        out[i] = table[p <= 0 ? 0 : p >= N ? N - 1 : p | 0];
      } else if (bits[i] === FILL_BITS) { out[i] = fillPixel; fill += 1; } else nan += 1;
    }
  }
  context.putImageData(image, 0, 0);
  return { nan, fill };
}

const BINS = 128;
const MOST = 1 << 20;

/** Least and greatest, percentiles, and a histogram of the numbers of a frame. */
export function summary(frame, withoutFill) {
  const { data, bits, base, scale } = frame;
  const step = Math.max(1, Math.ceil(data.length / MOST));
  const fillInside = !bits && frame.fill !== null && withoutFill;
  let low = Infinity;
  let high = -Infinity;
  const known = new Float64Array(Math.ceil(data.length / step));
  let n = 0;
  for (let i = 0; i < data.length; i += 1) {
    let x = data[i];
    if (x !== x && !withoutFill && frame.fill !== null && bits[i] === FILL_BITS) x = frame.fill;
    if (x - x !== 0 || (fillInside && x === frame.fill)) continue;
    // The ends are those of all numbers; a part of them is enough for the histogram.
    if (x < low) low = x;
    if (x > high) high = x;
    if (i % step) continue;
    known[n] = x;
    n += 1;
  }
  if (low > high) return null;
  if (n === 0) { known[0] = low; n = 1; }
  const values = known.subarray(0, n);
  const few = new Float64Array(Math.min(n, 20000));
  for (let i = 0; i < few.length; i += 1) few[i] = values[Math.floor((i * n) / few.length)];
  few.sort();
  const at = (p) => base + scale * few[Math.min(few.length - 1, Math.floor(p * few.length))];
  const whole = frame.code !== "f4" && high - low < BINS;
  const bins = whole ? high - low + 1 : BINS;
  const counts = new Float64Array(bins);
  const k = whole ? 1 : high > low ? BINS / (high - low) : 0;
  for (let i = 0; i < n; i += 1) counts[Math.min(bins - 1, Math.floor((values[i] - low) * k))] += 1;
  const shift = whole ? 0.5 : 0;
  return {
    low: base + scale * low,
    high: base + scale * high,
    p1: at(0.01),
    p99: at(0.99),
    from: base + scale * (low - shift),
    to: base + scale * (high + shift),
    counts,
    n: n * step,
  };
}
