// The tree of all arrays and groups there are, with a search, and the attributes of a group.

import { $ } from "./state.js";
import { grouped } from "./text.js";

let told = { arrays: [], groups: [], tree: null };
let nodes = new Map(); // path -> node; "" is the root
let open = new Set([""]);
let current = ""; // the path that has the keyboard's focus
let onShow = null;
let choose = () => {};

/** Call an action with the name of an array that the reader chooses. */
export function whenChosen(action) {
  choose = action;
}

/** The revision of the tree; null: there is none to follow. */
export const revision = () => told.tree;

/** The arrays that can be shown. */
export const able = () => told.arrays.filter((one) => !one.error);

/** Show what there is. */
export function setTree(tree) {
  told = tree;
  nodes = new Map([["", { path: "", name: "", inner: [], array: null, attrs: [] }]]);
  for (const { name, attrs } of tree.groups) group(name).attrs = attrs;
  for (const array of tree.arrays) {
    const cut = array.name.lastIndexOf("/");
    const node = { path: `${array.name}\n`, name: array.name.slice(cut + 1), inner: [], array, attrs: [] };
    nodes.set(node.path, node);
    group(cut < 0 ? "" : array.name.slice(0, cut)).inner.push(node);
  }
  // A small tree is open, a large one is not.
  if (nodes.size <= 60) open = new Set([...nodes.keys(), ...open]);
  drawTree();
}

/** The group of a name, and those around it. */
function group(name) {
  if (nodes.has(name)) return nodes.get(name);
  const cut = name.lastIndexOf("/");
  const node = { path: name, name: name.slice(cut + 1), inner: [], array: null, attrs: [] };
  nodes.set(name, node);
  group(cut < 0 ? "" : name.slice(0, cut)).inner.push(node);
  return node;
}

/** Mark the array on show, and open the groups around it. */
export function markShown(name) {
  onShow = name;
  const parts = name.split("/").slice(0, -1);
  parts.forEach((_, i) => open.add(parts.slice(0, i + 1).join("/")));
  current = `${name}\n`;
  drawTree();
}

const words = () => $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);

/** True if a node, or one in it, has all words in its path, data type or attributes. */
function matches(node, wanted) {
  const { array } = node;
  const text = [node.path, array?.dtype ?? "", array?.shape?.join(" × ") ?? "", ...node.attrs].join("\n").toLowerCase();
  return wanted.every((word) => text.includes(word)) || node.inner.some((one) => matches(one, wanted));
}

function sorted(list) {
  return [...list].sort((a, b) => (a.array === null) - (b.array === null) || a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** Draw the tree anew; the focus stays. */
export function drawTree() {
  const wanted = words();
  const rows = [];
  const make = (node, level) => {
    const item = document.createElement("li");
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-level", String(level));
    item.dataset.path = node.path;
    item.tabIndex = -1;
    const line = document.createElement("span");
    line.className = "line";
    const name = document.createElement("span");
    name.className = "label";
    name.textContent = node.name;
    const about = document.createElement("small");
    line.append(name, about);
    item.append(line);
    if (node.array) {
      const { error, shape, dtype } = node.array;
      about.textContent = error ? "cannot be read" : shape ? shape.join(" × ") || "one value" : "";
      item.title = error ?? (dtype ? `${node.array.name}: ${dtype}` : node.array.name);
      item.setAttribute("aria-selected", String(node.array.name === onShow));
      if (error) item.setAttribute("aria-disabled", "true");
      rows.push(item);
      return item;
    }
    item.classList.add("group");
    item.title = [node.path, ...node.attrs].join("\n");
    const isOpen = wanted.length > 0 || open.has(node.path);
    item.setAttribute("aria-expanded", String(isOpen));
    rows.push(item);
    if (isOpen) {
      const list = document.createElement("ul");
      list.setAttribute("role", "group");
      for (const one of sorted(node.inner)) if (matches(one, wanted)) list.append(make(one, level + 1));
      item.append(list);
    } else about.textContent = String(node.inner.length);
    // Otherwise the name would be the text of all that is in the group.
    item.setAttribute("aria-label", node.name);
    return item;
  };
  const had = $("tree").contains(document.activeElement);
  const top = sorted(nodes.get("")?.inner ?? []).filter((one) => matches(one, wanted));
  $("tree").replaceChildren(...top.map((one) => make(one, 1)));
  const at = rows.find((row) => row.dataset.path === current) ?? rows[0];
  if (at) {
    at.tabIndex = 0;
    if (had) at.focus();
  }
  const count = rows.filter((row) => row.hasAttribute("aria-selected")).length;
  const all = `${told.is_cut ? "the first " : ""}${grouped(told.arrays.length)} array${told.arrays.length === 1 ? "" : "s"}`;
  $("found").textContent = wanted.length ? `${grouped(count)} of ${all}` : all;
  tellGroup();
}

/** Show the attributes of the group that has the focus, or of the outermost one. */
function tellGroup() {
  const at = nodes.get(current);
  const node = at && !at.array ? at : nodes.get("");
  $("groupattrs").hidden = !node?.attrs.length;
  $("groupname").textContent = node?.name ? `Attributes of ${node.name}` : "Attributes of all";
  $("grouplist").replaceChildren(...(node?.attrs ?? []).flatMap((line) => {
    const cut = line.indexOf(": ");
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = cut > 0 ? line.slice(0, cut) : "";
    dd.textContent = cut > 0 ? line.slice(cut + 2) : line;
    return [dt, dd];
  }));
}

const visible = () => [...$("tree").querySelectorAll("[role=treeitem]")];

function focusOn(item) {
  if (!item) return;
  for (const one of visible()) one.tabIndex = one === item ? 0 : -1;
  current = item.dataset.path;
  item.focus();
  item.querySelector(".line").scrollIntoView({ block: "nearest" });
  tellGroup();
}

function toggle(path, on) {
  if (on) open.add(path);
  else open.delete(path);
  drawTree();
}

function act(item) {
  const node = nodes.get(item.dataset.path);
  if (!node) return;
  if (!node.array) toggle(node.path, !open.has(node.path));
  else if (!node.array.error) choose(node.array.name);
}

const MOVES = {
  ArrowDown: (rows, i) => rows[i + 1],
  ArrowUp: (rows, i) => rows[i - 1],
  Home: (rows) => rows[0],
  End: (rows) => rows.at(-1),
};

function key(event) {
  const item = event.target.closest("[role=treeitem]");
  if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = visible();
  const isOpen = item.getAttribute("aria-expanded");
  if (MOVES[event.key]) focusOn(MOVES[event.key](rows, rows.indexOf(item)));
  else if (event.key === "ArrowRight") {
    if (isOpen === "false") toggle(item.dataset.path, true);
    else if (isOpen === "true") focusOn(item.querySelector("[role=treeitem]"));
  } else if (event.key === "ArrowLeft") {
    if (isOpen === "true" && !words().length) toggle(item.dataset.path, false);
    else focusOn(item.parentElement.closest("[role=treeitem]"));
  } else if (event.key === "Enter" || event.key === " ") act(item);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Show or hide the tree. */
export function setTreeOpen(on) {
  $("there").hidden = !on;
  $("toggletree").setAttribute("aria-expanded", String(on));
  document.body.classList.toggle("withtree", on);
}

/** Go to the search, if there is more than one array. */
export function search() {
  if ($("toggletree").hidden) return;
  setTreeOpen(true);
  $("search").focus();
}

/** Follow the reader's input. */
export function listenToTree() {
  $("tree").addEventListener("keydown", key);
  $("tree").addEventListener("click", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    focusOn(item);
    act(item);
  });
  $("search").addEventListener("input", drawTree);
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") focusOn(visible()[0]);
    else if (event.key === "Escape" && $("search").value) {
      $("search").value = "";
      drawTree();
    } else if (event.key === "Enter") {
      const first = visible().find((one) => one.hasAttribute("aria-selected") && !one.hasAttribute("aria-disabled"));
      if (first) act(first);
    } else return;
    event.preventDefault();
  });
  $("toggletree").addEventListener("click", () => setTreeOpen($("there").hidden));
}
