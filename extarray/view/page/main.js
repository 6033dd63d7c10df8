// The page: its state, the controls, the keys, and news of the array.

import { ask, askBlocks, askNumbers, Latest, Refusal, takeToken } from "./api.js";
import { cssOf, MAPS, summary } from "./colours.js";
import { forgetInk } from "./canvas.js";
import { drawChunks, GrowthChart, Histogram, Profile } from "./charts.js";
import { News } from "./news.js";
import { Picture, readable } from "./picture.js";
import { grouped, parse, short, valueText } from "./text.js";

const $ = (id) => document.getElementById(id);
const THEMES = ["auto", "light", "dark"];
const PLAY_MS = 90; // least time between two slices
const SLOW = 12e6; // bytes per second
const AGAIN_MS = 2000; // between two checks for overwritten elements

/** The state of the page. */
const state = {
  name: null,
  info: null,
  rows: -1, // axes; -1: none
  columns: -1,
  at: [], // an index for each axis; along shown axes, the cursor's
  field: 0,
  part: "magnitude",
  map: "Dusk",
  range: "auto",
  low: 0,
  high: 1,
  fill: false,
  slider: -1, // the axis that [ and ] move
  along: -1, // the axis of the profile
  live: true,
  onGrid: false,
  playing: -1,
};
let counted = null; // of the frame: histogram, least, greatest
let profileData = null;
let hover = null;
let isSlow = false; // whether bytes arrive slowly
let chunkMap = null;
let gridMap = null;
const labelCache = new Map(); // axis -> Map of index -> text

const picture = new Picture($("stage"), $("picture"), $("overlay"));
const histogram = new Histogram($("histogram"), (low, high) => setRange("hold", low, high));
const profile = new Profile($("profile"), (index) => moveTo(state.along, index));
const growth = new GrowthChart($("growth"), tellChunk, (cell) => goToChunk(cell));

const choice = () => state.info.choices[state.field];
const extent = (axis) => (axis < 0 ? 1 : state.info.shape[axis]);
const isShown = (axis) => axis === state.rows || axis === state.columns;
const hidden = () => state.info.shape.map((_, axis) => axis).filter((axis) => !isShown(axis));
const isEmpty = () => state.info.shape.some((n) => n === 0);
const question = () => ({ name: state.name, at: state.at.join(","), field: state.field, part: state.part });

// -- loading -----------------------------------------------------------------------------------

const frames = new Latest(async (task, now) => {
  if (!state.info.shape.length || isEmpty()) return;
  const { rows, columns } = picture.window();
  const query = {
    ...question(),
    rows: state.rows < 0 ? null : [state.rows, ...rows].join(","),
    columns: [state.columns, ...columns].join(","),
    ms: 100,
    have: task.again && picture.frame && picture.frame.name === state.name ? picture.frame.known : null,
  };
  const origin = state.info.origin.join();
  // A second look is never coarser than the first.
  let level = task.again && picture.frame ? picture.frame.level : null;
  let whole = null;
  while (true) {
    const begun = performance.now();
    const frame = await askNumbers("plane", { ...query, level, whole, packed: isSlow ? 1 : null }, now.controller.signal);
    if (!frame || query.name !== state.name) return;
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
    profileData = data;
    drawProfile();
    if (!data.more || profiles.stale || document.hidden) return;
    now.long = true; // the ends of all steps: newer requests go first
  }
});
profiles.failed = failed;

const values = new Latest(async (at) => {
  if (at.length !== state.info.shape.length || isEmpty()) return;
  const { name } = state;
  const told = await ask("value", { ...question(), at: at.join(",") });
  if (name === state.name && at.length === told.labels.length) tellValue(at, told);
});
values.failed = failed;

const growths = new Latest(async () => {
  const { info, name } = state;
  if (!info.shape.length || isEmpty() || info.grid.some((n) => n === 0)) {
    chunkMap = null;
  } else {
    const rows = state.rows < 0 ? null : [state.rows, 0, info.grid[state.rows], 160].join(",");
    const columns = [state.columns, 0, info.grid[state.columns], 160].join(",");
    const map = await askBlocks("growth", { name, chunk: chunkOf(state.at).join(","), rows, columns });
    if (name !== state.name) return;
    chunkMap = map;
  }
  drawGrowth();
});
growths.failed = failed;

const grids = new Latest(async () => {
  if (!state.onGrid || isEmpty()) {
    gridMap = null;
  } else {
    const { info } = state;
    const window = picture.window();
    const part = (axis, [start, stop]) => {
      const chunk = (i) => Math.floor((i + info.offset[axis]) / info.chunks[axis]);
      return [axis, chunk(start), Math.min(info.grid[axis], chunk(Math.max(start, stop - 1)) + 1), 240].join(",");
    };
    gridMap = await askBlocks("growth", {
      name: state.name,
      chunk: chunkOf(state.at).join(","),
      rows: state.rows < 0 ? null : part(state.rows, window.rows),
      columns: part(state.columns, window.columns),
    });
  }
  picture.draw();
});
grids.failed = failed;

const wantedLabels = new Map();
let labelTimer = 0;

/** The coordinate of an index of an axis; null: none.  Asks for unknown ones. */
function label(axis, index) {
  if (axis < 0 || !state.info.coordinates[axis]) return null;
  const known = labelCache.get(axis)?.get(index);
  if (known !== undefined) return known || String(index);
  if (!wantedLabels.has(axis)) wantedLabels.set(axis, new Set());
  wantedLabels.get(axis).add(index);
  if (!labelTimer) labelTimer = setTimeout(fetchLabels, 15);
  return "";
}

async function fetchLabels() {
  labelTimer = 0;
  const wanted = [...wantedLabels];
  wantedLabels.clear();
  const { name } = state;
  for (const [axis, indices] of wanted) {
    try {
      const told = await ask("labels", { name, axis, indices: [...indices].join(",") });
      if (name !== state.name) return;
      if (!labelCache.has(axis)) labelCache.set(axis, new Map());
      [...indices].forEach((index, i) => labelCache.get(axis).set(index, told.labels[i]));
    } catch (error) {
      failed(error);
    }
  }
  picture.draw();
  drawProfile();
  tellSliders();
}

/** Request everything that depends on the state of the page. */
function reload(parts = "frame profile value growth grid", again = false) {
  if (!state.info || !state.info.shape.length || isEmpty()) return;
  for (const part of parts.split(" ")) {
    if (part === "frame") frames.want({ again });
    else if (part === "profile") profiles.want(true);
    else if (part === "value") values.want([...(hover ?? state.at)]);
    else if (part === "growth") growths.want(true);
    else if (part === "grid") grids.want(true);
  }
  remember();
}

function failed(error) {
  if (error instanceof Refusal) {
    if (error.status === 403) say("The server does not accept the token. Open the address printed by extarray view.");
    else if (error.status !== 409) say(error.message); // 409: the array has changed; news will tell
  } else if (error instanceof TypeError) {
    say("The server does not respond and has probably stopped. Start extarray view again.");
  } else throw error;
}

function say(text) {
  $("notice").textContent = text ?? "";
  $("notice").hidden = !text;
}

// -- showing -----------------------------------------------------------------------------------

const look = () => ({ map: state.map, low: state.low, high: state.high, fill: state.fill });

function showFrame(frame) {
  counted = summary(frame, state.fill);
  autoRange();
  picture.frame = frame;
  recolour();
  const [down, across] = frame.steps;
  const told = [];
  if (down > 1 || across > 1) {
    if (frame.whole) told.push(`extremes of ${state.rows < 0 ? "" : `${grouped(down)} × `}${grouped(across)}`);
    else told.push(state.rows < 0 ? `every ${nth(across)}` : `every ${nth(down)} × ${nth(across)}`);
  }
  told.push(`${grouped(frame.shape[0])} × ${grouped(frame.shape[1])} read in ${short(frame.ms, 2)} ms`);
  $("note").textContent = told.join(" · ");
  document.body.dataset.frame = String(Number(document.body.dataset.frame ?? 0) + 1);
  document.body.dataset.level = String(frame.level);
}

function nth(n) {
  return n === 1 ? "" : `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10 > 3 ? 0 : n % 10]}`;
}

function autoRange() {
  if (state.range === "hold" || !counted) return;
  let low = state.range === "auto" ? counted.p1 : counted.low;
  let high = state.range === "auto" ? counted.p99 : counted.high;
  if (!(high > low)) [low, high] = [counted.low, counted.high];
  if (choice().kind === "bool") [low, high] = [0, 1];
  else if (choice().kind === "complex" && state.part === "phase") [low, high] = [-Math.PI, Math.PI];
  else if (state.map === "Divide" && low < 0 && high > 0) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
  if (!(high > low)) { const room = Math.abs(low) * 0.01 || 1; low -= room; high += room; }
  state.low = low;
  state.high = high;
}

function recolour() {
  const found = picture.recolour(look());
  $("nan").hidden = !found.nan;
  $("fillrow").hidden = !(found.fill || (state.fill && picture.frame?.fill !== null));
  picture.draw();
  histogram.draw(counted, look());
  for (const [id, value] of [["low", state.low], ["high", state.high]]) {
    if (document.activeElement !== $(id)) {
      $(id).value = valueText(value, choice(), 6);
      $(id).setAttribute("aria-invalid", "false");
    }
  }
  $("auto").setAttribute("aria-pressed", String(state.range === "auto"));
  $("full").setAttribute("aria-pressed", String(state.range === "full"));
}

function setRange(kind, low, high) {
  state.range = kind;
  if (kind === "hold") {
    state.low = low;
    state.high = high;
  } else autoRange();
  recolour();
  remember();
}

function drawProfile() {
  if (!state.info || state.along < 0) return;
  profile.draw(isEmpty() ? null : profileData, extent(state.along), state.at[state.along], choice(), (i) => label(state.along, i));
  let every = "";
  if (profileData && profileData.step > 1) {
    every = profileData.whole
      ? `least and greatest of every ${grouped(profileData.step)}` : `every ${nth(profileData.step)} element`;
  }
  $("profilevalue").textContent = every;
}

function chunkOf(at) {
  return at.map((i, axis) => Math.floor((i + state.info.offset[axis]) / state.info.chunks[axis]));
}

function drawGrowth() {
  const { info } = state;
  if (!info) return;
  const chunk = chunkOf(state.at);
  const here = { row: state.rows < 0 ? 0 : chunk[state.rows], column: chunk[state.columns] };
  growth.draw(chunkMap, [state.rows < 0 ? 1 : info.grid[state.rows], info.grid[state.columns]], here);
  tellChunk(null);
}

function tellChunk(cell) {
  const { info } = state;
  let text;
  if (!chunkMap) text = "no chunks yet";
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

function goToChunk(cell) {
  const place = (axis, chunk) => Math.min(extent(axis) - 1, Math.max(0, chunk * state.info.chunks[axis] - state.info.offset[axis]));
  if (state.rows >= 0) state.at[state.rows] = place(state.rows, cell.row);
  state.at[state.columns] = place(state.columns, cell.column);
  moved([state.rows, state.columns]);
}

function tellValue(at, told) {
  const { info } = state;
  $("where").replaceChildren(...info.names.flatMap((name, axis) => {
    const index = document.createElement("b");
    index.textContent = at[axis];
    const extra = told.labels[axis] ? ` (${told.labels[axis]}${unitsOf(axis)})` : "";
    return [axis ? "  ·  " : "", `${name} `, index, extra];
  }));
  $("value").textContent = told.value;
  $("value").title = told.record || told.value;
}

function unitsOf(axis) {
  const units = state.info.coordinates[axis]?.units;
  return units ? ` ${units}` : "";
}

// -- moving ------------------------------------------------------------------------------------

/** Go to an index of an axis. */
function moveTo(axis, index) {
  const to = Math.min(extent(axis) - 1, Math.max(0, index));
  if (axis < 0 || to === state.at[axis]) return false;
  state.at[axis] = to;
  moved([axis]);
  return true;
}

/** Show everything that depends on the indices of some axes. */
function moved(axes) {
  const parts = new Set(["value"]);
  for (const axis of axes) {
    if (axis < 0) continue;
    if (!isShown(axis)) {
      parts.add("frame");
      // Chunks of another plane have other addresses.
      parts.add("growth");
      if (state.onGrid) parts.add("grid");
    }
    if (axis !== state.along || axes.length > 1) parts.add("profile");
  }
  setCursor();
  drawProfile();
  drawGrowth();
  tellSliders();
  reload([...parts].join(" "));
}

function setCursor() {
  picture.cursor = isEmpty() ? null : { row: state.rows < 0 ? 0 : state.at[state.rows], column: state.at[state.columns] };
  if (picture.cursor && picture.reveal(picture.cursor.row, picture.cursor.column)) {
    picture.draw();
    reload("frame grid");
  } else picture.drawOverlay();
}

/** Show other axes. */
function setAxes(rows, columns) {
  if (rows === columns) return;
  state.rows = rows;
  state.columns = columns;
  if (isShown(state.slider) || state.slider < 0) state.slider = hidden()[0] ?? -1;
  buildAxes();
  layOut(true);
  reload();
}

/** Give an axis a role; the axis that had the role takes the other's place. */
function setRole(axis, role) {
  const other = role === "rows" ? "columns" : "rows";
  const pair = { rows: state.rows, columns: state.columns };
  if (pair[role] === axis) return;
  if (pair[other] === axis) pair[other] = pair[role];
  pair[role] = axis;
  setAxes(pair.rows, pair.columns);
}

/** Tell the picture which axes it has. */
function layOut(reset) {
  const { info } = state;
  picture.names = [state.rows, state.columns].map((axis) => {
    if (axis < 0) return "";
    const units = info.coordinates[axis]?.units;
    return units ? `${info.names[axis]} (${units})` : info.names[axis];
  });
  picture.labels = [state.rows, state.columns].map((axis) => (index) => label(axis, Math.round(index)));
  picture.setExtents(extent(state.rows), extent(state.columns), reset);
  if (reset) picture.frame = null;
  setCursor();
  picture.draw();
}

picture.numberText = (value) => {
  const t = (value - state.low) / (state.high - state.low || 1);
  return { text: valueText(value, choice(), 5), colour: readable(cssOf(state.map, Math.min(1, Math.max(0, t)))) };
};
picture.chunks = (context, x, y) => {
  if (!state.onGrid || !gridMap) return;
  const { info } = state;
  const place = (axis, at) => (chunk) => at(Math.min(extent(axis), Math.max(0, chunk * info.chunks[axis] - info.offset[axis])));
  const down = state.rows < 0 ? (chunk) => y(chunk) : place(state.rows, y);
  drawChunks(context, gridMap, place(state.columns, x), down, { faint: true, addresses: true });
};

// -- controls ----------------------------------------------------------------------------------

function button(text, title, pressed, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
  made.addEventListener("click", action);
  return made;
}

function buildAxes() {
  const { info } = state;
  const focused = document.activeElement?.dataset?.key;
  $("axes").replaceChildren(...info.names.map((name, axis) => {
    const row = document.createElement("div");
    row.className = "axis";
    row.dataset.axis = axis;
    const head = document.createElement("div");
    head.className = "head";
    const title = document.createElement("span");
    title.className = "name";
    const size = document.createElement("small");
    size.textContent = grouped(extent(axis));
    title.append(name, size);
    const roles = document.createElement("div");
    roles.className = "choice";
    if (info.shape.length > 1) {
      for (const [role, text] of [["rows", "↓ rows"], ["columns", "→ columns"]]) {
        const made = button(text, `Show ${name} as ${role}`, state[role] === axis, () => setRole(axis, role));
        made.dataset.key = `${axis} ${role}`;
        roles.append(made);
      }
    }
    head.append(title, roles);
    row.append(head);
    if (!isShown(axis)) row.append(buildSlider(axis, name));
    return row;
  }));
  if (focused) $("axes").querySelector(`[data-key="${focused}"]`)?.focus();
  $("profileaxes").replaceChildren(...info.names.map((name, axis) => button(name, `The values along ${name}`, state.along === axis, () => setAlong(axis))));
  tellSliders();
}

function buildSlider(axis, name) {
  const box = document.createElement("div");
  box.className = "slide";
  const play = button("▶", `Play along ${name}`, undefined, () => togglePlay(axis));
  play.className = "play";
  play.setAttribute("aria-label", `Play along ${name}`);
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = 0;
  slider.dataset.key = `${axis} slider`;
  slider.setAttribute("aria-label", name);
  slider.addEventListener("input", () => {
    state.slider = axis;
    moveTo(axis, Number(slider.value));
  });
  box.append(play, slider, document.createElement("output"));
  return box;
}

function tellSliders() {
  for (const row of $("axes").children) {
    const axis = Number(row.dataset.axis);
    row.querySelector("small").textContent = grouped(extent(axis));
    row.classList.toggle("chosen", axis === state.slider && hidden().length > 1);
    const slider = row.querySelector("input");
    if (!slider) continue;
    slider.max = Math.max(0, extent(axis) - 1);
    slider.value = state.at[axis];
    const index = document.createElement("b");
    index.textContent = state.at[axis];
    const text = label(axis, state.at[axis]) ?? "";
    slider.setAttribute("aria-valuetext", text ? `${state.at[axis]}, ${text}` : String(state.at[axis]));
    const count = document.createElement("span");
    count.append(index, ` of ${grouped(extent(axis))}`);
    row.querySelector("output").replaceChildren(count, text ? `${text}${unitsOf(axis)}` : "");
    row.querySelector(".play").textContent = state.playing === axis ? "❚❚" : "▶";
  }
}

function setAlong(axis) {
  state.along = axis;
  for (const [i, made] of [...$("profileaxes").children].entries()) made.setAttribute("aria-pressed", String(i === axis));
  reload("profile");
}

async function togglePlay(axis) {
  if (axis < 0) return;
  if (state.playing === axis) {
    state.playing = -1;
    tellSliders();
    return;
  }
  state.playing = axis;
  state.slider = axis;
  tellSliders();
  while (state.playing === axis && !isShown(axis) && extent(axis) > 1) {
    const pause = new Promise((done) => { setTimeout(done, PLAY_MS); });
    moveTo(axis, (state.at[axis] + 1) % extent(axis));
    await pause;
    while (frames.busy && !frames.now?.long) await new Promise((done) => { setTimeout(done, 10); });
  }
  if (state.playing === axis) state.playing = -1;
  tellSliders();
}

function buildFields() {
  const { choices } = state.info;
  const options = (texts) => texts.map((text, i) => new Option(text, i));
  $("field").replaceChildren(...options(choices.map((one) => `${one.label} · ${one.dtype}`)));
  $("field").value = state.field;
  $("fieldrow").hidden = choices.length < 2 && !choices[0].label;
  const { parts } = choice();
  $("part").replaceChildren(...parts.map((part) => new Option(part, part)));
  $("part").value = state.part;
  $("partrow").hidden = parts.length === 0;
  $("fields").hidden = $("fieldrow").hidden && $("partrow").hidden;
  $("fillvalue").textContent = choice().fill;
  $("range").classList.toggle("wide", choice().kind === "datetime");
}

function setField(field, part) {
  if (field !== state.field) state.fill = !state.info.choices[field].zero;
  $("fill").checked = state.fill;
  state.field = field;
  state.part = part;
  if (state.range === "hold") state.range = "auto";
  const { kind } = choice();
  if (kind === "complex" && part === "phase") setMap("Circle", true);
  else if (state.map === "Circle") setMap("Dusk", true);
  buildFields();
  reload("frame profile value");
}

function setMap(name, quietly) {
  state.map = name;
  $("map").value = name;
  if (quietly) return;
  autoRange();
  recolour();
  remember();
}

function setFill(on) {
  state.fill = on;
  $("fill").checked = on;
  if (picture.frame) {
    counted = summary(picture.frame, on);
    autoRange();
  }
  recolour();
  remember();
}

function setGrid(on) {
  state.onGrid = on;
  $("ongrid").setAttribute("aria-pressed", String(on));
  reload("grid");
}

function setLive(on) {
  state.live = on;
  $("live").setAttribute("aria-pressed", String(on));
  setLost(false);
  news.update();
}

/** Tell whether the array cannot be followed any more, although the reader wishes so. */
function setLost(lost) {
  $("live").classList.toggle("lost", lost);
  $("live").title = lost ? "Not live: see the message above" : "Follow the array while it grows (L)";
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("extarray-view-theme", theme);
  $("theme").textContent = { auto: "System", light: "Light", dark: "Dark" }[theme];
  $("theme").dataset.theme = theme;
  redrawAll();
}

function redrawAll() {
  forgetInk();
  if (!state.info) return;
  picture.draw();
  histogram.draw(counted, look());
  drawProfile();
  drawGrowth();
}

// -- arrays ------------------------------------------------------------------------------------

const saved = () => new URLSearchParams(location.hash.slice(1));
let rememberTimer = 0;

/** Keep the state in the address, behind "#", so that a reload restores it. */
function remember() {
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(rememberNow, 400);
}

function rememberNow() {
  const { name, rows, columns, at, field, part, map, along } = state;
  const fragment = new URLSearchParams({ name, rows, columns, at: at.join(","), field, part, map, along });
  if (state.range === "hold") fragment.set("range", `${state.low},${state.high}`);
  history.replaceState(null, "", `#${fragment}`);
}

/** Show an array, with the wished state as far as it fits. */
async function show(name, wish = new URLSearchParams()) {
  const info = await ask("array", { name });
  state.name = name;
  state.info = info;
  say(null);
  setLost(false);
  labelCache.clear();
  const n = info.shape.length;
  const whole = (key, least, most, other) => {
    const number = wish.has(key) ? Number(wish.get(key)) : NaN;
    return Number.isInteger(number) && number >= least && number <= most ? number : other;
  };
  state.columns = whole("columns", 0, n - 1, n - 1);
  state.rows = n < 2 ? -1 : whole("rows", 0, n - 1, n - 2);
  if (state.rows === state.columns) [state.rows, state.columns] = [n > 1 ? n - 2 : -1, n - 1];
  const wished = wish.get("at") ? wish.get("at").split(",").map(Number) : [];
  state.at = info.shape.map((size, axis) => {
    const middle = isShown(axis) ? Math.floor(size / 2) : 0;
    const index = wished.length === n && Number.isInteger(wished[axis]) ? wished[axis] : middle;
    return Math.max(0, Math.min(index, size - 1));
  });
  state.field = whole("field", 0, info.choices.length - 1, 0);
  state.part = info.choices[state.field].parts.includes(wish.get("part")) ? wish.get("part") : "magnitude";
  state.map = MAPS.includes(wish.get("map")) ? wish.get("map") : "Dusk";
  state.along = whole("along", 0, n - 1, hidden()[0] ?? n - 1);
  state.slider = hidden()[0] ?? -1;
  state.playing = -1;
  const range = (wish.get("range") ?? "").split(",").map(Number);
  state.range = range.length === 2 && range[0] < range[1] ? "hold" : "auto";
  if (state.range === "hold") [state.low, state.high] = range;
  state.fill = !info.choices[state.field].zero;
  counted = null;
  profileData = null;
  chunkMap = null;
  gridMap = null;
  picture.frame = null;
  hover = null;
  $("map").value = state.map;
  $("fill").checked = state.fill;
  buildAll(true);
  reload();
  news.update();
}

function buildAll(reset) {
  const { info } = state;
  document.title = `${info.name} – extarray`;
  $("title").textContent = info.name;
  $("facts").textContent = [info.shape.length ? info.shape.map(grouped).join(" × ") : "no axes", kindOf(info), info.bytes].join("  ·  ");
  $("facts").title = info.dtype;
  const none = info.shape.length === 0;
  buildFields();
  tellInfo();
  $("along").hidden = none;
  $("growthcard").hidden = none;
  $("stage").hidden = none;
  if (none) { showSingle(); return; }
  buildAxes();
  layOut(reset);
  if (isEmpty()) {
    $("value").textContent = "no elements yet";
    $("where").textContent = "";
    $("note").textContent = "";
    picture.frame = null;
    histogram.draw(null, look());
    drawProfile();
    chunkMap = null;
    drawGrowth();
    picture.draw();
  }
  document.body.dataset.revision = String(info.revision);
  document.body.dataset.shape = info.shape.join(",");
}

/** The data type, short. */
function kindOf(info) {
  const { choices } = info;
  return choices[0].label ? `records of ${choices.length} values` : info.dtype;
}

/** An array without axes has one value. */
async function showSingle() {
  $("axes").replaceChildren("This array has no axes: it is one value.");
  $("note").textContent = "";
  histogram.draw(null, look());
  tellValue([], await ask("value", { name: state.name, at: "", field: state.field }));
}

function tellInfo() {
  const { info } = state;
  const rows = [
    ["Chunks", info.chunks.join(" × ")],
    ["Grid", info.grid.join(" × ")],
    ["On disk", info.disk],
    ["Fill value", info.fill],
    ["Order", info.order],
  ];
  if (info.origin.some((n) => n)) rows.push(["Origin", info.origin.join(", ")]);
  for (const line of info.attrs) {
    const cut = line.indexOf(": ");
    rows.push(cut > 0 ? [line.slice(0, cut), line.slice(cut + 2)] : ["", line]);
  }
  $("info").replaceChildren(...rows.flatMap(([name, text]) => {
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = text;
    return [dt, dd];
  }));
}

/** Adopt news: the array has grown, shrunk, or is another one. */
function takeUp(info) {
  const old = state.info;
  if (info.shape.length !== old.shape.length || JSON.stringify(info.choices) !== JSON.stringify(old.choices)) {
    show(state.name);
    return;
  }
  const before = old.shape;
  state.info = info;
  labelCache.clear();
  state.at = state.at.map((index, axis) => {
    // If the last slice was on show, show the new last slice.
    if (!isShown(axis) && before[axis] > 0 && index === before[axis] - 1) return Math.max(0, info.shape[axis] - 1);
    return Math.max(0, Math.min(index + info.origin[axis] - old.origin[axis], info.shape[axis] - 1));
  });
  say(null);
  buildAll(before.some((n) => n === 0));
  $("live").classList.remove("fresh");
  void $("live").offsetWidth;
  $("live").classList.add("fresh");
  reload();
}

const news = new News({
  wanted: () => (state.live && state.info ? { name: state.name, revision: state.info.revision } : null),
  tell: (info) => { setLost(false); takeUp(info); },
  failed: (error) => { setLost(true); failed(error); },
  restored: () => { setLost(false); say(null); },
});

// -- events ------------------------------------------------------------------------------------

function listen() {
  const stage = $("stage");
  let press = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button") || event.button) return;
    press = { x: event.clientX, y: event.clientY, moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    const box = stage.getBoundingClientRect();
    if (press) {
      const [dx, dy] = [event.clientX - press.x, event.clientY - press.y];
      if (press.moved || Math.hypot(dx, dy) > 4) {
        press = { x: event.clientX, y: event.clientY, moved: true };
        stage.classList.add("moved");
        picture.pan(dx, dy);
        picture.draw();
        reload("frame grid");
      }
      return;
    }
    const found = state.info && !isEmpty() ? picture.elementAt(event.clientX - box.x, event.clientY - box.y) : null;
    setHover(found);
  });
  stage.addEventListener("pointerup", (event) => {
    stage.classList.remove("moved");
    const box = stage.getBoundingClientRect();
    if (press && !press.moved && state.info && !isEmpty()) {
      const found = picture.elementAt(event.clientX - box.x, event.clientY - box.y);
      if (found) {
        if (state.rows >= 0) state.at[state.rows] = found.row;
        state.at[state.columns] = found.column;
        moved([state.rows, state.columns]);
      }
    }
    press = null;
  });
  stage.addEventListener("pointercancel", () => { press = null; stage.classList.remove("moved"); });
  stage.addEventListener("pointerleave", () => setHover(null));
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - box.x, event.clientY - box.y);
  }, { passive: false });
  $("in").addEventListener("click", () => zoom(1.6));
  $("out").addEventListener("click", () => zoom(1 / 1.6));
  $("fit").addEventListener("click", () => fit());
  $("map").replaceChildren(...MAPS.map((name) => new Option(name, name)));
  $("map").addEventListener("change", () => setMap($("map").value));
  $("auto").addEventListener("click", () => setRange("auto"));
  $("full").addEventListener("click", () => setRange("full"));
  for (const id of ["low", "high"]) {
    $(id).addEventListener("change", () => {
      const ends = { low: state.low, high: state.high, [id]: parse($(id).value, choice()) };
      const fits = ends.low < ends.high;
      $(id).setAttribute("aria-invalid", String(!fits));
      if (fits) setRange("hold", ends.low, ends.high);
    });
    $(id).addEventListener("blur", () => state.info && recolour());
  }
  $("fill").addEventListener("change", () => setFill($("fill").checked));
  $("field").addEventListener("change", () => setField(Number($("field").value), state.part));
  $("part").addEventListener("change", () => setField(state.field, $("part").value));
  $("ongrid").addEventListener("click", () => setGrid(!state.onGrid));
  $("live").addEventListener("click", () => setLive(!state.live));
  $("help").addEventListener("click", () => $("keys").showModal());
  $("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf($("theme").dataset.theme) + 1) % 3]));
  $("arrays").addEventListener("change", () => show($("arrays").value).catch(failed));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  new ResizeObserver(() => {
    if (!state.info || !state.info.shape.length) return;
    picture.settle();
    redrawAll();
    reload("frame grid");
  }).observe(stage);
  document.addEventListener("keydown", key);
  document.addEventListener("visibilitychange", () => {
    // A slow request holds one of the browser's six connections for all tabs.
    if (document.hidden) frames.giveUp();
    else if (picture.frame?.level > 0) reload("frame");
  });
  window.addEventListener("hashchange", () => {
    // A restarted server has another token, and only this part of its address differs: the browser
    // does not reload the page by itself.
    if (!saved().has("token")) return;
    takeToken();
    if (state.info) rememberNow();
    location.reload();
  });
  setInterval(() => {
    // Elements may be overwritten without news; slow pictures are not checked again.
    if (news.connected && !frames.busy && (picture.frame?.pace ?? 1e9) < 300) {
      frames.want({ again: true });
      values.want([...(hover ?? state.at)]);
    }
  }, AGAIN_MS);
}

function setHover(found) {
  if (!state.info || isEmpty() || !state.info.shape.length) return;
  const before = picture.hover;
  if (before?.row === found?.row && before?.column === found?.column) return;
  picture.hover = found;
  picture.drawOverlay();
  if (found) {
    hover = [...state.at];
    if (state.rows >= 0) hover[state.rows] = found.row;
    hover[state.columns] = found.column;
  } else hover = null;
  values.want([...(hover ?? state.at)]);
}

function zoom(factor, x, y) {
  picture.zoom(factor, x, y);
  picture.draw();
  reload("frame grid");
}

function fit() {
  picture.fit();
  picture.draw();
  reload("frame grid");
}

const KEYS = {
  ArrowLeft: (n) => moveTo(state.columns, state.at[state.columns] - n),
  ArrowRight: (n) => moveTo(state.columns, state.at[state.columns] + n),
  ArrowUp: (n) => moveTo(state.rows, state.at[state.rows] - n),
  ArrowDown: (n) => moveTo(state.rows, state.at[state.rows] + n),
  "[": (n) => moveTo(state.slider, state.at[state.slider] - n),
  "]": (n) => moveTo(state.slider, state.at[state.slider] + n),
  "{": () => moveTo(state.slider, state.at[state.slider] - 10),
  "}": () => moveTo(state.slider, state.at[state.slider] + 10),
  PageUp: () => moveTo(state.slider, state.at[state.slider] - 1),
  PageDown: () => moveTo(state.slider, state.at[state.slider] + 1),
  Home: () => moveTo(state.slider, 0),
  End: () => moveTo(state.slider, extent(state.slider) - 1),
  " ": () => togglePlay(state.slider),
  t: () => state.rows >= 0 && setAxes(state.columns, state.rows),
  "+": () => zoom(1.6),
  "=": () => zoom(1.6),
  "-": () => zoom(1 / 1.6),
  0: fit,
  e: () => { picture.square = !picture.isSquare; fit(); },
  p: () => setAlong((state.along + 1) % state.info.shape.length),
  c: () => setMap(MAPS[(MAPS.indexOf(state.map) + 1) % MAPS.length]),
  a: () => setRange("auto"),
  f: () => setRange("full"),
  g: () => setGrid(!state.onGrid),
  l: () => setLive(!state.live),
  "?": () => $("keys").showModal(),
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !state.info || $("keys").open) return;
  const { target } = event;
  const inText = target.matches("input[type=text], select");
  if (inText) return;
  // Sliders and buttons have their own keys.
  if (target.matches("input[type=range]") && /^(Arrow|Page|Home|End)/.test(event.key)) return;
  if (target.matches("button, summary, input[type=checkbox]") && event.key === " ") return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[1-9]$/.test(name)) {
    const axis = hidden()[Number(name) - 1];
    if (axis !== undefined) { state.slider = axis; tellSliders(); }
    return;
  }
  const action = KEYS[name];
  if (!action || !state.info.shape.length || (isEmpty() && name !== "?" && name !== "l")) return;
  event.preventDefault();
  action(event.shiftKey ? 10 : 1);
}

async function start() {
  let theme = null;
  try { theme = localStorage.getItem("extarray-view-theme"); } catch { /* not kept, then */ }
  listen();
  setTheme(THEMES.includes(theme) ? theme : "auto");
  if (!takeToken()) {
    say("The token is missing. Open the full address printed by extarray view.");
    return;
  }
  try {
    const { arrays, is_folder: isFolder } = await ask("arrays");
    const able = arrays.filter((one) => !one.error);
    if (isFolder) {
      $("choose").hidden = false;
      $("arrays").replaceChildren(...arrays.map((one) => {
        const option = new Option(one.error ? one.name : `${one.name} · ${one.shape.join(" × ") || "no axes"}`, one.name);
        option.disabled = Boolean(one.error);
        option.title = one.error ?? one.dtype;
        return option;
      }));
    }
    if (!able.length) {
      say(arrays[0]?.error ?? "No arrays.");
      return;
    }
    const wish = saved();
    const asked = able.some((one) => one.name === wish.get("name"));
    const name = asked ? wish.get("name") : able[0].name;
    $("arrays").value = name;
    await show(name, asked ? wish : undefined);
  } catch (error) {
    failed(error);
  }
}

start();
