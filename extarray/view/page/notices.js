// Messages to the reader.

import { Refusal } from "./api.js";
import { $ } from "./state.js";

export function failed(error) {
  if (error instanceof Refusal) {
    if (error.status === 403) say("The server does not accept the token. Open the address printed by extarray view.");
    else if (error.status !== 409) say(error.message); // 409: the array has changed; news will tell
  } else if (error instanceof TypeError) {
    say("The server does not respond and has probably stopped. Start extarray view again.");
  } else throw error;
}

export function say(text) {
  $("notice").textContent = text ?? "";
  $("notice").hidden = !text;
}

/** Tell whether the array cannot be followed any more, although the reader wishes so. */
export function setLost(lost) {
  $("live").classList.toggle("lost", lost);
  $("live").title = lost ? "Not live: see the message above" : "Follow the array while it grows (L)";
}
