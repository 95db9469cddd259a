// The events between two polls of the cluster, and their list.
import {at, make} from "./dom.js";

const events_max = 60;
const words = {ready: "is ready", starting: "is starting", loading: "is loading", recovering: "is recovering", draining: "is draining", stopped: "has stopped", failed: "has failed"};
const kinds = {ready: "good", failed: "bad", stopped: "bad"};

function of_process(was, is) {
  const because = is.reason ? `: ${is.reason}` : "";
  if (!was) return {who: is.name, what: `${is.name} has joined, ${is.phase}`, kind: "wait"};
  const lives = is.restarts - was.restarts;
  if (lives > 0) {
    const again = is.phase === "ready" ? "and is back" : `and ${words[is.phase]}`;
    return {who: is.name, what: `${is.name} was lost ${again}, restart ${is.restarts}${because}`, kind: is.phase === "failed" ? "bad" : "wait"};
  }
  if (was.phase !== is.phase) return {who: is.name, what: `${is.name} ${words[is.phase] ?? is.phase}${because}`, kind: kinds[is.phase] ?? "wait"};
  if (was.pid !== is.pid && was.pid && is.pid) return {who: is.name, what: `${is.name} is a new process, pid ${is.pid}`, kind: "wait"};
  return null;
}

function of_pipeline(was, is, is_one) {
  const out = [];
  const name = is_one ? "the pipeline" : `pipeline ${is.number}`;
  if (was.load && is.load) {
    const recovered = is.load.recoveries - was.load.recoveries;
    if (recovered > 0) out.push({what: `${name} recovered in ${seconds(is.load.recovery_seconds)}, epoch ${is.load.epochs}: streams resumed`, kind: "good"});
    else if (is.load.epochs > was.load.epochs) out.push({what: `${name} is in epoch ${is.load.epochs}`, kind: "wait"});
    const preempted = is.load.preemptions - was.load.preemptions;
    if (preempted > 0) out.push({what: `${preempted} preempted: KV blocks are scarce`, kind: "wait"});
  }
  if (is.change && is.change !== was.change) out.push({what: `${name}: ${is.change}`, kind: "wait"});
  return out;
}

const seconds = s => s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`;

// Returns [{what, kind: good | wait | bad, who}] for two views of cluster.js.
export function events_between(was, is) {
  const before = new Map(was.nodes.map(n => [n.name, n]));
  const out = is.nodes.map(n => of_process(before.get(n.name), n)).filter(Boolean);
  const now = new Set(is.nodes.map(n => n.name));
  for (const n of was.nodes) if (!now.has(n.name)) out.push({who: n.name, what: `${n.name} has left`, kind: "wait"});
  is.pipelines.forEach((p, i) => was.pipelines[i] && out.push(...of_pipeline(was.pipelines[i], p, is.pipelines.length === 1)));
  return out;
}

const glyphs = {good: "✓", wait: "↻", bad: "✕"};

export function show_event(event) {
  const now = new Date();
  const list = at("events");
  list.prepend(make("li", {class: event.kind},
    make("time", {datetime: now.toISOString()}, now.toLocaleTimeString([], {hour12: false})),
    make("span", {"aria-hidden": "true"}, glyphs[event.kind]), make("span", {}, event.what)));
  while (list.children.length > events_max) list.lastChild.remove();
}
