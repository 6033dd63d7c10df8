// The view as Python that reads it, and as a link that shows it again.

import { fragment } from "./address.js";
import { token } from "./api.js";
import { picture } from "./showing.js";
import { $, choice, extent, isMixed, state } from "./state.js";

/** The visible part of the plane: the first row, the end of the rows, and the same of columns. */
export function visiblePart() {
  const [rows, columns] = picture.extents;
  if (picture.fitting || !picture.view) return [0, rows, 0, columns];
  const within = ([from, to], n) => [Math.max(0, Math.floor(from + 1e-6)), Math.min(n, Math.ceil(to - 1e-6))];
  return [...within(picture.seen.rows, rows), ...within(picture.seen.columns, columns)];
}

/** Python that reads exactly the elements on show. */
export function python() {
  const { info } = state;
  const [row, rowEnd, column, columnEnd] = visiblePart();
  const part = (axis, from, to) => (from === 0 && to === extent(axis) ? ":" : `${from}:${to}`);
  const index = info.shape.map((_, axis) => {
    if (axis === state.rows) return part(axis, row, rowEnd);
    if (axis === state.columns) return part(axis, column, columnEnd);
    if (isMixed() && axis === state.colours) return part(axis, 0, state.channels.length);
    return String(state.at[axis]);
  });
  let read = `a[${index.join(", ") || "()"}]${choice().python}`;
  // The axes on show are rows, columns and colours, whatever their order in the array.
  const axes = [state.rows, state.columns, ...(isMixed() ? [state.colours] : [])].filter((axis) => axis >= 0);
  const order = axes.map((axis) => axes.filter((one) => one < axis).length);
  if (order.join() === "1,0") read += ".T";
  else if (order.some((place, i) => place !== i)) read += `.transpose(${order.join(", ")})`;
  const parts = { magnitude: `np.abs(${read})`, phase: `np.angle(${read})`, real: `${read}.real`, imaginary: `${read}.imag` };
  if (choice().parts.length) read = parts[state.part];
  const { packing } = choice();
  const lines = [...(packing?.code ?? info.code), ...(packing && !packing.code ? unpacking(read, packing) : [`shown = ${read}`])];
  if (lines.some((line) => / np\./.test(line)) && !lines.includes("import numpy as np")) lines.unshift("import numpy as np");
  return lines.join("\n");
}

/** Python that reads packed numbers, and makes values of them. */
function unpacking(read, { stored, dtype, scale, offset, missing }) {
  const values = `stored.astype("${dtype}")${scale ? ` * ${scale}` : ""}${offset ? ` + ${offset}` : ""}`;
  const lines = [`stored = ${read}${stored ? `.view("${stored}")` : ""}`, `shown = ${values}`];
  if (missing.length) lines.push(`shown = np.where(np.isin(stored, [${missing.join(", ")}]), np.nan, shown)`);
  return lines;
}

/** A link that opens the page as it is, with the token. */
function link() {
  const all = new URLSearchParams({ token: token() });
  for (const [key, value] of fragment()) all.set(key, value);
  return `${location.origin}${location.pathname}#${all}`;
}

let timer = 0;

/** Show the code for what is on show, a moment later. */
export function tellCode() {
  clearTimeout(timer);
  timer = setTimeout(() => { if (state.info) $("code").textContent = python(); }, 100);
}

async function copy(text, done) {
  let message = done;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    message = "The browser does not allow copying: select the text, and copy it with Ctrl+C.";
    $("code").textContent = text;
    getSelection().selectAllChildren($("code"));
  }
  $("copied").textContent = message;
  setTimeout(() => { if ($("copied").textContent === message) $("copied").textContent = ""; }, 4000);
}

/** Follow the buttons. */
export function listenToCode() {
  $("copycode").addEventListener("click", () => state.info && copy(python(), "The code is on the clipboard."));
  $("copylink").addEventListener("click", () => state.info && copy(link(), "The link is on the clipboard."));
}
