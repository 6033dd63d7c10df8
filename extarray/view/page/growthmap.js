// The growth map beside the picture.

import { GrowthChart } from "./charts.js";
import { $, chunkOf, shown, state } from "./state.js";
import { grouped } from "./text.js";

export const growth = new GrowthChart($("growth"), tellChunk);

export function drawGrowth() {
  const { info } = state;
  if (!info) return;
  const chunk = chunkOf(state.at);
  const here = { row: state.rows < 0 ? 0 : chunk[state.rows], column: chunk[state.columns] };
  growth.draw(shown.chunkMap, [state.rows < 0 ? 1 : info.grid[state.rows], info.grid[state.columns]], here);
  tellChunk(null);
}

function tellChunk(cell) {
  const { info } = state;
  let text;
  if (!shown.chunkMap) text = "no chunks yet";
  else if (cell) {
    const chunk = chunkOf(state.at);
    if (state.rows >= 0) chunk[state.rows] = cell.row;
    chunk[state.columns] = cell.column;
    if (cell.address < 0) text = `chunk ${chunk.join(", ")} · its elements have not come`;
    else text = `chunk ${chunk.join(", ")} · address ${grouped(cell.address)} · segment ${cell.segment.number + 1}: ${cell.segment.text}`;
    if (cell.frozen !== undefined && cell.address >= 0) text += cell.frozen ? " · frozen" : " · raw";
  } else {
    const n = info.segments;
    const count = info.grid.reduce((a, b) => a * b, 1);
    text = `${grouped(count)} chunk${count === 1 ? "" : "s"} in ${grouped(n)} segment${n === 1 ? "" : "s"}`;
  }
  $("growthtext").textContent = text;
}
