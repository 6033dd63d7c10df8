// The small drawings: histogram, profile, growth map.

import { FILL_BITS } from "./api.js";
import { cssOf } from "./colours.js";
import { fitted, hatch, ink, sharp } from "./canvas.js";
import { ticks, valueText, wholeTicks } from "./text.js";

const STRIP = 10;

/** A histogram over the colours, with two handles for the range of the colours. */
export class Histogram {
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.data = null;
    this.look = null;
    this.held = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.data) return;
      const x = event.offsetX;
      this.held = Math.abs(x - this.x(this.look.low)) <= Math.abs(x - this.x(this.look.high)) ? "low" : "high";
      canvas.setPointerCapture(event.pointerId);
      this.drag(event, changed);
    });
    canvas.addEventListener("pointermove", (event) => this.held && this.drag(event, changed));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { this.held = null; });
  }

  get ends() {
    // The drawn range: the values' range, extended to handles that are near it.
    const { from, to } = this.data;
    const span = to - from || Math.abs(from) || 1;
    return {
      from: Math.min(from, Math.max(this.look.low, from - span)),
      to: Math.max(to, Math.min(this.look.high, to + span)) || from + span,
    };
  }

  x(value) {
    const { from, to } = this.ends;
    const width = this.canvas.getBoundingClientRect().width - 12;
    return 6 + Math.min(1, Math.max(0, (value - from) / (to - from || 1))) * width;
  }

  drag(event, changed) {
    const { from, to } = this.ends;
    const width = this.canvas.getBoundingClientRect().width - 12;
    const value = from + (Math.min(Math.max(event.offsetX - 6, 0), width) / width) * (to - from);
    if (this.held === "low") changed(Math.min(value, this.look.high), this.look.high);
    else changed(this.look.low, Math.max(value, this.look.low));
  }

  draw(data, look) {
    this.data = data;
    this.look = look;
    const { context, width, height } = sharp(this.canvas);
    const colours = ink();
    if (!data) {
      context.fillStyle = colours.quiet;
      context.textAlign = "center";
      context.fillText("no numbers here", width / 2, height / 2);
      return;
    }
    const base = height - STRIP - 6;
    const greatest = Math.max(...data.counts);
    const n = data.counts.length;
    for (let i = 0; i < n; i += 1) {
      if (!data.counts[i]) continue;
      // Heights are square roots, so that rare values show, too.
      const tall = Math.max(1, Math.sqrt(data.counts[i] / greatest) * (base - 6));
      const a = data.from + ((data.to - data.from) * i) / n;
      const b = data.from + ((data.to - data.from) * (i + 1)) / n;
      const middle = (a + b) / 2;
      context.fillStyle = middle < look.low || middle > look.high ? colours.line : colours.quiet;
      const left = this.x(a);
      context.fillRect(left, base - tall, Math.max(1, this.x(b) - left - (n < 60 ? 1 : 0)), tall);
    }
    const [low, high] = [this.x(look.low), this.x(look.high)];
    for (let x = 6; x < width - 6; x += 1) {
      context.fillStyle = cssOf(look.map, high > low ? (x - low) / (high - low) : 0.5);
      context.fillRect(x, height - STRIP - 2, 1.5, STRIP);
    }
    context.strokeStyle = colours.accent;
    context.fillStyle = colours.accent;
    context.lineWidth = 1.5;
    for (const x of [low, high]) {
      context.beginPath();
      context.moveTo(x, 8);
      context.lineTo(x, height - 1);
      context.stroke();
      context.beginPath();
      context.arc(x, 6, 4, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

const LEFT = 76;

/** Values along an axis, through the cursor. */
export class Profile {
  constructor(canvas) {
    this.canvas = canvas;
    this.data = null;
    this.at = 0;
    let held = false;
    const choose = (event) => this.data && this.chosen?.(this.index(event.offsetX));
    canvas.addEventListener("pointerdown", (event) => {
      held = true;
      canvas.setPointerCapture(event.pointerId);
      choose(event);
    });
    canvas.addEventListener("pointermove", (event) => held && choose(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = false; });
  }

  index(x) {
    const width = this.canvas.getBoundingClientRect().width - LEFT - 12;
    const place = Math.floor(((x - LEFT) / width) * this.extent);
    return Math.min(this.extent - 1, Math.max(0, place));
  }

  /** Draw; `data` has numbers, and `step` or their places; `label` returns the text of an index. */
  draw(data, extent, at, choice, label) {
    this.data = data;
    this.extent = extent;
    const { context, width, height } = sharp(this.canvas);
    const colours = ink();
    if (!data || !extent) return;
    const w = width - LEFT - 12;
    const top = 8;
    const bottom = height - 22;
    const n = data.data.length;
    let low = Infinity;
    let high = -Infinity;
    const values = new Float64Array(n);
    for (let i = 0; i < n; i += 1) {
      let x = data.data[i];
      if (data.bits && data.bits[i] === FILL_BITS && data.fill !== null) x = data.fill;
      const v = data.base + data.scale * x;
      values[i] = v;
      if (v - v !== 0) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
    if (low > high) [low, high] = [0, 1];
    if (low === high) { const room = Math.abs(low) * 0.05 || 1; low -= room; high += room; }
    const room = (high - low) * 0.06;
    low -= room;
    high += room;
    const x = (i) => LEFT + ((i + 0.5) / extent) * w;
    const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    context.font = context.font.replace(/^\d+px/, "11px");
    context.textBaseline = "middle";
    context.textAlign = "right";
    const upright = ticks(low, high, 6);
    const inADay = choice.kind === "datetime" && valueText(low, choice).slice(0, 10) === valueText(high, choice).slice(0, 10);
    for (const v of upright.ticks) {
      context.fillStyle = colours.line;
      context.fillRect(LEFT, Math.round(y(v)), w, 1);
      context.fillStyle = colours.quiet;
      const text = valueText(v, choice, 6);
      context.fillText(fitted(context, inADay ? text.slice(11) || "00:00:00" : text.slice(0, 40), LEFT - 10), LEFT - 6, y(v));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    let free = LEFT - 20;
    for (const i of wholeTicks(0, extent - 1, Math.max(1, Math.floor(w / 96)))) {
      const text = fitted(context, label(i) ?? String(i), 110);
      const half = context.measureText(text).width / 2;
      if (x(i) - half < free || x(i) + half > width) continue;
      free = x(i) + half + 8;
      context.fillText(text, x(i), bottom + 7);
    }
    // Draw the cursor below the line.
    context.strokeStyle = colours.cross;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(at), top - 4);
    context.lineTo(x(at), bottom + 3);
    context.stroke();
    context.strokeStyle = colours.accent;
    context.fillStyle = colours.accent;
    context.lineWidth = 1.4;
    context.lineJoin = "round";
    context.beginPath();
    let drawing = false;
    const hasDots = n <= w / 5;
    for (let i = 0; i < n; i += 1) {
      const v = values[i];
      if (v - v !== 0) { drawing = false; continue; }
      const px = x(data.places ? data.places[i] : i * data.step);
      const isAlone = !drawing && !(values[i + 1] - values[i + 1] === 0);
      if (drawing) context.lineTo(px, y(v));
      else context.moveTo(px, y(v));
      drawing = true;
      if (hasDots || isAlone) context.fillRect(px - 1.5, y(v) - 1.5, 3, 3);
    }
    context.stroke();
  }
}

/** Draw chunks as the server has laid them out; x and y place chunk indices on the canvas. */
export function drawChunks(context, map, x, y, { faint, addresses, edges }) {
  const colours = ink();
  const [height, width] = map.shape;
  const [r0, rs] = map.rows ?? [0, 1];
  const [c0, cs] = map.columns;
  const across = (cell) => x(c0 + cell * cs);
  const down = (cell) => y(r0 + cell * rs);
  context.save();
  context.globalAlpha = faint ? 0.32 : 1;
  for (let k = 0; k < map.rectangles.length; k += 4) {
    const [top, bottom, left, right] = map.rectangles.subarray(k, k + 4);
    context.fillStyle = map.segments[map.owners[top * width + left]].colour;
    context.fillRect(across(left), down(top), across(right) - across(left) + 0.3, down(bottom) - down(top) + 0.3);
  }
  context.globalAlpha = 1;
  const cell = Math.min((across(width) - across(0)) / width, (down(height) - down(0)) / height);
  if (cell >= 4) strokeLines(context, map.thin, across, down, "rgba(255 255 255 / .75)", 0.8);
  strokeLines(context, map.heavy, across, down, edges ?? colours.ink, 1.4);
  if (!faint) {
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(across(0), down(0), across(width) - across(0), down(height) - down(0));
    for (const [top, bottom, left, right] of map.outside) {
      context.fillStyle = "rgba(255 255 255 / .72)";
      context.fillRect(across(left), down(top), across(right) - across(left), down(bottom) - down(top));
      context.fillStyle = hatch(context);
      context.fillRect(across(left), down(top), across(right) - across(left), down(bottom) - down(top));
    }
  }
  if (map.frozen && cell >= 8) markFrozen(context, map, cell, across, down);
  if (addresses && rs === 1 && cs === 1) drawAddresses(context, map, cell, across, down, faint);
  context.restore();
}

function strokeLines(context, lines, across, down, colour, thick) {
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.beginPath();
  for (let k = 0; k < lines.length; k += 4) {
    const [top, bottom, left, right] = lines.subarray(k, k + 4);
    context.moveTo(across(left), down(top));
    context.lineTo(across(right), down(bottom));
  }
  context.stroke();
}

/** Mark frozen chunks by a corner. */
function markFrozen(context, map, cell, across, down) {
  const width = map.shape[1];
  const side = Math.min(7, cell / 3);
  context.fillStyle = "rgba(26 26 26 / .7)";
  context.beginPath();
  map.frozen.forEach((is, k) => {
    if (!is) return;
    const [x, y] = [across((k % width) + 1), down(Math.floor(k / width) + 1)];
    context.moveTo(x, y);
    context.lineTo(x - side, y);
    context.lineTo(x, y - side);
  });
  context.fill();
}

/** Write addresses into cells that are large enough. */
function drawAddresses(context, map, cell, across, down, faint) {
  const colours = ink();
  const [height, width] = map.shape;
  const digits = String(map.addresses.reduce((a, b) => Math.max(a, b))).length;
  const size = Math.min(13, cell * 0.4, (cell * 0.85) / (0.6 * digits));
  if (size < 7) return;
  context.font = context.font.replace(/^(\d|\.)+px/, `${size}px`);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < height; i += 1) {
    for (let j = 0; j < width; j += 1) {
      if (map.addresses[i * width + j] < 0) continue; // its elements have not come
      const text = String(map.addresses[i * width + j]);
      const [left, right, top, bottom] = [across(j), across(j + 1), down(i), down(i + 1)];
      if (0.62 * size * text.length > right - left || size > bottom - top) continue;
      if (faint) {
        // Over the picture, where the parts of chunks outside the bounds are not seen.
        context.lineWidth = 3;
        context.strokeStyle = colours.halo;
        context.strokeText(text, (left + right) / 2, (top + bottom) / 2);
        context.fillStyle = colours.ink;
        context.fillText(text, (left + right) / 2, (top + bottom) / 2);
      } else {
        const { ink: readable } = map.segments[map.owners[i * width + j]];
        context.fillStyle = map.inside[i * width + j] ? readable : "#1a1a1a"; // hatched: almost white
        context.fillText(text, across(map.x[j]), down(map.y[i]));
      }
    }
  }
}

/** The growth map of the plane, small. */
export class GrowthChart {
  constructor(canvas, pointed) {
    this.canvas = canvas;
    this.map = null;
    canvas.addEventListener("pointermove", (event) => pointed(this.cell(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => pointed(null));
    canvas.addEventListener("click", (event) => {
      const cell = this.cell(event.offsetX, event.offsetY);
      if (cell) this.chosen?.(cell);
    });
  }

  get box() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const [rows, columns] = this.total;
    const side = Math.min(width / columns, height / rows);
    let [w, h] = [side * columns, side * rows];
    // Cells of long grids need not be square.
    if (w < 40) w = Math.min(width, 40);
    if (h < 24) h = Math.min(height, 24);
    return { x: (width - w) / 2, y: (height - h) / 2, w, h };
  }

  cell(px, py) {
    if (!this.map) return null;
    const { x, y, w, h } = this.box;
    const [rows, columns] = this.total;
    const column = Math.floor(((px - x) / w) * columns);
    const row = Math.floor(((py - y) / h) * rows);
    if (row < 0 || column < 0 || row >= rows || column >= columns) return null;
    const [r0, rs] = this.map.rows ?? [0, 1];
    const [c0, cs] = this.map.columns;
    const k = Math.floor((row - r0) / rs) * this.map.shape[1] + Math.floor((column - c0) / cs);
    return {
      row, column, address: this.map.addresses[k], segment: this.map.segments[this.map.owners[k]],
      frozen: this.map.frozen?.[k],
    };
  }

  draw(map, total, here) {
    this.map = map;
    this.total = total;
    const { context } = sharp(this.canvas);
    if (!map) return;
    const { x, y, w, h } = this.box;
    const [rows, columns] = total;
    const px = (c) => x + (Math.min(c, columns) / columns) * w;
    const py = (r) => y + (Math.min(r, rows) / rows) * h;
    drawChunks(context, map, px, py, { addresses: true, edges: "#1a1a1a" });
    context.strokeStyle = ink().cross;
    context.lineWidth = 2;
    context.strokeRect(px(here.column), py(here.row), Math.max(2, px(here.column + 1) - px(here.column)), Math.max(2, py(here.row + 1) - py(here.row)));
  }
}
