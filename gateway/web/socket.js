// The WebSocket of docs/apis/websocket.md: one for all requests of the page, opened when there is one and closed when there
// has been none for a while. When it falls, or the gateway behind it, it is opened again and each request goes on from
// the token it has: its taker sees {type: "lost"}, or "locked" while a key is asked for, then what the server says, as if
// nothing had been.
const patience_ms = 60_000, idle_ms = 30_000;
const waits_ms = [0, 100, 200, 400, 800, 1000];
const again = new Set(["not_ready", "draining", "overloaded"]); // of a gateway that has just come

const wait = ms => new Promise(done => setTimeout(done, ms));

export class Line {
  #key; #locked; #socket = null; #requests = new Map(); #lost_at = 0; #idle; #is_coming = false; #tries = 0;

  // `key()`: the API key or ""; `locked()` is called when the server wants another one.
  constructor(key, locked) { this.#key = key; this.#locked = locked; }

  // `take(message)` hears granted, tokens, done and error of it, and lost.
  start(id, body, take) { this.#open(id, {body, take, from: 0}); }
  // `place`: {resume, from, model} of a request that was started once.
  resume(id, place, take) { this.#open(id, {...place, take}); }

  cancel(id) {
    const request = this.#requests.get(id);
    if (!request) return;
    if (this.#is_up()) return this.#send({type: "cancel", id});
    request.take({type: "error", error: {code: "cancelled", message: "stopped"}});
    if (request.resume) request.take = () => {}, request.is_over = true; // cancelled as soon as there is somebody to tell
    else this.#requests.delete(id);
  }

  // There is another key.
  unlock() { if (this.#requests.size) this.#come_back(); }

  #open(id, request) {
    clearTimeout(this.#idle);
    this.#requests.set(id, request);
    if (this.#is_up()) this.#tell(id, request);
    else if (!this.#socket && !this.#is_coming) this.#connect();
  }

  #is_up() { return this.#socket?.readyState === WebSocket.OPEN; }
  #send(message) { this.#socket.send(JSON.stringify(message)); }

  #tell(id, r) {
    if (r.resume) this.#send({type: "resume", id, resume: r.resume, from: r.from, ...(r.model && {model: r.model})});
    else this.#send({type: "start", id, ...r.body});
    if (r.is_over) this.#send({type: "cancel", id});
  }

  #connect() {
    const protocols = ["baton"];
    if (this.#key()) protocols.push("bearer." + encodeURIComponent(this.#key()).replace(/[()]/g, c => "%" + c.charCodeAt(0).toString(16)));
    const socket = this.#socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/v1/stream", protocols);
    socket.onopen = () => { for (const [id, r] of this.#requests) this.#tell(id, r); };
    socket.onmessage = e => this.#hear(JSON.parse(e.data));
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      if (this.#requests.size) this.#come_back();
    };
  }

  #hear(m) {
    const request = this.#requests.get(m.id);
    if (!request) return;
    if (m.type === "error" && this.#lost_at && again.has(m.error.code) && performance.now() - this.#lost_at < patience_ms) {
      return void setTimeout(() => this.#is_up() && this.#requests.has(m.id) && this.#tell(m.id, request), waits_ms.at(-2));
    }
    if (m.type === "granted") request.resume = m.resume;
    if (m.type === "tokens") {
      if (m.index <= request.from) return;
      request.from = m.index;
    }
    if (m.type !== "error") this.#lost_at = this.#tries = 0;
    const is_last = m.type === "error" || (m.type === "done" && m.last);
    if (is_last) this.#requests.delete(m.id);
    if (!this.#requests.size) this.#idle = setTimeout(() => this.#socket?.close(), idle_ms);
    request.take(m);
  }

  // A browser does not tell why a socket was refused, so the server is asked by HTTP first.
  async #come_back() {
    if (this.#is_coming) return;
    this.#is_coming = true;
    const lost_at = this.#lost_at ||= performance.now();
    for (const r of this.#requests.values()) r.take({type: "lost"});
    for (let status = 0; this.#requests.size && !status;) {
      await wait(waits_ms[Math.min(this.#tries++, waits_ms.length - 1)]);
      status = await this.#knock();
      if (status === 401) {
        this.#is_coming = false;
        this.#lost_at = 0;
        for (const r of this.#requests.values()) r.take({type: "locked"});
        return this.#locked();
      }
      if (performance.now() - lost_at > patience_ms)
        this.#end_all({code: "connection_lost", message: "the server has not come back within " + patience_ms / 1000 + " s"});
    }
    this.#is_coming = false;
    if (this.#requests.size) this.#connect();
  }

  async #knock() {
    try { return (await fetch("/v1/models", {headers: this.#key() ? {Authorization: "Bearer " + this.#key()} : {}})).status; }
    catch { return 0; }
  }

  #end_all(error) {
    const ended = [...this.#requests.values()];
    this.#requests.clear();
    this.#lost_at = 0;
    for (const r of ended) r.take({type: "error", error});
  }
}
