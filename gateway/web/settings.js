// Sampling settings: the fields of the dialog, with the ranges of docs/apis/generation.md, stored by the browser.
import {at, make} from "./dom.js";

const stored = "baton.settings";
// `range` of numbers: [least, most, step]. An empty field is not sent: the model's default applies.
const fields = [
  {name: "model", words: "Model", about: "one of the served models", value: ""},
  {name: "system", words: "System message", about: "instructions for the model", value: "", rows: 3},
  {name: "temperature", words: "Temperature", about: "0 to 2; 0: greedy; empty: the model's default", value: "", range: [0, 2, 0.05]},
  {name: "top_p", words: "Top p", about: "above 0 to 1: sample from the likeliest tokens with this total probability; empty: the model's default", value: "", range: [0.01, 1, 0.01]},
  {name: "top_k", words: "Top k", about: "sample from this many likeliest tokens; 0: all; empty: the model's default", value: "", range: [0, 1_000_000, 1]},
  {name: "min_p", words: "Min p", about: "0 to 1: minimum probability relative to the likeliest token; empty: the model's default", value: "", range: [0, 1, 0.01]},
  {name: "max_tokens", words: "Max tokens", about: "length limit of an answer, from 1", value: 1024, range: [1, 1_000_000, 1]},
  {name: "seed", words: "Seed", about: "an integer; empty: random", value: "", range: [0, Number.MAX_SAFE_INTEGER, 1]},
];

let now = {};
let on_model = () => {};
const inputs = {};

const is_valid = (field, value) => {
  if (!field.range) return typeof value === "string";
  const [least, most, step] = field.range;
  return value === "" ? field.value === "" : Number.isFinite(value) && value >= least && value <= most && (step !== 1 || Number.isInteger(value));
};

// Only the fields that are set.
export const values = () => Object.fromEntries(Object.entries(now).filter(([, v]) => v !== ""));

function change(field) {
  const input = inputs[field.name];
  const value = field.range && input.value !== "" ? Number(input.value) : input.value;
  const is_good = is_valid(field, value) && !(field.range && input.validity.badInput);
  input.setAttribute("aria-invalid", String(!is_good));
  if (!is_good) return; // keeps the last valid value
  now[field.name] = value;
  if (field.name === "model") on_model(value);
  try { localStorage.setItem(stored, JSON.stringify(now)); } catch { /* kept until the page is closed */ }
}

function show() {
  for (const field of fields) {
    inputs[field.name].value = now[field.name];
    inputs[field.name].setAttribute("aria-invalid", "false");
  }
}

export function reset() {
  try { localStorage.removeItem(stored); } catch { /* nothing was stored */ }
  use({});
  on_model("");
}

// The models to choose from; "" means the first one.
export function offer_models(names) {
  const select = inputs.model;
  if (select.options.length === names.length && names.every((n, i) => select.options[i].text === n)) return;
  select.replaceChildren(...names.map((n, i) => make("option", {value: i ? n : ""}, n)));
  if (now.model && !names.includes(now.model)) now.model = "";
  select.value = now.model;
  select.closest("p").hidden = names.length < 2;
}

// `changed(model)` is called when another model is chosen.
export function build(changed) {
  on_model = changed;
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
