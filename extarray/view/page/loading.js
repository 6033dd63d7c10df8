// Requests for everything that depends on the state of the page.

import { remember } from "./address.js";
import { ask, askBlocks, askNumbers, Latest } from "./api.js";
import { tellCode } from "./code.js";
import { drawGrowth } from "./growthmap.js";
import { failed } from "./notices.js";
import { drawProfile, tellValue } from "./profiles.js";
import { picture, showFrame } from "./showing.js";
import { fetchTable } from "./table.js";
import { $, chunkOf, isEmpty, mixture, question, shown, state } from "./state.js";

const SLOW = 12e6; // bytes per second
let isSlow = false; // whether bytes arrive slowly

export const frames = new Latest(async (task, now) => {
  if (!state.info.shape.length || isEmpty()) return;
  if (state.mode === "table") {
    await fetchTable();
    return;
  }
  const { rows, columns } = picture.window();
  const query = {
    ...question(),
    ...mixture(),
    ends: state.mode === "lines" ? 1 : null,
    together: state.mode === "rgb" ? 1 : null,
    rows: state.rows < 0 ? null : [state.rows, ...rows].join(","),
    columns: [state.columns, ...columns].join(","),
    ms: 100,
    have: task.again && picture.frame && picture.frame.name === state.name ? picture.frame.known : null,
  };
  const origin = state.info.origin.join();
  const { mode } = state;
  // A second look is never coarser than the first.
  let level = task.again && picture.frame ? picture.frame.level : null;
  let whole = null;
  while (true) {
    const begun = performance.now();
    const frame = await askNumbers("plane", { ...query, level, whole, packed: isSlow ? 1 : null }, now.controller.signal);
    if (!frame || query.name !== state.name || mode !== state.mode) return;
    if (frame.origin.join() !== origin) return; // the start has moved: news will tell
    frame.name = state.name;
    frame.took = performance.now() - begun;
    // Later looks compare what is read in steps, which is fast, and not the extremes.
    frame.known = whole ? picture.frame.known : frame.check;
    frame.pace = whole ? picture.frame.pace : frame.took;
    if (!frame.constant && frame.data.byteLength > 1 << 20) {
      // On a slow link, such as a tunnel to another machine, compression saves time.
      const way = (frame.took - frame.ms) / 1000;
      isSlow = frame.data.byteLength / way < (isSlow ? SLOW * 4 : SLOW);
    }
    showFrame(frame);
    if ((frame.level === 0 && !frame.more) || frames.stale || document.hidden) break;
    // Finer frames may take long; newer requests go first.  The last one leaves no element out.
    if (frame.level === 0) whole = 1;
    level = Math.max(0, frame.level - 1);
    query.have = null;
    now.long = true;
    $("busy").hidden = false;
  }
  if (!frames.stale) $("busy").hidden = true;
});
frames.failed = failed;

const profiles = new Latest(async (task, now) => {
  const { along: axis, name } = state;
  if (axis < 0 || isEmpty()) return;
  const query = { ...question(), axis, pixels: 2048 };
  for (const whole of [null, 1]) {
    const data = await askNumbers("profile", { ...query, whole }, now.controller.signal);
    if (axis !== state.along || name !== state.name) return;
    shown.profile = data;
    drawProfile();
    if (!data.more || profiles.stale || document.hidden) return;
    now.long = true; // the ends of all steps: newer requests go first
  }
});
profiles.failed = failed;

export const values = new Latest(async (at) => {
  if (at.length !== state.info.shape.length || isEmpty()) return;
  const { name } = state;
  const told = await ask("value", { ...question(), ...mixture(), at: at.join(",") });
  if (name === state.name && at.length === told.labels.length) tellValue(at, told);
});
values.failed = failed;

const growths = new Latest(async () => {
  const { info, name } = state;
  if (!info.has_growth || !info.shape.length || isEmpty() || info.grid.some((n) => n === 0)) {
    shown.chunkMap = null;
  } else {
    const rows = state.rows < 0 ? null : [state.rows, 0, info.grid[state.rows], 160].join(",");
    const columns = [state.columns, 0, info.grid[state.columns], 160].join(",");
    const map = await askBlocks("growth", { name, chunk: chunkOf(state.at).join(","), rows, columns });
    if (name !== state.name) return;
    shown.chunkMap = map;
  }
  drawGrowth();
});
growths.failed = failed;

const grids = new Latest(async () => {
  if (!state.onGrid || !state.info.has_growth || isEmpty()) {
    shown.gridMap = null;
  } else {
    const { info } = state;
    const window = picture.window();
    const part = (axis, [start, stop]) => {
      const chunk = (i) => Math.floor((i + info.offset[axis]) / info.chunks[axis]);
      return [axis, chunk(start), Math.min(info.grid[axis], chunk(Math.max(start, stop - 1)) + 1), 240].join(",");
    };
    shown.gridMap = await askBlocks("growth", {
      name: state.name,
      chunk: chunkOf(state.at).join(","),
      rows: state.rows < 0 ? null : part(state.rows, window.rows),
      columns: part(state.columns, window.columns),
    });
  }
  picture.draw();
});
grids.failed = failed;

/** Request everything that depends on the state of the page. */
export function reload(parts = "frame profile value growth grid", again = false) {
  if (!state.info || !state.info.shape.length || isEmpty()) return;
  for (const part of parts.split(" ")) {
    if (part === "frame") frames.want({ again });
    else if (part === "profile") profiles.want(true);
    else if (part === "value") values.want([...(shown.hover ?? state.at)]);
    else if (part === "growth") growths.want(true);
    else if (part === "grid") grids.want(true);
  }
  tellCode();
  remember();
}
