// The start of the page.

import { keepToo, rememberNow, saved } from "./address.js";
import { ask, takeToken } from "./api.js";
import { news, seePart, setLive, show, whenListed } from "./arrays.js";
import { whenAxesChange } from "./axes.js";
import { listenToCode } from "./code.js";
import { listenToComparison, lookAgain, offer, other, restore, whenCompared, whenPointed } from "./compare.js";
import { listenToControls, whenFieldChanges } from "./controls.js";
import { key } from "./keys.js";
import { whenLabelsCome } from "./labels.js";
import { frames, reload, values } from "./loading.js";
import { buildModes, listenToModes, suitField, tellChannels } from "./modes.js";
import { failed, say } from "./notices.js";
import { moved, setHover } from "./moving.js";
import { listenToPointer } from "./pointer.js";
import { drawProfile } from "./profiles.js";
import { listenToSaving } from "./saving.js";
import { picture } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { $, shown, state } from "./state.js";
import { drawTable } from "./table.js";
import { redrawAll, setTheme, THEMES } from "./theme.js";
import { able, listenToTree, setTree, setTreeOpen, whenChosen } from "./tree.js";

const AGAIN_MS = 2000; // between two checks for overwritten elements

const isNarrow = () => matchMedia("(max-width: 860px)").matches;

function listen() {
  listenToPointer();
  listenToControls();
  listenToModes();
  listenToSaving();
  whenAxesChange(buildModes);
  whenFieldChanges(suitField);
  whenLabelsCome(() => {
    picture.draw();
    drawProfile();
    tellSliders();
    tellChannels();
    drawTable();
  });
  $("live").addEventListener("click", () => setLive(!state.live));
  $("help").addEventListener("click", () => $("keys").showModal());
  $("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf($("theme").dataset.theme) + 1) % 3]));
  listenToTree();
  listenToCode();
  listenToComparison();
  whenChosen((name) => {
    if (isNarrow()) setTreeOpen(false);
    show(name).catch(failed);
  });
  whenListed(() => offer(able()));
  whenCompared(() => news.update());
  whenPointed(
    (at) => setHover(at && { row: state.rows < 0 ? 0 : at[state.rows], column: at[state.columns] }),
    (at) => { state.at = at; moved([state.rows, state.columns]); },
  );
  keepToo(() => {
    if (other.name === null) return [];
    const all = [["with", other.name], ["how", other.how]];
    if (other.how === "over") all.push(["mix", String(other.mix)]);
    if (!other.same) all.push(["same", "0"]);
    if (other.axes.includes(-1)) all.push(["otherat", other.at.join(",")]);
    return all;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  new ResizeObserver(() => {
    if (!state.info || !state.info.shape.length) return;
    picture.settle();
    redrawAll();
    reload("frame grid");
  }).observe($("stage"));
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
    if (news.connected) lookAgain();
    // Elements may be overwritten without news; slow pictures are not checked again.
    if (news.connected && !state.info.is_still && !frames.busy && (picture.frame?.pace ?? 1e9) < 300) {
      frames.want({ again: true });
      values.want([...(shown.hover ?? state.at)]);
    }
  }, AGAIN_MS);
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
    const tree = await ask("arrays");
    setTree(tree);
    $("toggletree").hidden = !tree.is_folder;
    setTreeOpen(tree.is_folder && !isNarrow());
    const known = able();
    if (!known.length) {
      say(tree.arrays[0]?.error ?? "No arrays.");
      return;
    }
    const wish = saved();
    const asked = known.some((one) => one.name === wish.get("name"));
    const name = asked ? wish.get("name") : known[0].name;
    await show(name, asked ? wish : undefined);
    if (asked) {
      await restore(wish);
      seePart(wish);
    }
    news.update();
  } catch (error) {
    failed(error);
  }
}

start();
