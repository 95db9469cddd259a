// The picture: for each pipeline its head and stages, the nodes around them, and the micro-batches in flight. The counters
// give the pace: a round takes the micro-batches in flight divided by the steps per second (Little's law). The animation
// may be slower so that the eye can follow; the caption shows the factor.
import {at, draw, make, say} from "./dom.js";

const head_width = 104, gap = 20, line_px = 17, node_pad = 6, dots_max = 12;
// On a phone, beside the chat, and in the view of the cluster: there each stage has `stage_width`, drawn up to `scale_max` times.
const small = {stages_of_line: 2, width: 370};
const beside = {stages_of_line: 3, width: 460};
const alone = {stages_of_line: 6, stage_width: 158, scale_max: 1.9};
const round_ms_min = 1800, frame_ms = 33, flash_ms = 4000;
const glyphs = {ready: "✓", starting: "…", loading: "…", recovering: "↻", draining: "▽", stopped: "✕", failed: "✕"};
const still = matchMedia("(prefers-reduced-motion: reduce)"), narrow = matchMedia("(max-width: 760px)");

const drawn = []; // per pipeline: {key, svg, parts, round, ...}

const text = (x, y, cls, words = "", end = false) => draw("text", {x, y, class: cls, ...(end && {"text-anchor": "end"})}, words);
const looks = phase => `box ${phase}`;

function stages_of(p) {
  const stages = [];
  for (const shard of p.shards) (stages[shard.place.stage] ??= []).push(shard);
  for (const ranks of stages) ranks.sort((a, b) => a.place.rank - b.place.rank);
  return stages.filter(Boolean);
}

// The node of a stage, if all its ranks share one.
const node_of = ranks => ranks.every(r => r.place.on === ranks[0].place.on) ? ranks[0].place.on : null;
const layers_of = p => p.layers ? `layers ${p.first_layer}–${p.first_layer + p.layers - 1}` : "";

function geometry(stages, size) {
  const columns = Math.min(Math.max(stages.length, 1), size.stages_of_line);
  const ranks = Math.max(...stages.map(s => s.length), 1);
  const around = head_width + gap * columns + node_pad + 10;
  const width = size.width ?? around + size.stage_width * columns;
  const w = (width - around) / columns;
  const h = 98 + line_px * ranks;
  const lines = Math.ceil(stages.length / columns) || 1;
  const place = i => ({x: head_width + gap + (i % columns) * (w + gap), y: 24 + Math.floor(i / columns) * (h + 44)});
  return {columns, width, w, h, lines, place, height: 24 + lines * (h + 44) - 14};
}

// The path of a micro-batch: from the head through all stages, and back below them.
function way(stages, g) {
  const middle = i => g.place(i).y + g.h / 2;
  let d = `M${head_width} ${middle(0)}`;
  stages.forEach((_, i) => {
    if (i && i % g.columns === 0) {
      const between = g.place(i).y - 26;
      d += `H${g.width - 4}V${between}H${head_width + gap / 2}V${middle(i)}`;
    }
    d += `H${g.place(i).x + g.w}`;
  });
  return `${d}H${g.width - 4}V${g.height - 6}H${head_width / 2}V${24 + g.h}`;
}

function box(name, x, y, w, h) {
  const shape = draw("rect", {x, y, width: w, height: h, rx: 7, class: "box"});
  const hatch = draw("rect", {x, y, width: w, height: h, rx: 7, class: "hatch", fill: "url(#hatch)"});
  return {group: draw("g", {"data-name": name}, shape, hatch), shape};
}

function stage_part(ranks, i, g) {
  const {x, y} = g.place(i);
  const {group, shape} = box(ranks.map(r => r.name).join(" "), x, y, g.w, g.h);
  const sign = text(x + g.w - 9, y + 22, "stands", "", true);
  const stands = text(x + 9, y + 42, "stands");
  const first = ranks[0].place;
  const shards = ranks.map((_, r) => text(x + 9, y + 80 + r * line_px, "small"));
  const busy = text(x + 9, y + g.h - 14, "small");
  const bar = draw("rect", {x: x + 9, y: y + g.h - 9, height: 5, rx: 2, width: 0, class: "bar"});
  group.append(text(x + 9, y + 22, "name", `stage ${i}`), sign, stands, text(x + 9, y + 61, "small", layers_of(first)),
    ...shards, busy, draw("rect", {x: x + 9, y: y + g.h - 9, height: 5, rx: 2, width: g.w - 18, class: "rail"}), bar);
  return {group, shape, sign, stands, shards, busy, bar};
}

function node_frames(stages, g) {
  const frames = [];
  for (let i = 0; i < stages.length;) {
    const node = node_of(stages[i]);
    let end = i + 1;
    while (node && end < stages.length && end % g.columns && node_of(stages[end]) === node) ++end;
    if (node) {
      const {x, y} = g.place(i);
      const label = text(x, y - 11, "node");
      const w = g.place(end - 1).x + g.w - x + 2 * node_pad;
      frames.push({node, label, group: draw("g", {}, draw("rect", {x: x - node_pad, y: y - node_pad, width: w, height: g.h + 2 * node_pad, rx: 11, class: "frame"}), label)});
    }
    i = end;
  }
  return frames;
}

function head_part(g) {
  const gateway = box("gateways", 1, 24, head_width - 2, 30);
  const head = box("head", 1, 66, head_width - 2, g.h - 42);
  const words = [text(10, 44, "small"), text(10, 88, "name", "head"), text(10, 108, "small"), text(10, 125, "small")];
  gateway.group.append(words[0]);
  head.group.append(...words.slice(1));
  return {gateway, head, words};
}

function build(stages, size) {
  const g = geometry(stages, size);
  const title = make("h3");
  const caption = make("p", {class: "caption"});
  const hatch = draw("defs", {}, draw("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"}, draw("rect", {width: 2, height: 6, class: "hatching"})));
  const track = draw("path", {d: way(stages, g), class: "track"});
  const frames = node_frames(stages, g);
  const head = head_part(g);
  const parts = stages.map((ranks, i) => stage_part(ranks, i, g));
  const dots = draw("g", {class: "dots"});
  const svg = draw("svg", {viewBox: `0 0 ${g.width} ${g.height}`, role: "img", "aria-labelledby": "picture-words"}, hatch, ...frames.map(f => f.group), track,
    head.gateway.group, head.head.group, ...parts.map(s => s.group), dots);
  if (size.scale_max) svg.style.maxWidth = g.width * size.scale_max + "px";
  return {section: make("section", {class: "pipeline"}, title, svg, caption), title, caption, track, frames, head, parts, dots, svg, g, turn: 0, at: 0, pace: 0};
}

// A model on demand that is not loaded has no picture.
const is_in_memory = p => !p.loads || p.shards.length + p.coming.length > 0;

const worst = ranks => ranks.find(r => r.phase !== "ready")?.phase ?? "ready";

function update_stage(part, ranks, busy, g) {
  const phase = worst(ranks);
  part.shape.parentNode.setAttribute("class", looks(phase));
  say(part.sign, glyphs[phase] ?? "?");
  say(part.stands, phase);
  ranks.forEach((r, i) => say(part.shards[i], [r.name, g.w < 130 ? "" : node_of(ranks) ? r.place.device : r.place.on].filter(Boolean).join(" · ") + (r.restarts ? ` ↻${r.restarts}` : "")));
  say(part.busy, busy === undefined ? "" : `${Math.round(busy * 100)} % busy`);
  part.bar.setAttribute("width", ((busy ?? 0) * (g.w - 18)).toFixed(1));
}

function update_head(head, p, view) {
  const gateways = view.gateways.length;
  const gateway_phase = worst(view.gateways);
  head.gateway.group.setAttribute("class", looks(gateway_phase));
  say(head.words[0], `${gateways > 1 ? gateways + " gateways" : "gateway"} ${glyphs[gateway_phase]}`);
  head.head.group.setAttribute("class", looks(p.head?.phase ?? "starting"));
  head.head.group.dataset.name = p.head?.name ?? "head";
  say(head.words[1], `${p.head?.name ?? "head"} ${glyphs[p.head?.phase] ?? ""}`);
  say(head.words[2], p.load ? `${p.load.running} running` : "");
  say(head.words[3], p.load ? `${p.load.waiting} queued` : "");
}

function update_motion(d, p) {
  const count = Math.min(p.load?.in_flight ?? 0, dots_max);
  while (d.dots.children.length > count) d.dots.lastChild.remove();
  while (d.dots.children.length < count) d.dots.append(draw("circle", {r: 5.5}));
  const round_ms = p.rates?.steps > 0 ? (p.load.in_flight || 1) / p.rates.steps * 1000 : 0;
  d.pace = round_ms && 1 / Math.max(round_ms, round_ms_min);
  const slower = round_ms ? Math.round(round_ms_min / round_ms) : 0;
  const flight = p.load?.in_flight ?? 0;
  const words = [`${flight} micro-batch${flight === 1 ? "" : "es"} in flight`];
  if (p.rates?.steps >= 0.5) words.push(`${p.rates.steps.toFixed(0)} steps/s${slower > 1 && !still.matches ? `, drawn ${slower} times slower` : ""}`);
  if (p.load && count) words.push(`bubble ${Math.round(p.load.bubble_ratio * 100)} %`);
  const coming = p.coming.map(n => `${n.name} ${n.phase}`).join(", ");
  say(d.caption, words.join(" · ") + (coming ? ` · starting: ${coming}` : "") + (p.change ? ` · ${p.change}` : ""));
  if (count) start_moving(); else place_dots(d);
}

function place_dots(d) {
  const length = d.length ??= d.track.getTotalLength();
  const count = d.dots.children.length;
  [...d.dots.children].forEach((dot, i) => {
    const {x, y} = d.track.getPointAtLength((d.turn + i / count) % 1 * length);
    dot.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  });
}

let is_moving = false;
function start_moving() {
  if (is_moving) return;
  is_moving = true;
  requestAnimationFrame(move);
}

function move(now) {
  const busy = drawn.filter(d => d.dots.children.length);
  is_moving = busy.length > 0 && !still.matches && at("cluster").offsetParent !== null;
  for (const d of busy) {
    if (now - d.at < frame_ms && !still.matches) continue;
    if (!still.matches) d.turn = (d.turn + d.pace * Math.min(now - d.at, 100)) % 1;
    d.at = now;
    place_dots(d);
  }
  if (is_moving) requestAnimationFrame(move);
}

const key_of = (stages, size) => JSON.stringify([size, ...stages.map(ranks => ranks.map(r => [r.name, r.place]))]);

let last;
const size_now = () => narrow.matches ? small : document.body.dataset.view === "cluster" ? alone : beside;

// Call it after a change of the layout.
export const fit = () => last && show(last);

export function show(view) {
  last = view;
  const size = size_now();
  const pipelines = view.pipelines.filter(is_in_memory);
  pipelines.forEach((p, i) => {
    const stages = stages_of(p);
    const key = key_of(stages, size);
    if (drawn[i]?.key !== key) {
      const made = {...build(stages, size), key};
      if (drawn[i]) drawn[i].section.replaceWith(made.section); else at("pictures").append(made.section);
      drawn[i] = made;
    }
    const d = drawn[i];
    say(d.title, view.pipelines.length > 1 ? `pipeline ${p.number} · ${p.model} · ${p.phase}${p.reason ? `: ${p.reason}` : ""}` : "");
    d.parts.forEach((part, s) => update_stage(part, stages[s], p.rates?.busy[s], d.g));
    for (const f of d.frames) {
      const agent = view.agents.find(a => a.name === `agent-${f.node}`);
      say(f.label, `node ${f.node}` + (agent && agent.phase !== "ready" ? ` · agent ${glyphs[agent.phase]} ${agent.phase}` : ""));
    }
    update_head(d.head, p, view);
    update_motion(d, p);
  });
  for (const d of drawn.splice(pipelines.length)) d.section.remove();
  say(at("picture-words"), describe(view));
}

function describe(view) {
  return view.pipelines.filter(is_in_memory).map(p => {
    const stages = stages_of(p).map((ranks, i) => `Stage ${i}${ranks[0].place.on ? ` on node ${[...new Set(ranks.map(r => r.place.on))].join(" and ")}` : ""}: ${ranks.map(r => `${r.name} ${r.phase}`).join(", ")}.`);
    return `${p.model || "The pipeline"} is ${p.phase}: ${p.load?.running ?? 0} running, ${p.load?.waiting ?? 0} queued. ${stages.join(" ")}`;
  }).join(" ");
}

// Highlights the box of a process for a while.
export function flash(name, kind) {
  for (const group of document.querySelectorAll("#pictures [data-name]")) {
    if (!group.dataset.name.split(" ").includes(name)) continue;
    const ring = group.firstChild.cloneNode();
    ring.setAttribute("class", `ring ${kind}`);
    group.append(ring);
    setTimeout(() => ring.remove(), flash_ms);
  }
}
