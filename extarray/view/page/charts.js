// The small drawings: histogram, profile, growth map.

import { cssOf } from "./colours.js";
import { fitted, hatch, ink, sharp } from "./canvas.js";
import { drawLine, drawValueAxis, endsOf, valuesOf } from "./lines.js";
import { scaleOf, valueTicks, withoutDay } from "./scales.js";

const STRIP = 10;
const TICKS = 16;

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

  /** The drawn range on the scale: that of the values, extended to handles that are near it. */
  get ends() {
    const { to } = scaleOf(this.look);
    const [first, last] = [to(this.data.from), to(this.data.to)];
    const span = last - first || Math.abs(first) || 1;
    const [low, high] = [to(this.look.low), to(this.look.high)];
    return {
      from: Math.min(first, Math.max(Number.isNaN(low) ? first : low, first - span)),
      to: Math.max(last, Math.min(Number.isNaN(high) ? last : high, last + span)),
    };
  }

  x(value) {
    const { from, to } = this.ends;
    const width = this.canvas.getBoundingClientRect().width - 12;
    const place = (scaleOf(this.look).to(value) - from) / (to - from || 1);
    return 6 + Math.min(1, Math.max(0, place || 0)) * width;
  }

  drag(event, changed) {
    const { from, to } = this.ends;
    const width = this.canvas.getBoundingClientRect().width - 12;
    const place = from + (Math.min(Math.max(event.offsetX - 6, 0), width) / width) * (to - from);
    const value = scaleOf(this.look).from(place);
    if (this.held === "low") changed(Math.min(value, this.look.high), this.look.high);
    else changed(this.look.low, Math.max(value, this.look.low));
  }

  draw(data, look, choice) {
    this.data = data;
    this.look = look;
    const { context, width, height } = sharp(this.canvas);
    const colours = ink();
    if (!data) {
      context.fillStyle = colours.quiet;
      context.textAlign = "center";
      context.fillText(look.scale === "log" ? "no positive numbers here" : "no numbers here", width / 2, height / 2);
      return;
    }
    const base = height - STRIP - TICKS - 6;
    const greatest = Math.max(...data.counts);
    const n = data.counts.length;
    for (let i = 0; i < n; i += 1) {
      if (!data.counts[i]) continue;
      // Heights are square roots, so that rare values show, too.
      const tall = Math.max(1, Math.sqrt(data.counts[i] / greatest) * (base - 6));
      const [a, b] = [data.edges[i], data.edges[i + 1]];
      context.fillStyle = b < look.low || a > look.high ? colours.line : colours.quiet;
      const left = this.x(a);
      context.fillRect(left, base - tall, Math.max(1, this.x(b) - left - (n < 60 ? 1 : 0)), tall);
    }
    const [low, high] = [this.x(look.low), this.x(look.high)];
    for (let x = 6; x < width - 6; x += 1) {
      const t = high > low ? (x - low) / (high - low) : 0.5;
      context.fillStyle = look.isPlain ? colours.line : look.colour ? shade(look.colour, t) : cssOf(look.map, t);
      context.fillRect(x, base + 4, 1.5, STRIP);
    }
    this.drawTicks(context, width, base + STRIP + 6, choice);
    context.strokeStyle = colours.accent;
    context.fillStyle = colours.accent;
    context.lineWidth = 1.5;
    for (const x of [low, high]) {
      context.beginPath();
      context.moveTo(x, 8);
      context.lineTo(x, base + STRIP + 5);
      context.stroke();
      context.beginPath();
      context.arc(x, 6, 4, 0, 2 * Math.PI);
      context.fill();
    }
  }

  /** Round values below the colours. */
  drawTicks(context, width, top, choice) {
    if (choice.kind === "text") return;
    const { from, to } = this.ends;
    const place = scaleOf(this.look).from;
    const found = valueTicks(place(from), place(to), choice.kind === "datetime" ? 3 : 5, choice, this.look);
    const day = withoutDay(found.ticks);
    const offset = found.offset || day.offset;
    context.font = context.font.replace(/^\d+px/, "11px");
    context.textBaseline = "top";
    context.fillStyle = ink().quiet;
    let free = 0;
    if (offset) {
      context.textAlign = "left";
      context.fillText(`${offset} `, 2, top);
      free = context.measureText(`${offset}  `).width;
    }
    context.textAlign = "center";
    for (const { v, text } of day.ticks) {
      const half = context.measureText(text).width / 2;
      const x = Math.min(width - half - 1, Math.max(half + 1, this.x(v)));
      if (x - half < free) continue;
      context.fillText(text, x, top);
      free = x + half + 8;
    }
  }
}

/** Draw the bar of the colours beside a saved picture. */
export function drawBar(context, { x, top, bottom, width, room }, look, choice, title) {
  const colours = ink();
  const { to, from } = scaleOf(look);
  const [low, high] = [to(look.low), to(look.high)];
  for (let y = top; y < bottom; y += 1) {
    context.fillStyle = cssOf(look.map, (bottom - y) / (bottom - top));
    context.fillRect(x, y, width, 1.5);
  }
  context.strokeStyle = colours.line;
  context.strokeRect(x - 0.5, top - 0.5, width + 1, bottom - top + 1);
  const found = valueTicks(from(low), from(high), Math.max(2, Math.floor((bottom - top) / 40)), choice, look);
  context.fillStyle = colours.quiet;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const { v, text } of found.ticks) {
    const y = bottom - ((to(v) - low) / (high - low)) * (bottom - top);
    context.fillRect(x + width, y - 0.5, 4, 1);
    context.fillText(fitted(context, text, room), x + width + 7, y);
  }
  context.textAlign = "right";
  context.fillText([title, found.offset].filter(Boolean).join(" · "), x + width + room, top - 16);
}

/** A colour of a channel, from black. */
function shade(colour, t) {
  const part = Math.min(1, Math.max(0, t));
  return `rgb(${[1, 3, 5].map((i) => Math.round(part * parseInt(colour.slice(i, i + 2), 16))).join(" ")})`;
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
    const inside = Math.min(this.extent - 1, Math.max(0, place));
    return this.isFlipped ? this.extent - 1 - inside : inside;
  }

  /**
   * Draw; `data` has numbers, and `step` or their places; `ticks(from, to, most)` returns the ticks
   * of the axis.
   */
  draw(data, extent, at, choice, ticks, look, isFlipped) {
    this.data = data;
    this.extent = extent;
    this.isFlipped = isFlipped;
    const { context, width, height } = sharp(this.canvas);
    const colours = ink();
    if (!data || !extent) return;
    const box = { left: LEFT, right: width - 12, top: 14, bottom: height - 22 };
    const mine = { ...look, zero: data.zero };
    const values = valuesOf(data, true);
    const y = drawValueAxis(context, box, endsOf(values, mine) ?? [look.scale === "log" ? 0.1 : 0, 1], mine, choice, LEFT);
    const x = (i) => LEFT + (((isFlipped ? extent - 1 - i : i) + 0.5) / extent) * (box.right - box.left);
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillStyle = colours.quiet;
    let free = LEFT - 20;
    const found = ticks(0, extent - 1, Math.max(1, Math.floor((box.right - box.left) / 96))).ticks;
    for (const { at: i, text } of isFlipped ? [...found].reverse() : found) {
      const told = fitted(context, text, 110);
      const half = context.measureText(told).width / 2;
      if (x(i) - half < free || x(i) + half > width) continue;
      free = x(i) + half + 8;
      context.fillText(told, x(i), box.bottom + 7);
    }
    // Draw the cursor below the line.
    context.strokeStyle = colours.cross;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(at), box.top - 4);
    context.lineTo(x(at), box.bottom + 3);
    context.stroke();
    drawLine(context, values, (i) => x(data.places ? data.places[i] : i * data.step), y, values.length <= (box.right - box.left) / 5);
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
    const [w, h] = [across(right) - across(left), down(bottom) - down(top)];
    context.fillRect(across(left), down(top), w + 0.3 * Math.sign(w), h + 0.3 * Math.sign(h));
  }
  context.globalAlpha = 1;
  const cell = Math.min(Math.abs(across(width) - across(0)) / width, Math.abs(down(height) - down(0)) / height);
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
    const [column, row] = [k % width, Math.floor(k / width)];
    // The lower right corner, also of flipped axes.
    const [x, y] = [Math.max(across(column), across(column + 1)), Math.max(down(row), down(row + 1))];
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
      const [left, right] = [across(j), across(j + 1)].sort((a, b) => a - b);
      const [top, bottom] = [down(i), down(i + 1)].sort((a, b) => a - b);
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
