// The open conversation: its turns, the running answers and their actions. A running answer belongs to its turn, shown or
// not. {state: "running", resume, from, index...} is stored with the turn, so a reloaded page resumes at the token that it has.
import * as store from "./conversations.js";
import {Blocks} from "./blocks.js";
import {at, button, make, say} from "./dom.js";
import {parts_of} from "./reasoning.js";
import {body_of} from "./request.js";
import {values} from "./settings.js";
import {show_text, spoken} from "./text.js";
import * as welcome from "./welcome.js";

const spoken_chars_max = 2000;
// Identifies the browser tab: after a reload the tab resumes its own running answers.
const tab = sessionStorage.getItem("baton.tab") ?? store.new_id();
const ends = {stop: "", length: "cut at max_tokens", cancelled: "stopped"};

const waits = {lost: "connection lost, waiting for the server…", locked: "waiting for an API key"};

let connection, on_change;
let open = store.create();
let editing = null; // the turn being edited
const running = new Map(); // id of a turn -> {conversation, turn, reader, spoken: blocks...}
const boxes = new Map();   // id of a shown turn -> {element, text, note}

// `changed()` is called when the list of conversations changes.
export function begin(a_connection, changed) {
  connection = a_connection;
  on_change = changed;
  sessionStorage.setItem("baton.tab", tab);
  for (const c of store.list())
    for (const turn of Object.values(c.turns)) if (turn.state === "running" && turn.tab === tab) resume(c, turn);
  const last = store.find(sessionStorage.getItem("baton.open"));
  show(last ?? store.list()[0] ?? open);
}

export const opened = () => open;
export const is_running = c => [...running.values()].some(r => r.conversation === c);
export const is_ours = id => [...running.values()].some(r => r.conversation.id === id);
const running_here = () => [...running.values()].findLast(r => r.conversation === open);

export function show(c) {
  open = c;
  sessionStorage.setItem("baton.open", c.id);
  leave_editing();
  render(true);
  on_change();
}

// -- turns on the page --

function render(to_end = false) {
  const path = store.path_of(open);
  boxes.clear();
  at("talk").replaceChildren(...path.map(element_of));
  if (!path.length) at("talk").append(welcome.view());
  for (const turn of path) refresh(turn);
  const is_busy = running_here() !== undefined;
  say(at("send"), is_busy ? "Stop" : editing ? "Send again" : "Send");
  at("send").classList.toggle("stop", is_busy);
  if (to_end) at("talk").scrollTop = at("talk").scrollHeight;
}

function element_of(turn) {
  const who = turn.role === "user" ? "You" : turn.model || "Answer";
  const thoughts = make("div");
  const reasoning = make("details", {class: "reasoning", hidden: true}, make("summary", {}, "Reasoning"), thoughts);
  const text = make("div", {class: "text"});
  const note = make("p", {class: "note"});
  const element = make("article", {class: "turn " + turn.role, "aria-label": who}, reasoning, text, note, make("p", {class: "acts"}, ...acts_of(turn)));
  boxes.set(turn.id, {element, reasoning, thoughts, text, note});
  return element;
}

function acts_of(turn) {
  const among = store.beside(open, turn);
  const place = among.indexOf(turn);
  const switch_by = step => { store.choose(open, among[place + step]); render(); };
  const acts = [];
  if (among.length > 1) {
    acts.push(button("‹", () => switch_by(-1), {class: "plain", "aria-label": "Previous version", disabled: place === 0}),
      make("span", {class: "version"}, `${place + 1} / ${among.length}`),
      button("›", () => switch_by(1), {class: "plain", "aria-label": "Next version", disabled: place === among.length - 1}));
  }
  acts.push(button("Copy", () => copy(turn.text), {class: "plain"}));
  const more = {class: "plain", disabled: running_here() !== undefined};
  if (turn.role === "user") acts.push(button("Edit", () => edit(turn), more));
  else if (!running.has(turn.id)) {
    if (turn.state === "running") acts.push(button("Resume", () => { resume(open, turn); render(); }, {class: "plain"}));
    acts.push(button("Regenerate", () => regenerate(turn), more));
  }
  return acts;
}

function note_of(turn) {
  if (turn.role === "user") return "";
  const run = running.get(turn.id);
  if (run) return run.waits ?? (turn.text ? "" : turn.reasoning ? "thinking…" : "…");
  if (turn.state === "running") return "This answer is running in another tab, or was interrupted.";
  if (turn.error) return turn.error;
  const speed = turn.tokens > 1 && turn.seconds ? ` · ${((turn.tokens - 1) / turn.seconds).toFixed(1)} tokens/s` : "";
  const first = turn.first_ms ? ` · first after ${turn.first_ms} ms` : "";
  return [turn.tokens ? `${turn.tokens} tokens${first}${speed}` : "", ends[turn.finish] ?? turn.finish].filter(Boolean).join(" · ");
}

function refresh(turn) {
  const box = boxes.get(turn.id);
  if (!box) return;
  const talk = at("talk");
  const is_at_end = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 60;
  if (turn.role === "user") say(box.text, turn.text); else show_text(box.text, turn.text, running.has(turn.id), copy);
  box.reasoning.hidden = !turn.reasoning;
  say(box.thoughts, turn.reasoning ?? "");
  say(box.note, note_of(turn));
  box.note.className = "note" + (running.get(turn.id)?.waits ? " wait" : turn.error ? " bad" : "");
  box.element.setAttribute("aria-busy", String(running.has(turn.id)));
  if (is_at_end) talk.scrollTop = talk.scrollHeight;
}

const due = new Set();
function refresh_soon(turn) {
  if (!due.size) setTimeout(() => { for (const t of due) refresh(t); due.clear(); }, 33);
  due.add(turn);
}

// A screen reader gets an answer by paragraphs, each once it is complete.
function speak(turn, run, is_over) {
  const {blocks} = run.reader.read(turn.text, !is_over);
  const end = is_over ? blocks.length : blocks.length - 1;
  const from = run.spoken ??= end; // a resumed answer has spoken what it had
  if (end <= from) return;
  run.spoken = end;
  if (boxes.has(turn.id)) at("spoken").textContent = blocks.slice(from, end).map(spoken).join("\n").slice(-spoken_chars_max);
}

// -- asking --

export function send() {
  const now = running_here();
  if (now) return stop();
  const text = at("text").value.trim();
  if (!text) return;
  const parent = editing ? open.turns[editing.parent] : store.path_of(open).at(-1);
  at("text").value = "";
  leave_editing();
  answer(store.add(open, parent, {role: "user", text}));
}

export function stop() {
  const now = running_here();
  if (now) connection.cancel(now.turn.id);
  return Boolean(now);
}

export function regenerate(turn = store.path_of(open).at(-1)) {
  if (running_here() || !turn) return;
  const question = turn.role === "user" ? turn : open.turns[turn.parent];
  if (question) answer(question);
}

function path_to(c, turn) {
  const path = [];
  for (let t = turn; t; t = c.turns[t.parent]) path.unshift(t);
  return path;
}

function answer(question) {
  const conversation = open;
  const turn = store.add(conversation, question, {role: "assistant", state: "running", from: 0, tab, model: values().model});
  turn.body = body_of(path_to(conversation, question), turn.id);
  follow(conversation, turn);
  connection.start(turn.id, turn.body, m => take(conversation, turn, m));
  render(true);
  on_change();
}

// After a reload. Without a ticket the request is sent again under its request_id, so the server treats it as the same.
function resume(conversation, turn) {
  turn.tab = tab;
  follow(conversation, turn);
  const taker = m => take(conversation, turn, m);
  if (turn.resume) connection.resume(turn.id, {resume: turn.resume, from: turn.from, model: turn.model}, taker);
  else connection.start(turn.id, turn.body, taker);
}

function follow(conversation, turn) {
  running.set(turn.id, {conversation, turn, reader: new Blocks(), spoken: turn.text ? null : 0, asked_at: performance.now(), first_at: 0, first_token: 0});
}

function take(conversation, turn, m) {
  const run = running.get(turn.id);
  if (!run) return;
  run.waits = waits[m.type];
  if (m.type === "granted") {
    turn.resume = m.resume;
    delete turn.body;
  }
  if (m.type === "tokens") {
    if (!run.first_at) {
      run.first_at = performance.now();
      run.first_token = m.index;
      if (!turn.from) turn.first_ms = Math.round(run.first_at - run.asked_at);
    }
    if (m.reasoning) Object.assign(turn, {marks: m.reasoning, raw: ""});
    if (turn.marks) Object.assign(turn, {raw: turn.raw + m.text}, parts_of(turn.raw + m.text, turn.marks));
    else turn.text += m.text;
    turn.from = m.index;
    speak(turn, run, false);
  }
  if (m.type === "done") end(turn, run, {state: "done", finish: m.finish_reason, tokens: m.usage.completion_tokens});
  if (m.type === "error") end(turn, run, m.error.code === "cancelled" ? {state: "done", finish: "cancelled", tokens: turn.from} : {state: "failed", error: words_of(m.error)});
  store.save(conversation);
  if (running.has(turn.id)) return refresh_soon(turn);
  speak(turn, run, true);
  if (conversation === open) render();
  on_change();
}

function end(turn, run, how) {
  running.delete(turn.id);
  if (turn.marks) Object.assign(turn, parts_of(turn.raw, turn.marks, true));
  Object.assign(turn, how);
  if (run.first_at && how.tokens > run.first_token) turn.seconds = (performance.now() - run.first_at) / 1000 * (how.tokens - 1) / (how.tokens - run.first_token);
  for (const name of ["resume", "from", "tab", "body", "marks", "raw"]) delete turn[name];
}

function words_of(e) {
  const queue = e.queue_position ? `; ${e.queue_position} waiting` : "";
  const later = e.retry_after ? ` (retry in ${e.retry_after} s${queue})` : "";
  return `${e.code ?? e.type ?? "error"}: ${e.message}${e.param ? ` [${e.param}]` : ""}${later}`;
}

// -- other actions --

export function edit(turn = store.path_of(open).findLast(t => t.role === "user")) {
  if (!turn || running_here()) return;
  editing = turn;
  at("text").value = turn.text;
  at("editing").hidden = false;
  say(at("send"), "Send again");
  at("text").focus();
}

export function leave_editing() {
  if (!editing) return false;
  editing = null;
  at("text").value = "";
  at("editing").hidden = true;
  say(at("send"), running_here() ? "Stop" : "Send");
  return true;
}

export function forget(c) {
  for (const [id, run] of running) if (run.conversation === c) connection.cancel(id), running.delete(id);
  store.remove(c);
  if (c === open) show(store.list()[0] ?? store.create()); else on_change();
}

export async function copy(text = store.path_of(open).findLast(t => t.role === "assistant")?.text) {
  if (!text) return;
  try { await navigator.clipboard.writeText(text); }
  catch { copy_by_hand(text); } // browsers allow it only over https and on localhost
  at("spoken").textContent = "copied";
}

function copy_by_hand(text) {
  const box = make("textarea", {class: "hidden-text", "aria-hidden": "true"});
  const had = document.activeElement;
  box.value = text;
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
  had?.focus();
}
