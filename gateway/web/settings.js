// How answers are drawn: the fields of the dialog, with the ranges of docs/apis/generation.md, kept by the browser.
import {at, make} from "./dom.js";

const stored = "baton.settings";
// Of numbers [least, most, step]. An empty one says nothing: the model's default is taken.
const fields = [
  {name: "model", words: "Model", about: "of those that are served", value: ""},
  {name: "system", words: "System message", about: "how it is to answer", value: "", rows: 3},
  {name: "temperature", words: "Temperature", about: "0 to 2; 0: always the likeliest token; empty: the model's default", value: "", range: [0, 2, 0.05]},
  {name: "top_p", words: "Top p", about: "above 0 to 1: of the likeliest tokens, so much probability; empty: the model's default", value: "", range: [0.01, 1, 0.01]},
  {name: "top_k", words: "Top k", about: "so many of the likeliest tokens; 0: all; empty: the model's default", value: "", range: [0, 1_000_000, 1]},
  {name: "min_p", words: "Min p", about: "0 to 1: of the likeliest token's probability, at least this share; empty: the model's default", value: "", range: [0, 1, 0.01]},
  {name: "max_tokens", words: "Longest answer", about: "tokens, from 1", value: 1024, range: [1, 1_000_000, 1]},
  {name: "seed", words: "Seed", about: "a whole number; empty: drawn anew each time", value: "", range: [0, Number.MAX_SAFE_INTEGER, 1]},
];

let now = {};
const inputs = {};

const is_valid = (field, value) => {
  if (!field.range) return typeof value === "string";
  const [least, most, step] = field.range;
  return value === "" ? field.value === "" : Number.isFinite(value) && value >= least && value <= most && (step !== 1 || Number.isInteger(value));
};

// Only what says something.
export const values = () => Object.fromEntries(Object.entries(now).filter(([, v]) => v !== ""));

function change(field) {
  const input = inputs[field.name];
  const value = field.range && input.value !== "" ? Number(input.value) : input.value;
  const is_good = is_valid(field, value) && !(field.range && input.validity.badInput);
  input.setAttribute("aria-invalid", String(!is_good));
  if (!is_good) return; // the last good one stays
  now[field.name] = value;
  try { localStorage.setItem(stored, JSON.stringify(now)); } catch { /* for as long as the page lives */ }
}

function show() {
  for (const field of fields) {
    inputs[field.name].value = now[field.name];
    inputs[field.name].setAttribute("aria-invalid", "false");
  }
}

export function reset() {
  try { localStorage.removeItem(stored); } catch { /* nothing was kept */ }
  use({});
}

// The models that may be chosen; the first one is also what "" means.
export function offer_models(names) {
  const select = inputs.model;
  if (select.options.length === names.length && names.every((n, i) => select.options[i].text === n)) return;
  select.replaceChildren(...names.map((n, i) => make("option", {value: i ? n : ""}, n)));
  if (now.model && !names.includes(now.model)) now.model = "";
  select.value = now.model;
  select.closest("p").hidden = names.length < 2;
}

export function build() {
  for (const field of fields) {
    const id = "set-" + field.name;
    const more = {id, "aria-describedby": id + "-about", onchange: () => change(field)};
    const input = field.name === "model" ? make("select", more, make("option", {value: ""}))
      : field.rows ? make("textarea", {...more, rows: field.rows})
      : make("input", {...more, type: "number", min: field.range[0], max: field.range[1], step: field.range[2] === 1 ? 1 : "any", inputmode: "decimal"});
    inputs[field.name] = input;
    at("fields").append(make("p", {}, make("label", {for: id}, field.words), input, make("small", {id: id + "-about"}, field.about)));
  }
  inputs.model.closest("p").hidden = true;
  use(kept());
}

function kept() {
  try { return JSON.parse(localStorage.getItem(stored)) ?? {}; } catch { return {}; }
}

function use(values) {
  now = Object.fromEntries(fields.map(f => [f.name, is_valid(f, values[f.name]) ? values[f.name] : f.value]));
  show();
}
