// The profile along an axis, and the value at the cursor or under the pointer.

import { Profile } from "./charts.js";
import { axisTicks, label } from "./labels.js";
import { look, nth } from "./showing.js";
import { $, choice, extent, isEmpty, shown, state, unitsOf } from "./state.js";
import { grouped, unitText } from "./text.js";

export const profile = new Profile($("profile"));

export function drawProfile() {
  if (!state.info || state.along < 0) return;
  const ticks = (from, to, most) => axisTicks(state.along, from, to, most);
  const isFlipped = state.along === state.columns && state.flips[state.along];
  profile.draw(isEmpty() ? null : shown.profile, extent(state.along), state.at[state.along], choice(), ticks, look(), isFlipped);
  let every = "";
  if (shown.profile && shown.profile.step > 1) {
    every = shown.profile.whole
      ? `least and greatest of every ${grouped(shown.profile.step)}` : `every ${nth(shown.profile.step)} element`;
  }
  $("profilevalue").textContent = every;
}

/** A place in an array as nodes: the indices along its axes, with their coordinates. */
export function placeText(at, told, info, colours) {
  return info.names.flatMap((name, axis) => {
    if (told.values && axis === colours) return [];
    const index = document.createElement("b");
    index.textContent = at[axis];
    const extra = told.labels[axis] ? ` (${told.labels[axis]}${unitsOf(axis, info)})` : "";
    return [`${name} `, index, extra, "  ·  "];
  }).slice(0, -1);
}

export function tellValue(at, told) {
  const { info } = state;
  $("where").replaceChildren(...placeText(at, told, info, state.colours));
  const text = textOf(told);
  $("value").textContent = withUnits(text, info, state.field);
  $("value").title = told.record || text;
  document.body.dataset.value = text;
}

/** An answer as text: one value, or those of all colours. */
export function textOf(told) {
  return told.values ? told.values.map((value, k) => `${mixedName(k, told.channels[k])} ${value}`).join(" · ") : told.value;
}

/** A text with the units of an array. */
export function withUnits(text, info, field) {
  const units = info.choices[field].label ? "" : unitText(info.units ?? "");
  return units ? `${text} ${units}` : text;
}

/** The name of a channel, or of a colour. */
function mixedName(k, text) {
  return state.mode === "rgb" ? "RGBA"[k] : `${text || `${state.info.names[state.colours]} ${state.channels[k]?.index}`}:`;
}

/** The coordinate of a channel, or its number. */
export function channelName(k) {
  const { index } = state.channels[k];
  return label(state.colours, index) || `${state.info.names[state.colours]} ${index}`;
}
