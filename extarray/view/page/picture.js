// The picture: a plane of elements, its axes, the chunks over it, and the cursor.

import { fitted, hatch, ink, sharp } from "./canvas.js";
import { drawLine, drawValueAxis, valuesOf } from "./lines.js";

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
    this.flips = [false, false]; // whether index 0 of rows is at the bottom, of columns at the right
    this.ticks = [() => ({ ticks: [], offset: "" }), () => ({ ticks: [], offset: "" })];
    this.line = null; // how values are drawn as a line; null: as colours
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
    if (this.line) return false;
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
    if (this.view && !reset) {
      // The view counts from the side on show first; what is on show stays so.
      if (this.flips[0]) this.view.r += rows - this.extents[0];
      if (this.flips[1]) this.view.c += columns - this.extents[1];
    }
    this.extents = [rows, columns];
    if (reset) this.fitting = true;
    this.settle();
  }

  /** Flip axes; the elements on show stay so. */
  setFlips(rows, columns) {
    const { w, h } = this.plot;
    if (this.view) {
      if (rows !== this.flips[0]) this.view.r = this.extents[0] - this.view.r - h / this.view.sy;
      if (columns !== this.flips[1]) this.view.c = this.extents[1] - this.view.c - w / this.view.sx;
    }
    this.flips = [rows, columns];
  }

  /** Elements between the left or upper side and an edge of an element; its own inverse. */
  turned(dimension, edge) {
    return this.flips[dimension] ? this.extents[dimension] - edge : edge;
  }

  /** The edges on show: the first and the last of rows and of columns, in ascending order. */
  get seen() {
    const { w, h } = this.plot;
    const part = (dimension, from, n) => [from, from + n].map((edge) => this.turned(dimension, edge)).sort((a, b) => a - b);
    return { rows: part(0, this.view.r, h / this.view.sy), columns: part(1, this.view.c, w / this.view.sx) };
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

  /** Show a part of the plane, between edges of rows and of columns, as large as it fits. */
  see(rows, columns) {
    if (!(rows[1] > rows[0] && columns[1] > columns[0])) return;
    const { w, h } = this.plot;
    let sx = w / (columns[1] - columns[0]);
    let sy = h / (rows[1] - rows[0]);
    if (this.isSquare) sx = sy = Math.min(sx, sy);
    const middle = (dimension, [from, to]) => this.turned(dimension, (from + to) / 2);
    this.fitting = false;
    this.view = { sx, sy, c: middle(1, columns) - w / sx / 2, r: middle(0, rows) - h / sy / 2 };
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
    const c = Math.min(this.turned(1, column), this.turned(1, column + 1));
    const r = Math.min(this.turned(0, row), this.turned(0, row + 1));
    if (c < this.view.c) this.view.c = c - 1;
    if (c + 1 > this.view.c + w / sx) this.view.c = c + 2 - w / sx;
    if (r < this.view.r) this.view.r = r - 1;
    if (r + 1 > this.view.r + h / sy) this.view.r = r + 2 - h / sy;
    this.settle();
    return before !== `${this.view.c} ${this.view.r}`;
  }

  /** The visible part and its pixels: [start, stop, pixels] of rows and columns. */
  window() {
    const ratio = window.devicePixelRatio || 1;
    const { sx, sy } = this.view;
    const { rows, columns } = this.seen;
    const along = ([from, to], extent, scale) => {
      let start = Math.max(0, Math.floor(from));
      let stop = Math.min(extent, Math.ceil(to));
      const pixels = Math.max(1, Math.min(4096, Math.floor((stop - start) * scale * ratio)));
      // Steps begin at multiples, so that scrolling does not change which elements are read.
      const step = Math.max(1, Math.ceil((stop - start) / pixels));
      start -= start % step;
      stop = Math.min(extent, Math.ceil(stop / step) * step);
      return [start, Math.max(stop, start), Math.max(1, Math.ceil((stop - start) / step))];
    };
    return { rows: along(rows, this.extents[0], sy), columns: along(columns, this.extents[1], sx) };
  }

  /** The element at a point of the stage, or null. */
  elementAt(x, y) {
    if (!this.view) return null;
    const plot = this.plot;
    const row = Math.floor(this.turned(0, this.view.r + (y - plot.y) / this.view.sy));
    const column = Math.floor(this.turned(1, this.view.c + (x - plot.x) / this.view.sx));
    const inside = x >= plot.x && y >= plot.y && x < plot.x + plot.w && y < plot.y + plot.h;
    return inside && row >= 0 && column >= 0 && row < this.extents[0] && column < this.extents[1]
      ? { row, column } : null;
  }

  x(column) {
    return this.plot.x + (this.turned(1, column) - this.view.c) * this.view.sx;
  }

  y(row) {
    return this.plot.y + (this.turned(0, row) - this.view.r) * this.view.sy;
  }

  /** The rectangle of the elements on show, in CSS pixels of the stage. */
  get box() {
    const { x, y, w, h } = this.plot;
    const [rows, columns] = this.extents;
    const [left, right] = [this.x(0), this.x(columns)].sort((a, b) => a - b);
    const [top, bottom] = [this.y(0), this.y(rows)].sort((a, b) => a - b);
    return { left: Math.max(x, left), right: Math.min(x + w, right), top: Math.max(y, top), bottom: Math.min(y + h, bottom) };
  }

  draw() {
    const { context, width, height } = sharp(this.base);
    const colours = ink();
    if (!this.view) return;
    const { left, top, right, bottom } = this.box;
    const frame = this.frame;
    context.save();
    if (this.line) this.drawLines(context, frame);
    else {
      context.beginPath();
      context.rect(left, top, right - left, bottom - top);
      context.clip();
      context.fillStyle = colours.sunken;
      context.fillRect(left, top, right - left, bottom - top);
      context.fillStyle = hatch(context);
      context.fillRect(left, top, right - left, bottom - top);
      if (frame && this.pixels.width && this.pixels.height) {
        const [h, w] = frame.shape;
        // Cover only the frame: elsewhere the hatching still says that nothing was read.
        const [x, y] = [this.x(frame.start[1]), this.y(frame.start[0])];
        context.save();
        context.imageSmoothingEnabled = false;
        context.translate(x, y);
        context.scale(this.flips[1] ? -1 : 1, this.flips[0] ? -1 : 1);
        context.drawImage(this.pixels, 0, 0, w * frame.steps[1] * this.view.sx, h * frame.steps[0] * this.view.sy);
        context.restore();
        this.drawNumbers(context);
      }
      if (this.chunks) this.chunks(context, (c) => this.x(c), (r) => this.y(r));
    }
    context.restore();
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
    this.drawAxes(context, { left, top, right, bottom, width, height });
    this.drawOverlay();
  }

  /** Draw the frame as a line, from the least to the greatest value of the look. */
  drawLines(context, frame) {
    const { look, choice } = this.line;
    const box = this.box;
    if (!frame?.data) return;
    const y = drawValueAxis(context, box, [look.low, look.high], look, choice, MARGIN.left);
    context.beginPath();
    context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.clip();
    const index = (i) => frame.start[1] + (frame.places ? frame.places[i] : i * frame.steps[1]);
    drawLine(context, valuesOf(frame, !look.fill), (i) => this.x(index(i) + 0.5), y, this.view.sx >= 5);
  }

  /** Draw numbers in elements that are large enough. */
  drawNumbers(context) {
    const { sx, sy } = this.view;
    const frame = this.frame;
    if (sx < 44 || sy < 17 || frame.channels || frame.steps[0] > 1 || frame.steps[1] > 1 || !this.numberText) return;
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
        if (!told) continue;
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
    context.textAlign = "center";
    context.textBaseline = "top";
    const { rows, columns } = this.seen;
    const ends = ([from, to], extent) => [Math.max(0, from), Math.min(extent - 1, to)];
    const across = this.ticks[1](...ends(columns, this.extents[1]), Math.max(1, Math.floor((right - left) / 80)));
    let free = -Infinity;
    for (const { x, text } of across.ticks.map((one) => ({ x: this.x(one.at + 0.5), text: one.text })).sort((a, b) => a.x - b.x)) {
      if (x < left - 0.5 || x > right + 0.5) continue;
      context.fillRect(x - 0.5, bottom + 2, 1, 4);
      const told = fitted(context, text, 110);
      const half = context.measureText(told).width / 2;
      if (x - half < free) continue;
      free = x + half + 8;
      context.fillText(told, x, bottom + 8);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    let offset = "";
    if (this.names[0]) {
      const down = this.ticks[0](...ends(rows, this.extents[0]), Math.max(1, Math.floor((bottom - top) / 36)));
      offset = down.offset;
      for (const { at, text } of down.ticks) {
        const y = this.y(at + 0.5);
        if (y < top - 0.5 || y > bottom + 0.5) continue;
        context.fillRect(left - 6, y - 0.5, 4, 1);
        context.fillText(fitted(context, text, MARGIN.left - 30), left - 9, y);
      }
    }
    context.fillStyle = colours.ink;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.font = `600 ${context.font.replace(/^\d+px/, "12px")}`;
    const named = (name, more) => (more ? `${name} · ${more}` : name);
    context.fillText(fitted(context, named(this.names[1], across.offset), right - left + 60), (left + right) / 2, Math.min(height - 6, bottom + 36));
    const side = this.line ? this.line.title : named(this.names[0], offset);
    if (side) {
      context.save();
      context.translate(Math.max(14, left - 60), (top + bottom) / 2);
      context.rotate(-Math.PI / 2);
      context.fillText(fitted(context, side, bottom - top + 20), 0, 0);
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
    const limit = this.box;
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
      if (sx > 6 && sy > 6 && this.names[0]) context.strokeRect(x - sx / 2, y - sy / 2, sx, sy);
    }
    if (this.hover && this.line) {
      context.fillStyle = colours.ink;
      context.fillRect(this.x(this.hover.column + 0.5) - 0.5, limit.top, 1, limit.bottom - limit.top);
    } else if (this.hover && sx > 3 && sy > 3) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1;
      context.strokeRect(this.x(this.hover.column + 0.5) - sx / 2 + 0.5, this.y(this.hover.row + 0.5) - sy / 2 + 0.5, sx - 1, sy - 1);
    }
  }
}

/** Tell whether dark or light text is readable on a CSS rgb colour. */
export function readable(css) {
  const [r, g, b] = css.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#101418" : "#ffffff";
}
