// Connects the parts of the page: chat, list of conversations, cluster, keyboard.
import * as chat from "./chat.js";
import * as store from "./conversations.js";
import * as loads from "./loads.js";
import * as numbers from "./numbers.js";
import * as picture from "./picture.js";
import * as settings from "./settings.js";
import * as welcome from "./welcome.js";
import {watch} from "./cluster.js";
import {at, button, make, say} from "./dom.js";
import {events_between, show_event} from "./events.js";
import {get} from "./server.js";
import {Connection} from "./socket.js";

const undo_ms = 10_000;
const key = () => at("key").value.trim(); // stored only in its input
let cluster;

function want_key() {
  welcome.want_key();
  if (!at("key-bar").hidden) return;
  at("key-bar").hidden = false;
  at("key").focus();
}

// -- conversations --

function rename(c, item) {
  const input = make("input", {type: "text", value: store.title_of(c), "aria-label": "Title", maxlength: 120});
  const leave = is_kept => { if (is_kept) store.rename(c, input.value); draw_list(); };
  input.addEventListener("keydown", e => {
    if (e.key !== "Enter" && e.key !== "Escape") return;
    e.stopPropagation();
    input.onblur = null;
    leave(e.key === "Enter");
  });
  input.onblur = () => leave(true);
  item.replaceChildren(input);
  input.select();
}

function remove(c) {
  chat.forget(c);
  const again = button("Undo", () => { store.restore(c); at("undo").replaceChildren(); chat.show(c); }, {class: "plain"});
  at("undo").replaceChildren(`“${store.title_of(c)}” is deleted. `, again);
  setTimeout(() => { if (again.isConnected) at("undo").replaceChildren(); }, undo_ms);
}

function item_of(c) {
  const item = make("li");
  const runs = chat.is_running(c) ? make("span", {class: "runs"}, "running…") : null;
  item.append(make("button", {type: "button", class: "title", "aria-current": c === chat.opened() ? "true" : null, onclick: () => { chat.show(c); close_shelf(); }}, store.title_of(c), runs),
    button("✎", () => rename(c, item), {class: "plain", "aria-label": `Rename “${store.title_of(c)}”`}),
    button("✕", () => remove(c), {class: "plain", "aria-label": `Delete “${store.title_of(c)}”`}));
  return item;
}

const draw_list = () => at("conversations").replaceChildren(...store.list().map(item_of));

function step(by) {
  const all = store.list();
  const next = all[all.indexOf(chat.opened()) + by];
  if (next) chat.show(next);
}

function new_conversation() {
  chat.show(store.create());
  close_shelf();
  view("chat");
  at("text").focus();
}

// Returns whether it was open.
function open_shelf(is_open) {
  const was_open = document.body.classList.contains("shelf");
  document.body.classList.toggle("shelf", is_open);
  at("drawer").setAttribute("aria-expanded", String(is_open));
  return was_open;
}
const close_shelf = () => open_shelf(false);

// -- views: on a wide screen the chat has the cluster beside it --

function view(name) {
  document.body.dataset.view = name;
  for (const tab of ["chat", "cluster"]) {
    at("view-" + tab).setAttribute("aria-selected", String(tab === name));
    at("view-" + tab).tabIndex = tab === name ? 0 : -1;
  }
  picture.fit();
}

// -- keyboard --

const shortcuts = [
  ["Enter", "send; Shift+Enter adds a line"],
  ["Esc", "stop the answer; cancel an edit; close a dialog", "Escape", () => open_shelf(false) || chat.leave_editing() || chat.stop()],
  ["Alt+N", "new conversation", "KeyN", new_conversation],
  ["Alt+↑, Alt+↓", "previous, next conversation", "ArrowUp", () => step(-1)],
  [null, null, "ArrowDown", () => step(1)],
  ["Alt+R", "regenerate the last answer", "KeyR", () => chat.regenerate()],
  ["Alt+E", "edit the last message", "KeyE", () => chat.edit()],
  ["Alt+C", "copy the last answer", "KeyC", () => chat.copy()],
  ["Alt+P", "chat or cluster", "KeyP", () => view(document.body.dataset.view === "chat" ? "cluster" : "chat")],
  ["Alt+S", "sampling settings", "KeyS", () => at("settings").showModal()],
  ["/", "focus the message box"],
  ["?", "this help"],
];

function on_key(e) {
  if (serves_workers_alone() || document.querySelector("dialog[open]") || e.ctrlKey || e.metaKey || e.isComposing) return;
  const is_text = e.target.matches("input, textarea, select");
  const found = shortcuts.find(([, , code]) => code === e.code && (e.altKey || code === "Escape"));
  if (found) found[3]();
  else if (is_text || e.altKey) return;
  else if (e.key === "?") at("help").showModal();
  else if (e.key === "/") at("text").focus();
  else return;
  e.preventDefault();
}

// -- cluster --

let before = null, is_away = false;
const serves_workers_alone = () => document.body.dataset.serves === "workers";

// Without an LLM the chat is hidden (page.css) and the table of processes is open.
function show_what_is_served(now) {
  const serves = now.pipelines.length ? "llm" : "workers";
  if (document.body.dataset.serves === serves) return;
  document.body.dataset.serves = serves;
  say(at("numbers-title"), serves === "llm" ? "Tokens per second" : "Counts");
  if (serves === "workers") at("operators").open = at("processes").open = true;
}

const causes = {unreachable: "no answer from the server", key: "an API key is required", forbidden: "the cluster view needs an admin's API key, the chat does not"};

async function name_models() { // allowed without access to the cluster view
  try {
    const reply = await get("v1/models", key());
    if (reply.status === 401) return want_key();
    const names = [...new Set((await reply.json()).data.map(m => m.id))];
    offer_models(names);
    say(at("model"), names.join(", "));
  } catch { /* retried at the next poll */ }
}

function offer_models(names) {
  settings.offer_models(names);
  welcome.offer(names, settings.values().model);
}

// The operator's address shows the cluster without a key, the chat may still need one.
async function notice_key() {
  try { if ((await get("v1/models", "")).status === 401) welcome.want_key(); } catch { /* a request will show it */ }
}

function take(now, why) {
  const phase = now ? now.phase : why === "unreachable" ? "failed" : "starting";
  at("phase").className = phase;
  say(at("phase"), now ? now.phase : why === "unreachable" ? "unreachable" : "not shown");
  say(at("reason"), now ? now.reason ?? "" : causes[why]);
  if (!now) {
    if (why === "key") want_key();
    if (why === "forbidden") name_models();
    if (why === "unreachable" && before && !is_away) show_event({what: "the gateway is unreachable", kind: "bad"});
    is_away ||= why === "unreachable";
    return;
  }
  if (is_away) show_event({what: "the gateway is reachable again", kind: "good"});
  is_away = false;
  show_what_is_served(now);
  const models = now.models.map(m => `${m.name} · ${m.architecture} · ${(m.parameters / 1e6).toFixed(0)} M parameters · context ${m.context_max}`);
  if (models.length) {
    say(at("model"), models.join("; "));
    offer_models([...new Set(now.models.map(m => m.name))]);
  } else if (!now.pipelines.length) say(at("model"), "no LLM: worker models only");
  if (!now.nodes.length) return; // a new gateway that has no status of the cluster yet
  picture.show(now);
  loads.show(now, key);
  numbers.show(now);
  for (const event of before ? events_between(before, now) : []) {
    show_event(event);
    if (event.who) picture.flash(event.who, event.kind);
  }
  before = now;
}

// -- begin --

welcome.build(prompt => { at("text").value = prompt; at("ask").requestSubmit(); at("text").focus(); }, chat.copy);
settings.build(welcome.choose_model);
store.load();
const connection = new Connection(key, want_key);
at("ask").addEventListener("submit", e => { e.preventDefault(); chat.send(); cluster.hurry(); });
at("text").addEventListener("keydown", e => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  if (!chat.is_running(chat.opened())) at("ask").requestSubmit();
});
at("key-bar").addEventListener("submit", e => {
  e.preventDefault();
  at("key-bar").hidden = true;
  connection.unlock();
  cluster.hurry();
  at("text").focus();
});
at("leave-editing").addEventListener("click", chat.leave_editing);
at("new").addEventListener("click", new_conversation);
at("drawer").addEventListener("click", () => open_shelf(!document.body.classList.contains("shelf")));
at("open-settings").addEventListener("click", () => at("settings").showModal());
at("open-help").addEventListener("click", () => at("help").showModal());
at("defaults").addEventListener("click", settings.reset);
for (const tab of ["chat", "cluster"]) {
  at("view-" + tab).addEventListener("click", () => view(tab));
  at("view-" + tab).addEventListener("keydown", e => {
    if (!e.key.startsWith("Arrow")) return;
    const other = tab === "chat" ? "cluster" : "chat";
    view(other);
    at("view-" + other).focus();
  });
}
at("keys").append(...shortcuts.filter(([keys]) => keys).flatMap(([keys, what]) => [make("dt", {}, keys), make("dd", {}, what)]));
document.addEventListener("keydown", on_key);
addEventListener("pagehide", store.save_all);
document.addEventListener("visibilitychange", () => { if (document.hidden) store.save_all(); });
store.follow(chat.is_ours, id => { if (id === chat.opened().id) chat.show(store.find(id) ?? store.create()); else draw_list(); });
chat.begin(connection, draw_list);
cluster = watch(key, take);
notice_key();
