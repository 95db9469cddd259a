// The cluster's state: polls GET /cluster four times a second while requests run, once a second otherwise, and not at all
// while the page is hidden. Converts counters to rates.
import {get} from "./server.js";

const busy_ms = 250, quiet_ms = 1000, window_ms = 1500, lively_ms = 6000, forbidden_ms = 10_000;

const samples = new Map(); // pipeline -> [{at, load}], oldest first
let lively_until = 0, timer, is_looking = false, waits_for_look = false;

// Rates per second over the window; a restarted head starts a new window.
function rates_of(pipeline, load, at) {
  const list = samples.get(pipeline) ?? [];
  if (list.length && (load.steps < list.at(-1).load.steps || load.output_tokens < list.at(-1).load.output_tokens)) list.length = 0;
  list.push({at, load});
  while (list.length > 2 && at - list[1].at >= window_ms) list.shift();
  samples.set(pipeline, list);
  const {at: from, load: then} = list[0];
  const ms = at - from;
  const rate = name => ms ? Math.max(0, load[name] - then[name]) / ms * 1000 : 0;
  return {
    tokens: rate("output_tokens"), prompt_tokens: rate("prompt_tokens"), steps: rate("steps"),
    busy: load.stage_busy_micros.map((b, i) => ms ? Math.min(1, Math.max(0, b - (then.stage_busy_micros[i] ?? 0)) / (ms * 1000)) : 0),
  };
}

// One structure for one or several pipelines: {phase, reason, pipelines: [{model, phase, load, rates, shards, coming, head, loads}], nodes...}
function view_of(c, at) {
  const several = c.pipelines ?? [{pipeline: 0, model: c.models[0]?.name ?? "", phase: c.phase, reason: c.reason, scheduler: c.load}];
  const heads = c.nodes.filter(n => n.role === "head");
  const pipelines = several.map((p, i) => {
    const own = c.nodes.filter(n => n.place?.pipeline === i);
    const generation = c.generations[i] ?? {generation: 0, change: null};
    const card = c.models.find(m => m.name === p.model);
    return {
      number: i, model: p.model, phase: p.phase, reason: p.reason, change: generation.change, loads: generation.on_demand, head: heads[i], slots: card?.sequences_max ?? 0,
      load: p.scheduler, rates: p.scheduler && rates_of(i, p.scheduler, at),
      shards: own.filter(n => n.place.generation === generation.generation),
      coming: own.filter(n => n.place.generation !== generation.generation),
    };
  });
  return {...c, at, pipelines, agents: c.nodes.filter(n => n.role === "agent"), gateways: c.nodes.filter(n => n.role === "gateway")};
}

const is_lively = view => view.requests_open > 0 || view.phase !== "ready" || view.pipelines.some(p => p.load && p.load.running + p.load.waiting > 0);

// Calls `take(view)` after each poll, or `take(null, why)` without a view. `why` is "unreachable", "key" (another key may
// work) or "forbidden".
export function watch(key, take) {
  async function look() {
    is_looking = true;
    waits_for_look = false;
    let pause = quiet_ms;
    try {
      const reply = await get("cluster", key(), {cache: "no-store"});
      if (reply.ok) {
        const view = view_of(await reply.json(), performance.now());
        if (is_lively(view)) lively_until = view.at + lively_ms;
        pause = view.at < lively_until ? busy_ms : quiet_ms;
        take(view);
      } else {
        pause = forbidden_ms;
        take(null, reply.status === 401 ? "key" : reply.status === 403 ? "forbidden" : "unreachable");
      }
    } catch (e) {
      if (!(e instanceof TypeError)) console.error(e); // not a network error: one in drawing
      samples.clear();
      take(null, "unreachable");
      pause = busy_ms;
    }
    is_looking = false;
    timer = setTimeout(() => { if (document.hidden) waits_for_look = true; else look(); }, pause);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waits_for_look && !is_looking) look(); });
  look();
  return {
    // Call it before a request or after a change of the key.
    hurry() {
      lively_until = performance.now() + lively_ms;
      if (is_looking) return;
      clearTimeout(timer);
      look();
    },
  };
}
