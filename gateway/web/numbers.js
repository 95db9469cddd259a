// The numbers beside the picture: tokens per second over the last minute, meters and counters. Also the processes as a
// table, for screen readers.
import {at, make, say} from "./dom.js";

const minute = []; // {at, rate}
const minute_ms = 60_000;
const sum = (list, f) => list.reduce((n, p) => n + f(p), 0);
const share = (part, whole) => whole ? Math.round(100 * part / whole) + " %" : "–";

function draw_rate(view) {
  const rate = sum(view.pipelines, p => p.rates?.tokens ?? 0);
  minute.push({at: view.at, rate});
  while (minute.length > 1 && view.at - minute[0].at > minute_ms) minute.shift();
  const peak = Math.max(...minute.map(s => s.rate)), top = Math.max(10, peak);
  const points = minute.map(s => `${(240 - (view.at - s.at) / minute_ms * 240).toFixed(1)} ${(46 - s.rate / top * 42).toFixed(1)}`);
  at("rate-line").setAttribute("d", "M" + points.join("L"));
  at("rate-area").setAttribute("d", `M${points[0].split(" ")[0]} 48L${points.join("L")}L240 48Z`);
  say(at("rate-now"), `${rate.toFixed(rate < 100 ? 1 : 0)} now, peak ${peak.toFixed(0)} in the last minute`);
}

function meter(name, used, total, words) {
  const id = "meter-" + name.replace(/\W+/g, "-");
  let box = at(id);
  if (!box) {
    box = make("p", {id, class: "meter"}, make("label", {for: id + "-bar"}, name), make("span", {}), make("meter", {id: id + "-bar", min: 0}));
    at("meters").append(box);
  }
  box.lastChild.max = total || 1;
  box.lastChild.value = used;
  say(box.children[1], words);
}

function draw_meters(loads) {
  const all = name => sum(loads, p => p.load[name]);
  const slots = sum(loads, p => p.slots);
  meter("Requests running", all("running"), slots, `${all("running")} of ${slots || "?"} slots, ${all("waiting")} waiting`);
  meter("KV cache in use", all("blocks_used"), all("blocks_total"), `${all("blocks_used")} of ${all("blocks_total")} blocks`);
  if (all("swap_blocks_total")) meter("Swap file in use", all("swap_blocks_used"), all("swap_blocks_total"), `${all("swap_blocks_used")} of ${all("swap_blocks_total")} blocks, ${all("swapped")} requests swapped out`);
}

// [id, label, value]: one without a value is not shown.
function counts_of(view, loads) {
  const all = name => sum(loads, p => p.load[name]);
  const of_llms = [
    ["steps-per-second", "Steps per second, each a token for every running request", () => sum(loads, p => p.rates.steps).toFixed(0)],
    ["in-flight", "Micro-batches on their way through the stages", () => all("in_flight")],
    ["prompt-tokens", "Prompt tokens read per second", () => sum(loads, p => p.rates.prompt_tokens).toFixed(0)],
    ["prefix-cache", "Prompt tokens found in the prefix cache", () => share(all("prefix_cache_hits"), all("prefix_cache_queries"))],
    ["draft-tokens", "Draft tokens accepted", () => all("spec_decode_draft_tokens") ? share(all("spec_decode_accepted_tokens"), all("spec_decode_draft_tokens")) : undefined],
    ["preemptions", "Requests preempted because KV blocks were scarce", () => all("preemptions") || undefined],
    ["output-tokens", "Tokens written so far", () => all("output_tokens").toLocaleString("en")],
    ["recoveries", "Recoveries from a lost process", () => all("recoveries") + (all("recoveries") ? `, last in ${Math.max(...loads.map(p => p.load.recovery_seconds)).toFixed(2)} s` : "")],
    ["epochs", "Epochs: sessions of the pipeline, one more after each recovery", () => all("epochs")],
  ];
  return [["open-requests", "Open requests", () => view.requests_open], ...view.pipelines.length ? of_llms : [],
    ["restarts", "Processes restarted", () => sum(view.nodes, n => n.restarts)]];
}

function draw_counts(view, loads) {
  for (const [id, label, value] of counts_of(view, loads)) {
    const now = value();
    if (now === undefined) continue;
    if (!at("count-" + id)) at("numbers").append(make("dt", {}, label), make("dd", {id: "count-" + id}));
    say(at("count-" + id), String(now));
  }
}

const computes = p => p ? `stage ${p.stage}${p.rank ? `, rank ${p.rank}` : ""}${p.layers ? `: layers ${p.first_layer} to ${p.first_layer + p.layers - 1}` : ""}` : "";

function draw_table(view) {
  const rows = view.nodes.map(n => {
    const of = n.place && view.pipelines[n.place.pipeline];
    const busy = of?.shards.includes(n) ? of.rates?.busy[n.place.stage] : undefined;
    return [n.name, n.phase + (n.reason ? `: ${n.reason}` : ""), [n.place?.on, n.place?.device].filter(Boolean).join(", "), computes(n.place),
      busy === undefined ? "" : Math.round(busy * 100) + " %", n.restarts, n.pid || ""];
  });
  const body = at("rows");
  while (body.children.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, i) => {
    if (!body.children[i]) body.append(make("tr", {}, make("th", {scope: "row"}), ...cells.slice(1).map(() => make("td"))));
    cells.forEach((words, j) => say(body.children[i].children[j], String(words)));
  });
}

export function show(view) {
  const loads = view.pipelines.filter(p => p.load);
  if (view.pipelines.length) {
    draw_rate(view);
    draw_meters(loads);
  }
  draw_counts(view, loads);
  draw_table(view);
}
