// The profile along an axis, and the value at the cursor or under the pointer.

import { Profile } from "./charts.js";
import { label } from "./labels.js";
import { nth } from "./showing.js";
import { $, choice, extent, isEmpty, shown, state, unitsOf } from "./state.js";
import { grouped } from "./text.js";

export const profile = new Profile($("profile"));

export function drawProfile() {
  if (!state.info || state.along < 0) return;
  profile.draw(isEmpty() ? null : shown.profile, extent(state.along), state.at[state.along], choice(), (i) => label(state.along, i));
  let every = "";
  if (shown.profile && shown.profile.step > 1) {
    every = shown.profile.whole
      ? `least and greatest of every ${grouped(shown.profile.step)}` : `every ${nth(shown.profile.step)} element`;
  }
  $("profilevalue").textContent = every;
}

export function tellValue(at, told) {
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
