// The start of the page.

import { rememberNow, saved } from "./address.js";
import { ask, takeToken } from "./api.js";
import { news, setLive, show } from "./arrays.js";
import { whenAxesChange } from "./axes.js";
import { listenToControls, whenFieldChanges } from "./controls.js";
import { key } from "./keys.js";
import { whenLabelsCome } from "./labels.js";
import { frames, reload, values } from "./loading.js";
import { buildModes, listenToModes, suitField, tellChannels } from "./modes.js";
import { failed, say } from "./notices.js";
import { listenToPointer } from "./pointer.js";
import { drawProfile } from "./profiles.js";
import { listenToSaving } from "./saving.js";
import { picture } from "./showing.js";
import { tellSliders } from "./sliders.js";
import { $, shown, state } from "./state.js";
import { drawTable } from "./table.js";
import { redrawAll, setTheme, THEMES } from "./theme.js";

const AGAIN_MS = 2000; // between two checks for overwritten elements

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
  $("arrays").addEventListener("change", () => show($("arrays").value).catch(failed));
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
    // Elements may be overwritten without news; slow pictures are not checked again.
    if (news.connected && !frames.busy && (picture.frame?.pace ?? 1e9) < 300) {
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
