// The sliders of the axes that are not on show.

import { label } from "./labels.js";
import { $, extent, hidden, state, unitsOf } from "./state.js";
import { grouped } from "./text.js";

export function tellSliders() {
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
