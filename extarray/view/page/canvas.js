// Shared by all drawings: sharp canvases, and the colours of the page.

/** Make a canvas as sharp as the screen; return its context, in CSS pixels, cleared. */
export function sharp(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
  return { context, width, height };
}

let known = null;

/** The colours of the page, by their names. */
export function ink() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = Object.fromEntries(
      ["ground", "surface", "sunken", "line", "ink", "quiet", "accent", "hatch", "cross", "halo"]
        .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
  }
  return known;
}

/** Forget the colours: the theme has changed. */
export function forgetInk() {
  known = null;
  hatching = null;
}

let hatching = null;

/** Thin diagonal lines, the mark of missing numbers. */
export function hatch(context) {
  if (!hatching) {
    const tile = document.createElement("canvas");
    tile.width = 8;
    tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = ink().hatch;
    pen.lineWidth = 1.5;
    for (const shift of [-8, 0, 8]) {
      pen.beginPath();
      pen.moveTo(shift - 1, 9);
      pen.lineTo(shift + 9, -1);
      pen.stroke();
    }
    hatching = context.createPattern(tile, "repeat");
  }
  return hatching;
}

/** Cut a text to a width. */
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && context.measureText(`${text.slice(0, n)}…`).width > width) n -= 1;
  return `${text.slice(0, n)}…`;
}
