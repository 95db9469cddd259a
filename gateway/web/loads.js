// The models on demand: which are in memory, and buttons that load and unload them.
import {at, button, make, say} from "./dom.js";
import {post} from "./server.js";

const words = {unloaded: "not loaded", loading: "loading", ready: "loaded", draining: "unloading"};
const busy = ["loading", "draining"];
const rows = new Map(); // pipeline -> {row, state, change}

const times = (n, what) => n ? `${n} ${what}${n === 1 ? "" : "s"}` : null;

// "loaded · 1 running, 2 waiting · 3 loads, last 0.42 s · 1 eviction"
function state_of({loads, load}) {
  const open = load && (load.running || load.waiting) ? `${load.running} running, ${load.waiting} waiting` : null;
  const last = loads.load_seconds ? `, last ${loads.load_seconds.toFixed(2)} s` : "";
  return [words[loads.phase] ?? loads.phase, open, loads.loads ? times(loads.loads, "load") + last : null, times(loads.failures, "failure"),
    times(loads.evictions, "eviction")].filter(Boolean).join(" · ");
}

async function change(model, path, key) {
  say(at("loads-note"), "");
  try {
    const reply = await post(path, key(), {model});
    if (reply.ok) return;
    const why = reply.status === 401 || reply.status === 403 ? "an admin's API key is required" : (await reply.json()).error?.message;
    say(at("loads-note"), `${model}: ${why ?? `the server answers ${reply.status}`}`);
  } catch {
    say(at("loads-note"), `${model}: no answer from the server`);
  }
}

function row_of(p, key) {
  if (rows.has(p.number)) return rows.get(p.number);
  const state = make("td");
  const made = {state, p, change: button("Load", () => change(made.p.model, made.is_loaded ? "models/unload" : "models/load", key), {class: "plain"})};
  made.row = make("tr", {}, make("th", {scope: "row"}, p.model), state, make("td", {}, made.change));
  at("loads-rows").append(made.row);
  rows.set(p.number, made);
  return made;
}

export function show(view, key) {
  const on_demand = view.pipelines.filter(p => p.loads);
  at("loads").hidden = !on_demand.length;
  for (const p of on_demand) {
    const made = row_of(p, key);
    made.p = p;
    made.is_loaded = p.loads.phase === "ready";
    say(made.state, state_of(p));
    say(made.change, made.is_loaded ? "Unload" : "Load");
    made.change.setAttribute("aria-label", `${made.is_loaded ? "Unload" : "Load"} ${p.model}`);
    made.change.disabled = busy.includes(p.loads.phase);
  }
}
