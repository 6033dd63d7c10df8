// News of the arrays on show, and of all there are, through a WebSocket.  A hidden tab has none.

import { ask, Refusal, token } from "./api.js";

const MOST_MS = 8000; // between two attempts to connect

/** Facts of arrays as soon as they change. */
export class News {
  /**
   * `wanted()` returns the names and revisions of the arrays that the page shows, and the revision
   * of the list that it knows, or null if it wants no news; `tell(facts)` receives facts of an
   * array, `list(tree)` a new list, `failed(error, name)` an error, and `restored()` marks its end.
   */
  constructor({ wanted, tell, list, failed, restored }) {
    Object.assign(this, { wanted, tell, list, failed, restored });
    this.socket = null;
    this.timer = 0;
    this.faults = 0;
    document.addEventListener("visibilitychange", () => this.update());
  }

  /** True if the server is sending news. */
  get connected() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** Connect, disconnect, or tell the server the state that the page knows. */
  update() {
    const known = document.hidden ? null : this.wanted();
    if (!known) this.#disconnect();
    else if (!this.socket) this.#connect();
    else if (this.connected) this.socket.send(JSON.stringify(known));
  }

  #connect() {
    clearTimeout(this.timer);
    const url = new URL("api/news", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.hash = "";
    // The second is no protocol: a WebSocket can show the token in no other header.
    const socket = new WebSocket(url, ["extarray-view", token()]);
    this.socket = socket;
    socket.addEventListener("open", () => {
      if (socket !== this.socket) return;
      if (this.faults) this.restored();
      this.faults = 0;
      this.update();
    });
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      const news = JSON.parse(event.data);
      const wanted = this.wanted();
      if (news.tree !== undefined) {
        if (wanted) this.list(news);
        return;
      }
      if (!wanted?.arrays.some((one) => one.name === news.name)) return;
      if (news.error) this.failed(new Refusal(0, news.error), news.name);
      else this.tell(news);
    });
    socket.addEventListener("close", () => {
      if (socket === this.socket) this.#lost();
    });
  }

  #disconnect() {
    clearTimeout(this.timer);
    const { socket } = this;
    this.socket = null;
    socket?.close();
  }

  /** Connect again after a while. */
  async #lost() {
    this.socket = null;
    this.faults += 1;
    const again = () => this.update();
    this.timer = setTimeout(again, Math.min(MOST_MS, 250 * 2 ** this.faults));
    const known = this.wanted();
    if (!known) return;
    try {
      // Ask, because the browser does not say why a WebSocket was refused.
      const facts = await ask("array", { name: known.arrays[0].name });
      const now = this.wanted()?.arrays.find((one) => one.name === facts.name);
      if (now && facts.revision !== now.revision) this.tell(facts);
    } catch (error) {
      // A new server in place of the old one has another token, which the page has to be given.
      if (error.status === 403) clearTimeout(this.timer);
      this.failed(error, known.arrays[0].name);
    }
  }
}
