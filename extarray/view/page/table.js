// Elements as a table of texts: exact numbers, dates, and words.

import { ask } from "./api.js";
import { label } from "./labels.js";
import { $, extent, isEmpty, question, shown, state, titleOf } from "./state.js";

const HEIGHT = 26; // pixels of a row
const WIDTH = 104; // least pixels of a column
const MOST = 4096; // elements

let corner = { row: 0, column: 0 }; // the first element on show
let latest = 0;

/** The axes of the rows and of the columns; an array of one axis runs down. */
const axes = () => (state.rows < 0 ? [state.columns, -1] : [state.rows, state.columns]);

/** Rows and columns that fit the window. */
function size() {
  const { width, height } = $("stage").getBoundingClientRect();
  const [down, across] = axes();
  const columns = Math.min(extent(across), Math.max(1, Math.floor((width - 96) / WIDTH)));
  const rows = Math.min(extent(down), Math.max(1, Math.floor((height - 64) / HEIGHT)), Math.floor(MOST / columns));
  return { rows, columns };
}

const within = (from, count, all) => Math.max(0, Math.min(from, all - count));

/** Scroll by some rows and columns. */
export function scrollTable(rows, columns) {
  corner.row += rows;
  corner.column += columns;
  fetchTable();
}

/** Scroll an element into view. */
export function revealInTable(at) {
  const [down, across] = axes();
  const { rows, columns } = size();
  const [row, column] = [at[down], across < 0 ? 0 : at[across]];
  if (row < corner.row) corner.row = row;
  if (row >= corner.row + rows) corner.row = row - rows + 1;
  if (column < corner.column) corner.column = column;
  if (column >= corner.column + columns) corner.column = column - columns + 1;
}

export function hideTable() {
  corner = { row: 0, column: 0 };
  latest += 1;
  $("table").hidden = true;
  $("table").replaceChildren();
}

/** Ask for the texts on show, and show them. */
export async function fetchTable() {
  if (state.mode !== "table" || !state.info.shape.length || isEmpty()) return;
  const [down, across] = axes();
  const { rows, columns } = size();
  corner = { row: within(corner.row, rows, extent(down)), column: within(corner.column, columns, extent(across)) };
  latest += 1;
  const mine = latest;
  const at = { ...corner };
  const told = await ask("texts", {
    ...question(),
    rows: [down, at.row, at.row + rows].join(","),
    columns: across < 0 ? null : [across, at.column, at.column + columns].join(","),
  });
  if (mine !== latest) return;
  const found = { ...at, rows, columns, texts: told.texts };
  const isSame = !$("table").hidden && JSON.stringify(found) === JSON.stringify(shown.table);
  shown.table = found;
  if (!isSame) drawTable();
  $("note").textContent = "";
  document.body.dataset.frame = String(Number(document.body.dataset.frame ?? 0) + 1);
}

/** Draw the texts that have come. */
export function drawTable() {
  if (state.mode !== "table" || !shown.table) return;
  const { row, column, rows, columns, texts } = shown.table;
  const [down, across] = axes();
  const cell = (kind, text, title = text) => {
    const made = document.createElement(kind);
    made.textContent = text;
    made.title = title;
    return made;
  };
  const name = (axis, index) => {
    const text = label(axis, index);
    return text ? cell("th", text, `${index}: ${text}`) : cell("th", String(index));
  };
  const head = document.createElement("tr");
  head.append(cell("th", across < 0 ? titleOf(down) : `${titleOf(down)} ↓  ${titleOf(across)} →`));
  for (let j = 0; j < columns; j += 1) {
    const made = across < 0 ? cell("th", "value") : name(across, column + j);
    made.scope = "col";
    head.append(made);
  }
  const lines = texts.map((line, i) => {
    const made = document.createElement("tr");
    const first = name(down, row + i);
    first.scope = "row";
    made.append(first, ...line.map((text, j) => {
      const one = cell("td", text);
      one.dataset.row = row + i;
      one.dataset.column = column + j;
      if (row + i === state.at[down] && (across < 0 || column + j === state.at[across])) one.className = "here";
      return one;
    }));
    return made;
  });
  const table = document.createElement("table");
  const caption = document.createElement("caption");
  const part = (axis, from, count) => `${from}–${from + count - 1} of ${extent(axis)}`;
  caption.textContent = `${titleOf(down)} ${part(down, row, rows)}${across < 0 ? "" : `, ${titleOf(across)} ${part(across, column, columns)}`}`;
  table.append(caption, head, ...lines);
  $("table").hidden = false;
  $("table").replaceChildren(table);
}

/** The indices of a cell of the table: along the rows, and along the columns. */
export function elementOf(target) {
  const cell = target.closest?.("td");
  if (!cell) return null;
  const [down, across] = axes();
  const found = [...state.at];
  found[down] = Number(cell.dataset.row);
  if (across >= 0) found[across] = Number(cell.dataset.column);
  return found;
}
