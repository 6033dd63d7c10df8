// Requests to the server.  The token comes with the address, behind "#", and is kept for this tab.

const KEY = "extarray-view-token";

/** Remove the token from the address, and return it; null: no token. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    fragment.delete("token");
    const rest = fragment.toString();
    history.replaceState(null, "", location.pathname + (rest ? `#${rest}` : ""));
  }
  return token();
}

/** The token of this tab; null: no token. */
export const token = () => sessionStorage.getItem(KEY);

/** A refusal of the server, with its reason. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function send(what, query, signal) {
  const url = new URL(`api/${what}`, location.href);
  url.hash = "";
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) url.searchParams.set(key, value);
  }
  const answer = await fetch(url, {
    headers: { Authorization: `Bearer ${token()}` },
    credentials: "omit",
    signal,
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refusal(answer.status, told.error || answer.statusText);
  }
  return answer.status === 204 ? null : answer;
}

/** Ask for facts; null: no news. */
export async function ask(what, query = {}, signal = undefined) {
  const answer = await send(what, query, signal);
  return answer && answer.json();
}

/** Ask for a file. */
export async function askFile(what, query) {
  return (await send(what, query)).blob();
}

const KINDS = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array,
  f4: Float32Array, f8: Float64Array,
};

/** Ask for elements: facts, `buffer`, and `at`, where the numbers begin.  Null: no news. */
async function askBytes(what, query = {}, signal = undefined) {
  const answer = await send(what, query, signal);
  if (!answer) return null;
  const buffer = await answer.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { ...facts, buffer, at: 4 + length };
}

/** Ask for facts, and for the blocks of numbers that `blocks` lists: each a name, type and length. */
export async function askBlocks(what, query) {
  const answer = await askBytes(what, query);
  let at = answer.at;
  for (const [name, code, length] of answer.blocks) {
    answer[name] = new KINDS[code](answer.buffer, at, length);
    at += Math.ceil(answer[name].byteLength / 8) * 8; // each begins at a multiple of 8 bytes
  }
  return answer;
}

/** Tell large integers by their differences from a `zero`, which a double would round. */
function placeZero(facts) {
  facts.zero = facts.exact ? BigInt(facts.exact) : 0n;
  if (facts.exact) facts.base = 0;
}

/** Ask for elements, as numbers: value = zero + base + scale * data[i]. */
export async function askNumbers(what, query, signal) {
  const answer = await askBytes(what, query, signal);
  if (!answer) return null;
  if (answer.constant) {
    // One number stands for all.
    const kind = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[KINDS[answer.code].BYTES_PER_ELEMENT];
    const all = new kind(answer.shape[0] * answer.shape[1] * (answer.channels?.length ?? 1)).fill(new kind(answer.buffer, answer.at, 1)[0]);
    answer.buffer = all.buffer;
    answer.at = 0;
  }
  placeZero(answer);
  answer.data = new KINDS[answer.code](answer.buffer, answer.at, answer.count);
  if (answer.code === "f4") answer.bits = new Uint32Array(answer.buffer, answer.at, answer.data.length);
  if (answer.count !== undefined) {
    // The places of the numbers follow, at a multiple of 8 bytes.
    const end = answer.at + Math.ceil(answer.data.byteLength / 8) * 8;
    answer.places = new Float64Array(answer.buffer, end, answer.count);
  }
  return answer;
}

/** NaN that stands for the fill value. */
export const FILL_BITS = 0x7fc0f111;

/** Keep only the latest request that arrives while another is under way. */
export class Latest {
  constructor(work) {
    this.work = work;
    this.busy = false;
    this.next = null;
    this.now = null;
  }

  /** True while a newer request waits. */
  get stale() {
    return this.next !== null;
  }

  /** Start, or wait for the request under way; abort it at once if it is slow. */
  async want(task) {
    this.next = task;
    this.giveUp();
    if (this.busy) return;
    this.busy = true;
    while (this.next !== null) {
      const one = this.next;
      this.next = null;
      this.now = { controller: new AbortController(), long: false };
      try {
        await this.work(one, this.now);
      } catch (error) {
        if (error.name !== "AbortError") this.failed?.(error);
      }
    }
    this.now = null;
    this.busy = false;
  }

  /** Abort a slow request. */
  giveUp() {
    if (this.now?.long) this.now.controller.abort();
  }
}
