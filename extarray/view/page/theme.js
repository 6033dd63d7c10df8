// Light or dark.

import { forgetInk } from "./canvas.js";
import { drawGrowth } from "./growthmap.js";
import { drawProfile } from "./profiles.js";
import { histogram, look, picture } from "./showing.js";
import { $, choice, shown, state } from "./state.js";

export const THEMES = ["auto", "light", "dark"];

export function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("extarray-view-theme", theme); } catch { /* not kept, then */ }
  $("theme").textContent = { auto: "System", light: "Light", dark: "Dark" }[theme];
  $("theme").dataset.theme = theme;
  redrawAll();
}

export function redrawAll() {
  forgetInk();
  if (!state.info) return;
  picture.draw();
  histogram.draw(shown.counted, look(), choice());
  drawProfile();
  drawGrowth();
}
