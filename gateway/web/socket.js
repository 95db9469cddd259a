// The WebSocket of docs/apis/websocket.md, shared by all requests of the page. It is opened for the first request and closed
// after idle_ms without one. If it or the gateway fails, it is opened again and each request resumes at the token that it
// has. Its callback gets {type: "lost"}, or "locked" while a key is required, and then further messages as before.
import {get, socket_address_of} from "./server.js";

const patience_ms = 60_000, idle_ms = 30_000;
const refusals_max = 8; // sockets in a row that were not opened although the server answers
const waits_ms = [0, 100, 200, 400, 800, 1000];
const again = new Set(["not_ready", "draining", "overloaded"]); // from a new gateway

const wait = ms => new Promise(done => setTimeout(done, ms));

export class Connection {
  #key; #locked; #socket = null; #requests = new Map(); #lost_at = 0; #idle; #is_reconnecting = false; #tries = 0; #refusals = 0;

  // `key()`: the API key or ""; `locked()` is called when the server requires another one.
  constructor(key, locked) { this.#key = key; this.#locked = locked; }

  // `take(message)` gets granted, tokens, done and error of the request, and lost.
  start(id, body, take) { this.#open(id, {body, take, from: 0}); }
  // `position`: {resume, from, model} of an earlier request.
  resume(id, position, take) { this.#open(id, {...position, take}); }

  cancel(id) {
    const request = this.#requests.get(id);
    if (!request) return;
    if (this.#is_up()) return this.#send({type: "cancel", id});
    request.take({type: "error", error: {code: "cancelled", message: "stopped"}});
    if (request.resume) request.take = () => {}, request.is_over = true; // cancelled after the reconnection
    else this.#requests.delete(id);
  }

  // Call it after a change of the key.
  unlock() { if (this.#requests.size) this.#reconnect(); }

  #open(id, request) {
    clearTimeout(this.#idle);
    this.#requests.set(id, request);
    if (this.#is_up()) this.#send_request(id, request);
    else if (!this.#socket && !this.#is_reconnecting) this.#connect();
  }

  #is_up() { return this.#socket?.readyState === WebSocket.OPEN; }
  #send(message) { this.#socket.send(JSON.stringify(message)); }

  #send_request(id, r) {
    if (r.resume) this.#send({type: "resume", id, resume: r.resume, from: r.from, ...(r.model && {model: r.model})});
    else this.#send({type: "start", id, ...r.body});
    if (r.is_over) this.#send({type: "cancel", id});
  }

  #connect() {
    const protocols = ["baton"];
    if (this.#key()) protocols.push("bearer." + encodeURIComponent(this.#key()).replace(/[()]/g, c => "%" + c.charCodeAt(0).toString(16)));
    const socket = this.#socket = new WebSocket(socket_address_of("v1/stream"), protocols);
    socket.onopen = () => { this.#refusals = 0; for (const [id, r] of this.#requests) this.#send_request(id, r); };
    socket.onmessage = e => this.#receive(JSON.parse(e.data));
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      ++this.#refusals;
      if (this.#requests.size) this.#reconnect();
    };
  }

  #receive(m) {
    const request = this.#requests.get(m.id);
    if (!request) return;
    if (m.type === "error" && this.#lost_at && again.has(m.error.code) && performance.now() - this.#lost_at < patience_ms) {
      return void setTimeout(() => this.#is_up() && this.#requests.has(m.id) && this.#send_request(m.id, request), waits_ms.at(-2));
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

  // A browser hides why a socket was refused, so this sends an HTTP request first.
  async #reconnect() {
    if (this.#is_reconnecting) return;
    this.#is_reconnecting = true;
    const lost_at = this.#lost_at ||= performance.now();
    for (const r of this.#requests.values()) r.take({type: "lost"});
    for (let status = 0; this.#requests.size && !status;) {
      await wait(waits_ms[Math.min(this.#tries++, waits_ms.length - 1)]);
      status = await this.#probe();
      if (status === 401) {
        this.#is_reconnecting = false;
        this.#lost_at = 0;
        for (const r of this.#requests.values()) r.take({type: "locked"});
        return this.#locked();
      }
      if (performance.now() - lost_at > patience_ms)
        this.#end_all({code: "connection_lost", message: "the server was unreachable for " + patience_ms / 1000 + " s"});
      if (status && this.#refusals > refusals_max)
        this.#end_all({code: "websocket_refused", message: "the server answers, but no WebSocket was opened; a reverse proxy must pass on the headers Host, Upgrade and Connection"});
    }
    this.#is_reconnecting = false;
    if (this.#requests.size) this.#connect();
  }

  async #probe() {
    try { return (await get("v1/models", this.#key())).status; }
    catch { return 0; }
  }

  #end_all(error) {
    const ended = [...this.#requests.values()];
    this.#requests.clear();
    this.#lost_at = this.#tries = this.#refusals = 0;
    for (const r of ended) r.take({type: "error", error});
  }
}
