// The picture: a plane of elements, its axes, the chunks over it, and the cursor.

import { paint } from "./colours.js";
import { fitted, hatch, ink, sharp } from "./canvas.js";
import { wholeTicks } from "./text.js";

const MARGIN = { left: 76, top: 12, right: 14, bottom: 42 };
const LARGEST = 96; // most pixels per element
const SQUARE = 6; // if one axis is longer by a larger factor, each axis fills the window

export class Picture {
  constructor(stage, base, overlay) {
    this.stage = stage;
    this.base = base;
    this.overlay = overlay;
    this.pixels = document.createElement("canvas");
    this.frame = null;
    this.extents = [1, 1]; // rows, columns
    this.view = null;
    this.fitting = true;
    this.square = null; // null: as the extents suggest
    this.names = ["", ""];
    this.labels = [() => null, () => null];
    this.cursor = null;
    this.hover = null;
    this.chunks = null;
    this.followed = null; // called when the picture or its cursor is drawn anew
  }

  /** The rectangle of the elements, in CSS pixels of the stage. */
  get plot() {
    const { width, height } = this.stage.getBoundingClientRect();
    return {
      x: MARGIN.left,
      y: MARGIN.top,
      w: Math.max(40, width - MARGIN.left - MARGIN.right),
      h: Math.max(40, height - MARGIN.top - MARGIN.bottom),
    };
  }

  get isSquare() {
    if (this.square !== null) return this.square;
    const [rows, columns] = this.extents.map((n) => Math.max(1, n));
    return Math.max(rows / columns, columns / rows) <= SQUARE;
  }

  /** The view that shows the whole plane. */
  whole() {
    const { w, h } = this.plot;
    const [rows, columns] = this.extents.map((n) => Math.max(1, n));
    let sx = w / columns;
    let sy = h / rows;
    if (this.isSquare) sx = sy = Math.min(sx, sy);
    return { sx, sy, c: (columns - w / sx) / 2, r: (rows - h / sy) / 2 };
  }

  /** Show other extents; a view that fitted the plane still fits it. */
  setExtents(rows, columns, reset) {
    this.extents = [rows, columns];
    if (reset) this.fitting = true;
    this.settle();
  }

  fit() {
    this.fitting = true;
    this.settle();
  }

  /** Move the view within its limits. */
  settle() {
    const whole = this.whole();
    if (this.fitting || !this.view) {
      this.view = whole;
      return;
    }
    const { w, h } = this.plot;
    const [rows, columns] = this.extents;
    const view = this.view;
    const grow = Math.max(1, whole.sx / view.sx, whole.sy / view.sy);
    if (this.isSquare && grow > 1 && whole.sx > view.sx && whole.sy > view.sy) {
      this.fitting = true;
      this.view = whole;
      return;
    }
    if (!this.isSquare) {
      view.sx = Math.max(view.sx, whole.sx);
      view.sy = Math.max(view.sy, whole.sy);
    }
    const inside = (at, seen, extent) =>
      seen >= extent ? (extent - seen) / 2 : Math.min(Math.max(at, 0), extent - seen);
    view.c = inside(view.c, w / view.sx, columns);
    view.r = inside(view.r, h / view.sy, rows);
  }

  /** Zoom by a factor about a point of the stage. */
  zoom(factor, x, y) {
    const plot = this.plot;
    const px = x === undefined ? plot.w / 2 : x - plot.x;
    const py = y === undefined ? plot.h / 2 : y - plot.y;
    const view = { ...this.view };
    const whole = this.whole();
    const limit = (s, least) => Math.min(Math.max(s * factor, least), Math.max(LARGEST, least));
    const c = view.c + px / view.sx;
    const r = view.r + py / view.sy;
    view.sx = limit(view.sx, whole.sx);
    view.sy = this.isSquare ? view.sx : limit(view.sy, whole.sy);
    if (view.sx <= whole.sx * 1.0001 && view.sy <= whole.sy * 1.0001) {
      this.fit();
      return;
    }
    this.fitting = false;
    view.c = c - px / view.sx;
    view.r = r - py / view.sy;
    this.view = view;
    this.settle();
  }

  /** The part in view: first row, last row, first column, last column; they may be fractions. */
  seen() {
    const { w, h } = this.plot;
    const { r, c, sx, sy } = this.view;
    return [r, r + h / sy, c, c + w / sx];
  }

  /** Show a part of the plane, as `seen` returns it, as large as it fits. */
  see([top, bottom, left, right]) {
    if (!(bottom > top && right > left)) return;
    const { w, h } = this.plot;
    let sx = w / (right - left);
    let sy = h / (bottom - top);
    if (this.isSquare) sx = sy = Math.min(sx, sy);
    this.fitting = false;
    this.view = { sx, sy, c: (left + right - w / sx) / 2, r: (top + bottom - h / sy) / 2 };
    this.settle();
  }

  pan(dx, dy) {
    if (this.fitting) return;
    this.view.c -= dx / this.view.sx;
    this.view.r -= dy / this.view.sy;
    this.settle();
  }

  /** Scroll an element into view. */
  reveal(row, column) {
    if (this.fitting || !this.view) return false;
    const { w, h } = this.plot;
    const { sx, sy } = this.view;
    const before = `${this.view.c} ${this.view.r}`;
    if (column < this.view.c) this.view.c = column - 1;
    if (column + 1 > this.view.c + w / sx) this.view.c = column + 2 - w / sx;
    if (row < this.view.r) this.view.r = row - 1;
    if (row + 1 > this.view.r + h / sy) this.view.r = row + 2 - h / sy;
    this.settle();
    return before !== `${this.view.c} ${this.view.r}`;
  }

  /** The visible part and its pixels: [start, stop, pixels] of rows and columns. */
  window() {
    const { w, h } = this.plot;
    const ratio = window.devicePixelRatio || 1;
    const { r, c, sx, sy } = this.view;
    const along = (from, seen, extent, scale) => {
      let start = Math.max(0, Math.floor(from));
      let stop = Math.min(extent, Math.ceil(from + seen));
      const pixels = Math.max(1, Math.min(4096, Math.floor((stop - start) * scale * ratio)));
      // Steps begin at multiples, so that scrolling does not change which elements are read.
      const step = Math.max(1, Math.ceil((stop - start) / pixels));
      start -= start % step;
      stop = Math.min(extent, Math.ceil(stop / step) * step);
      return [start, Math.max(stop, start), Math.max(1, Math.ceil((stop - start) / step))];
    };
    return { rows: along(r, h / sy, this.extents[0], sy), columns: along(c, w / sx, this.extents[1], sx) };
  }

  /** The element at a point of the stage, or null. */
  elementAt(x, y) {
    if (!this.view) return null;
    const plot = this.plot;
    const row = Math.floor(this.view.r + (y - plot.y) / this.view.sy);
    const column = Math.floor(this.view.c + (x - plot.x) / this.view.sx);
    const inside = x >= plot.x && y >= plot.y && x < plot.x + plot.w && y < plot.y + plot.h;
    return inside && row >= 0 && column >= 0 && row < this.extents[0] && column < this.extents[1]
      ? { row, column } : null;
  }

  x(column) {
    return this.plot.x + (column - this.view.c) * this.view.sx;
  }

  y(row) {
    return this.plot.y + (row - this.view.r) * this.view.sy;
  }

  setFrame(frame, look) {
    this.frame = frame;
    return this.recolour(look);
  }

  recolour(look) {
    return this.frame ? paint(this.pixels, this.frame, look) : { nan: 0, fill: 0 };
  }

  draw() {
    const { context, width, height } = sharp(this.base);
    const colours = ink();
    if (!this.view) return;
    const plot = this.plot;
    const [rows, columns] = this.extents;
    const left = Math.max(plot.x, this.x(0));
    const top = Math.max(plot.y, this.y(0));
    const right = Math.min(plot.x + plot.w, this.x(columns));
    const bottom = Math.min(plot.y + plot.h, this.y(rows));
    context.fillStyle = colours.sunken;
    context.fillRect(left, top, right - left, bottom - top);
    context.fillStyle = hatch(context);
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    context.fillRect(left, top, right - left, bottom - top);
    const frame = this.frame;
    if (frame && this.pixels.width && this.pixels.height) {
      const [h, w] = frame.shape;
      // Cover only the frame: elsewhere the hatching still says that nothing was read.
      context.imageSmoothingEnabled = false;
      context.drawImage(
        this.pixels,
        this.x(frame.start[1]), this.y(frame.start[0]),
        w * frame.steps[1] * this.view.sx, h * frame.steps[0] * this.view.sy,
      );
      this.drawNumbers(context);
    }
    if (this.chunks) this.chunks(context, (c) => this.x(c), (r) => this.y(r), { left, top, right, bottom });
    context.restore();
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
    this.drawAxes(context, { left, top, right, bottom, width, height });
    this.drawOverlay();
  }

  /** Draw numbers in elements that are large enough. */
  drawNumbers(context) {
    const { sx, sy } = this.view;
    const frame = this.frame;
    if (sx < 44 || sy < 17 || frame.steps[0] > 1 || frame.steps[1] > 1 || !this.numberText) return;
    const { rows, columns } = this.window();
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = context.font.replace(/^\d+px/, "11px");
    for (let r = rows[0]; r < rows[1]; r += 1) {
      for (let c = columns[0]; c < columns[1]; c += 1) {
        const i = r - frame.start[0];
        const j = c - frame.start[1];
        if (i < 0 || j < 0 || i >= frame.shape[0] || j >= frame.shape[1]) continue;
        const x = frame.data[i * frame.shape[1] + j];
        if (x !== x) continue;
        const told = this.numberText(frame.base + frame.scale * x);
        context.fillStyle = told.colour;
        context.fillText(fitted(context, told.text, sx - 4), this.x(c + 0.5), this.y(r + 0.5));
      }
    }
  }

  drawAxes(context, { left, top, right, bottom, height }) {
    const colours = ink();
    context.fillStyle = colours.quiet;
    context.strokeStyle = colours.line;
    context.font = context.font.replace(/^\d+px/, "12px");
    const isWide = this.labels[1](0) !== null;
    const [rows, columns] = this.extents;
    context.textAlign = "center";
    context.textBaseline = "top";
    const seen = { c: [this.view.c, this.view.c + this.plot.w / this.view.sx], r: [this.view.r, this.view.r + this.plot.h / this.view.sy] };
    const most = Math.max(1, Math.floor((right - left) / (isWide ? 96 : 64)));
    let free = -Infinity;
    for (const i of wholeTicks(Math.max(0, seen.c[0]), Math.min(columns - 1, seen.c[1]), most)) {
      const x = this.x(i + 0.5);
      if (x < left || x > right) continue;
      context.fillRect(x - 0.5, bottom + 2, 1, 4);
      const text = fitted(context, this.labels[1](i) ?? String(i), 110);
      const half = context.measureText(text).width / 2;
      if (x - half < free) continue;
      free = x + half + 8;
      context.fillText(text, x, bottom + 8);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    if (this.names[0]) {
      for (const i of wholeTicks(Math.max(0, seen.r[0]), Math.min(rows - 1, seen.r[1]), Math.max(1, Math.floor((bottom - top) / 36)))) {
        const y = this.y(i + 0.5);
        if (y < top || y > bottom) continue;
        context.fillRect(left - 6, y - 0.5, 4, 1);
        context.fillText(fitted(context, this.labels[0](i) ?? String(i), MARGIN.left - 30), left - 9, y);
      }
    }
    context.fillStyle = colours.ink;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.font = `600 ${context.font}`;
    context.fillText(fitted(context, this.names[1], right - left + 60), (left + right) / 2, Math.min(height - 6, bottom + 36));
    if (this.names[0]) {
      context.save();
      context.translate(Math.max(14, left - 60), (top + bottom) / 2);
      context.rotate(-Math.PI / 2);
      context.fillText(fitted(context, this.names[0], bottom - top + 20), 0, 0);
      context.restore();
    }
  }

  drawOverlay() {
    this.followed?.();
    const { context } = sharp(this.overlay);
    if (!this.view || !this.cursor) return;
    const colours = ink();
    const plot = this.plot;
    context.beginPath();
    context.rect(plot.x, plot.y, plot.w, plot.h);
    context.clip();
    const { row, column } = this.cursor;
    const { sx, sy } = this.view;
    const x = this.x(column + 0.5);
    const y = this.y(row + 0.5);
    const limit = { left: Math.max(plot.x, this.x(0)), right: Math.min(plot.x + plot.w, this.x(this.extents[1])), top: Math.max(plot.y, this.y(0)), bottom: Math.min(plot.y + plot.h, this.y(this.extents[0])) };
    const gap = Math.max(7, sx / 2 + 2, sy / 2 + 2);
    const across = [[limit.left, y, x - gap, y], [x + gap, y, limit.right, y]];
    const lines = this.names[0]
      ? [...across, [x, limit.top, x, y - gap], [x, y + gap, x, limit.bottom]]
      : [[x, limit.top, x, limit.bottom]];
    for (const [colour, thick] of [[colours.halo, 2.6], [colours.cross, 1]]) {
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.beginPath();
      for (const [x0, y0, x1, y1] of lines) {
        if (x1 < x0 || y1 < y0) continue;
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
      }
      context.stroke();
      if (sx > 6 && sy > 6 && this.names[0]) context.strokeRect(this.x(column), this.y(row), sx, sy);
    }
    if (this.hover && sx > 3 && sy > 3) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1;
      context.strokeRect(this.x(this.hover.column) + 0.5, this.y(this.hover.row) + 0.5, sx - 1, sy - 1);
    }
  }
}

/** Tell whether dark or light text is readable on a CSS rgb colour. */
export function readable(css) {
  const [r, g, b] = css.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#101418" : "#ffffff";
}
