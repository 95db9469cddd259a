// Conversations, stored by the browser. Each is a tree of turns: a regenerated answer or an edited question is a sibling of
// the previous version. `chosen` selects the shown sibling.
//
//   {id, title, updated, chosen: {parent: turn}, turns: {id: {id, parent, role, text, ...}}}   parent "": the root
const prefix = "baton.conversation.";
const conversations_max = 50, chars_max = 3_000_000; // browsers give a page about 5 million
const save_ms = 300;

const all = new Map();
const unsaved = new Map(); // id -> timer

export const new_id = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(36).padStart(2, "0")).join("");

export const list = () => [...all.values()].sort((a, b) => b.updated - a.updated);
export const find = id => all.get(id);
export const title_of = c => c.title || "New conversation";

// The shown turns, first to last.
export function path_of(c) {
  const turns = [];
  for (let turn = c.turns[c.chosen[""]]; turn && turns.length < 4096; turn = c.turns[c.chosen[turn.id]]) turns.push(turn);
  return turns;
}

export const beside = (c, turn) => Object.values(c.turns).filter(t => t.parent === turn.parent);

export function choose(c, turn) {
  c.chosen[turn.parent] = turn.id;
  save(c);
}

export function add(c, parent, turn) {
  const made = {id: new_id(), parent: parent?.id ?? "", text: "", ...turn};
  c.turns[made.id] = made;
  c.chosen[made.parent] = made.id;
  if (!c.title && made.role === "user") c.title = made.text.replace(/\s+/g, " ").trim().slice(0, 60);
  c.updated = Date.now();
  all.set(c.id, c);
  save(c);
  return made;
}

export const create = () => ({id: new_id(), title: "", updated: Date.now(), chosen: {}, turns: {}});

export function rename(c, title) {
  c.title = title.trim().slice(0, 120) || c.title;
  save(c);
}

export function remove(c) {
  clearTimeout(unsaved.get(c.id));
  unsaved.delete(c.id);
  all.delete(c.id);
  localStorage.removeItem(prefix + c.id);
}

// Saves after a short delay, and when the page is closed.
export function save(c) {
  if (!all.has(c.id) || unsaved.has(c.id)) return;
  unsaved.set(c.id, setTimeout(() => store(c), save_ms));
}

export function save_all() {
  for (const id of [...unsaved.keys()]) store(all.get(id));
}

function store(c) {
  clearTimeout(unsaved.get(c.id));
  unsaved.delete(c.id);
  const text = JSON.stringify(c);
  for (;;) {
    const others = list().filter(o => o !== c);
    const chars = others.reduce((n, o) => n + (o.chars ?? 0), text.length);
    if (others.length < conversations_max && chars <= chars_max) {
      try {
        localStorage.setItem(prefix + c.id, text);
        Object.defineProperty(c, "chars", {value: text.length, writable: true, configurable: true}); // not stored
        return;
      } catch { /* full or disabled */ }
    }
    if (!others.length) return; // kept until the page is closed
    remove(others.at(-1));
  }
}

export const restore = c => { all.set(c.id, c); save(c); };

function read(key) {
  try {
    const text = localStorage.getItem(key);
    const c = JSON.parse(text);
    const is_sound = c.id === key.slice(prefix.length) && c.turns && c.chosen && Number.isFinite(c.updated) &&
      Object.values(c.turns).every(t => typeof t.text === "string" && (t.role === "user" || t.role === "assistant"));
    return is_sound ? Object.defineProperty(c, "chars", {value: text.length, writable: true, configurable: true}) : null;
  } catch { return null; }
}

export function load() {
  for (let i = 0; i < localStorage.length; ++i) {
    const key = localStorage.key(i);
    const c = key.startsWith(prefix) && read(key);
    if (c) all.set(c.id, c);
  }
}

// Calls `on_change(id)` when another page of this server has changed a conversation.
export function follow(is_ours, on_change) {
  addEventListener("storage", e => {
    const id = e.key?.startsWith(prefix) && e.key.slice(prefix.length);
    if (!id || is_ours(id)) return;
    const c = read(e.key);
    if (c) all.set(id, c); else all.delete(id);
    on_change(id);
  });
}
