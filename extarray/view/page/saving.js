// Files of what is shown: a picture, or all of its elements.

import { askFile } from "./api.js";
import { drawBar } from "./charts.js";
import { ink } from "./canvas.js";
import { visiblePart } from "./code.js";
import { label } from "./labels.js";
import { failed, say } from "./notices.js";
import { look, picture } from "./showing.js";
import { $, choice, hidden, isEmpty, isMixed, mixture, question, shown, state, unitsOf, valuesTitle } from "./state.js";

const TOP = 46;
const BAR = 110;

/** Hand a file to the browser. */
function download(blob, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${state.name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  document.body.dataset.saved = `${link.download} ${blob.size}`;
}

/** The place of the plane along the other axes. */
function sliceText() {
  return hidden().map((axis) => `${state.info.names[axis]} ${state.at[axis]}${label(axis, state.at[axis]) ? ` (${label(axis, state.at[axis])}${unitsOf(axis)})` : ""}`).join(" · ");
}

/** Save the picture with its axes, its title and the bar of its colours. */
export function savePicture() {
  if (!picture.frame || state.mode === "table") {
    say("There is no picture to save: show the elements as colours or as a line.");
    return;
  }
  const { base } = picture;
  const { width, height } = base.getBoundingClientRect();
  const ratio = base.width / width;
  const hasBar = state.mode === "colours" && shown.counted;
  const canvas = document.createElement("canvas");
  canvas.width = base.width + (hasBar ? BAR * ratio : 0);
  canvas.height = base.height + TOP * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = ink().surface;
  context.fillRect(0, 0, width + BAR, height + TOP);
  context.drawImage(base, 0, TOP, width, height);
  const family = getComputedStyle(document.documentElement).fontFamily;
  context.fillStyle = ink().ink;
  context.textBaseline = "middle";
  context.font = `600 14px ${family}`;
  const field = state.info.choices[state.field].label;
  context.fillText([state.info.name, field].filter(Boolean).join(" · "), 14, 16, width);
  context.fillStyle = ink().quiet;
  context.font = `12px ${family}`;
  context.fillText(sliceText(), 14, 34, width);
  context.font = `11px ${family}`;
  if (hasBar) {
    const { top, bottom } = picture.box;
    drawBar(context, { x: width + 4, top: top + TOP, bottom: bottom + TOP, width: 16, room: BAR - 28 }, look(), choice(), valuesTitle());
  }
  canvas.toBlob((blob) => download(blob, "png"), "image/png");
}

/** Save all elements of the part of the plane on show. */
export async function saveElements(format) {
  if (!state.info.shape.length || isEmpty()) {
    say("There are no elements along axes to save.");
    return;
  }
  const [row, rowEnd, column, columnEnd] = visiblePart();
  try {
    download(await askFile("box", {
      ...question(),
      ...(isMixed() ? mixture() : {}),
      format,
      rows: state.rows < 0 ? null : [state.rows, row, rowEnd].join(","),
      columns: [state.columns, column, columnEnd].join(","),
    }), format);
    say(null);
  } catch (error) {
    failed(error);
  }
}

/** Follow the buttons that save. */
export function listenToSaving() {
  $("savepng").addEventListener("click", savePicture);
  $("savecsv").addEventListener("click", () => saveElements("csv"));
  $("savenpy").addEventListener("click", () => saveElements("npy"));
}
