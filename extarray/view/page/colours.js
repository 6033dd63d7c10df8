// Colour maps, and painting numbers as pixels.

import { FILL_BITS } from "./api.js";
import { scaleOf } from "./scales.js";

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

/** A place of 0...1 among the colours for a value; NaN: the value has none. */
export function placeOf(look) {
  const { to } = scaleOf(look);
  const [low, high] = [to(look.low), to(look.high)];
  return (v) => (high > low ? (to(v) - low) / (high - low) : 0.5);
}

/** Give a canvas the size of a frame; return its pixels, if there are any, and counts to fill in. */
function blank(canvas, frame) {
  const [height, width] = frame.shape;
  canvas.width = width;
  canvas.height = height;
  const found = { nan: 0, fill: 0, none: 0 };
  if (!width || !height) return { found };
  const context = canvas.getContext("2d");
  return { found, context, image: context.createImageData(width, height) };
}

/** Paint a frame on a canvas of its size; return the counts of NaN, the fill value, and numbers without a logarithm. */
export function paint(canvas, frame, look) {
  const { found, context, image } = blank(canvas, frame);
  if (!image) return found;
  const out = new Uint32Array(image.data.buffer);
  const table = pixelsOf(look.map);
  const { data, bits, base, scale } = frame;
  const isLabels = look.map === "Labels";
  const place = placeOf(look);
  const colourOf = (x) => {
    if (isLabels) return table[(((Math.round(base + scale * x) % LABELS) + LABELS) % LABELS)];
    const i = place(base + scale * x) * N;
    if (i !== i) return NOTHING;
    return table[i <= 0 ? 0 : i >= N ? N - 1 : i | 0];
  };
  const fillPixel = look.fill ? TINT : frame.fill === null ? NOTHING : colourOf(frame.fill);
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
      if (v === mark) found.fill += 1;
      else if (pixels[v] === NOTHING) found.none += 1;
      out[i] = pixels[v];
    }
  } else if (isLabels || look.scale !== "linear") {
    for (let i = 0; i < data.length; i += 1) {
      if (bits[i] === FILL_BITS) { out[i] = fillPixel; found.fill += 1; }
      else if (data[i] !== data[i]) found.nan += 1;
      else if ((out[i] = colourOf(data[i])) === NOTHING) found.none += 1;
    }
  } else {
    const low = (look.low - base) / scale;
    const high = (look.high - base) / scale;
    const k = high > low ? N / (high - low) : 0;
    for (let i = 0; i < data.length; i += 1) {
      const x = data[i];
      if (x === x) {
        const p = (x - low) * k;
        out[i] = table[p <= 0 ? 0 : p >= N ? N - 1 : p | 0];
      } else if (bits[i] === FILL_BITS) { out[i] = fillPixel; found.fill += 1; } else found.nan += 1;
    }
  }
  // The fill value may be a number without a logarithm, such as zero.
  if (!look.fill && frame.fill !== null && fillPixel === NOTHING) found.none += found.fill;
  context.putImageData(image, 0, 0);
  return found;
}

/** Numbers of a layer as parts of 0...1, a function of their place in the data. */
function partsOf(frame, layer) {
  const n = frame.shape[0] * frame.shape[1];
  const data = frame.data.subarray(layer.k * n, (layer.k + 1) * n);
  const place = placeOf(layer.look);
  const clamp = (t) => (t <= 0 ? 0 : t >= 1 ? 1 : t);
  const isInside = !frame.bits && frame.fill !== null && layer.look.fill;
  const part = (x) => (isInside && x === frame.fill ? NaN : clamp(place(frame.base + frame.scale * x)));
  if (frame.bits) {
    const fill = frame.fill !== null && !layer.look.fill ? part(frame.fill) : NaN;
    const bits = frame.bits.subarray(layer.k * n, (layer.k + 1) * n);
    return (i) => (data[i] === data[i] ? part(data[i]) : bits[i] === FILL_BITS ? fill : NaN);
  }
  const low = data instanceof Int8Array ? -128 : data instanceof Int16Array ? -32768 : 0;
  const parts = Float32Array.from({ length: data.BYTES_PER_ELEMENT === 1 ? 256 : 65536 }, (_, i) => part(i + low));
  return (i) => parts[data[i] - low];
}

/** Add layers of a frame, each in its colour; one may be the opacity. */
export function mix(canvas, frame, layers) {
  const { found, context, image } = blank(canvas, frame);
  if (!image) return found;
  const out = image.data; // rounds, and ends at 255
  const n = image.width * image.height;
  const seen = new Uint8Array(n);
  const sums = new Float32Array(3 * n);
  for (const layer of layers.filter((one) => !one.isAlpha)) {
    const part = partsOf(frame, layer);
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(layer.colour.slice(i, i + 2), 16));
    for (let i = 0; i < n; i += 1) {
      const t = part(i);
      if (t !== t) continue;
      seen[i] = 1;
      sums[3 * i] += t * r;
      sums[3 * i + 1] += t * g;
      sums[3 * i + 2] += t * b;
    }
  }
  const alpha = layers.find((one) => one.isAlpha);
  const opacity = alpha ? partsOf(frame, alpha) : () => 1;
  for (let i = 0; i < n; i += 1) {
    if (!seen[i]) { found.nan += 1; continue; }
    out[4 * i] = sums[3 * i];
    out[4 * i + 1] = sums[3 * i + 1];
    out[4 * i + 2] = sums[3 * i + 2];
    out[4 * i + 3] = 255 * (opacity(i) || 0);
  }
  context.putImageData(image, 0, 0);
  return found;
}

const BINS = 128;
const MOST = 1 << 20;

/** Least and greatest, percentiles, and a histogram of the numbers of a frame, on a scale. */
export function summary(frame, look) {
  const { data, bits, base, scale } = frame;
  const step = Math.max(1, Math.ceil(data.length / MOST));
  const fillInside = !bits && frame.fill !== null && look.fill;
  const isLog = look.scale === "log";
  const shift = Number(frame.zero);
  let low = Infinity;
  let high = -Infinity;
  const known = new Float64Array(Math.ceil(data.length / step));
  let n = 0;
  for (let i = 0; i < data.length; i += 1) {
    let x = data[i];
    if (x !== x && !look.fill && frame.fill !== null && bits[i] === FILL_BITS) x = frame.fill;
    if (x - x !== 0 || (fillInside && x === frame.fill)) continue;
    x = base + scale * x;
    // Numbers without a logarithm have no place in the range.
    if (isLog && !(x + shift > 0)) continue;
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
  const at = (p) => few[Math.min(few.length - 1, Math.floor(p * few.length))];
  // The symmetric logarithm is linear up to about the smallest sizes, which are then told apart.
  const sizes = few.map((x) => Math.abs(x + shift)).filter((x) => x > 0).sort();
  const largest = Math.max(Math.abs(low + shift), Math.abs(high + shift));
  const small = sizes.length ? Math.max(sizes[Math.floor(0.05 * sizes.length)], largest * 1e-12) : 1;
  const counted = { low, high, p1: at(0.01), p99: at(0.99), small, n: n * step };
  // Bins are as wide as each other on the scale.
  const { to, from } = scaleOf({ scale: look.scale, zero: frame.zero, linear: look.linear ?? 10 ** Math.floor(Math.log10(small)) });
  const isWhole = look.scale === "linear" && frame.code !== "f4" && high - low < BINS;
  const bins = isWhole ? high - low + 1 : BINS;
  const [a, b] = isWhole ? [low - 0.5, high + 0.5] : [to(low), to(high)];
  const counts = new Float64Array(bins);
  const k = b > a ? bins / (b - a) : 0;
  for (let i = 0; i < n; i += 1) counts[Math.max(0, Math.min(bins - 1, Math.floor((to(values[i]) - a) * k)))] += 1;
  const edges = Float64Array.from({ length: bins + 1 }, (_, i) => from(a + ((b - a) * i) / bins));
  return { ...counted, from: isWhole ? a : low, to: isWhole ? b : high, counts, edges };
}
