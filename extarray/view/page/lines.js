// Values as a line: for arrays of one axis, and profiles.

import { FILL_BITS } from "./api.js";
import { fitted, ink } from "./canvas.js";
import { scaleOf, valueTicks, withoutDay } from "./scales.js";

/** The values of a frame as doubles, relative to its zero; the fill value is NaN unless asked for. */
export function valuesOf(frame, withFill) {
  const values = new Float64Array(frame.data.length);
  const inside = frame.bits || withFill ? null : frame.fill;
  for (let i = 0; i < values.length; i += 1) {
    let x = frame.data[i];
    if (frame.bits && withFill && frame.fill !== null && frame.bits[i] === FILL_BITS) x = frame.fill;
    values[i] = inside !== null && x === inside ? NaN : frame.base + frame.scale * x;
  }
  return values;
}

/** The least and the greatest of values that have a place on a scale. */
export function endsOf(values, look) {
  const { to } = scaleOf(look);
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (v - v !== 0 || Number.isNaN(to(v))) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low > high ? null : [low, high];
}

/** Draw the axis of values at the left of a box, with lines across; return the place of a value. */
export function drawValueAxis(context, box, [least, most], look, choice, room) {
  const colours = ink();
  const { to, from } = scaleOf(look);
  let [low, high] = [to(least), to(most)];
  if (!(high > low)) { const pad = Math.abs(low) * 0.05 || 1; low -= pad; high += pad; }
  const pad = (high - low) * 0.05;
  low -= pad;
  high += pad;
  const y = (v) => box.bottom - ((to(v) - low) / (high - low)) * (box.bottom - box.top);
  const count = Math.max(2, Math.min(8, Math.floor((box.bottom - box.top) / 26)));
  const found = valueTicks(from(low), from(high), count, choice, look);
  const day = withoutDay(found.ticks);
  const offset = found.offset || day.offset;
  context.font = context.font.replace(/^(600 )?\d+px/, "11px");
  context.textBaseline = "middle";
  context.textAlign = "right";
  let free = Infinity;
  for (const { v, text } of day.ticks) {
    context.fillStyle = colours.line;
    context.fillRect(box.left, Math.round(y(v)), box.right - box.left, 1);
    if (y(v) > free) continue;
    free = y(v) - 13;
    context.fillStyle = colours.quiet;
    context.fillText(fitted(context, text, room - 8), box.left - 6, y(v));
  }
  if (offset) {
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillStyle = colours.quiet;
    context.fillText(fitted(context, offset, box.right - 4), 4, box.top - 1);
  }
  return y;
}

/** Draw a line through values; `x` places the number of a value, `y` the value. */
export function drawLine(context, values, x, y, hasDots) {
  const colours = ink();
  context.strokeStyle = colours.accent;
  context.fillStyle = colours.accent;
  context.lineWidth = 1.4;
  context.lineJoin = "round";
  context.beginPath();
  let drawing = false;
  const has = (v) => v - v === 0 && !Number.isNaN(y(v));
  for (let i = 0; i < values.length; i += 1) {
    const v = values[i];
    if (!has(v)) { drawing = false; continue; }
    const [px, py] = [x(i), y(v)];
    const isAlone = !drawing && !has(values[i + 1]);
    if (drawing) context.lineTo(px, py);
    else context.moveTo(px, py);
    drawing = true;
    if (hasDots || isAlone) context.fillRect(px - 1.5, py - 1.5, 3, 3);
  }
  context.stroke();
}
