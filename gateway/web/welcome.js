// The view of an empty conversation: the model, prompts to click, and the lines that call the API from elsewhere.
import {button, make, say} from "./dom.js";
import {address_of} from "./server.js";

const prompts = [
  "Explain in three sentences how a relay race works.",
  "Write a Python function that checks whether a word is a palindrome.",
  "Compare tea and coffee in a small table.",
  "Give me five ideas for a weekend without a screen.",
];
const question = "Hello!";
const shell_quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

// `is_keyed`: the server asks for a key. The key itself never stands here: it comes from the environment.
const curl_of = (model, is_keyed) => [
  `curl ${address_of("v1/chat/completions")}`,
  `-H "Content-Type: application/json"`,
  ...is_keyed ? [`-H "Authorization: Bearer $BATON_API_KEY"`] : [],
  `-d ${shell_quoted(JSON.stringify({model, messages: [{role: "user", content: question}]}))}`,
].join(" \\\n  ");

const python_of = (model, is_keyed) => `${is_keyed ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(address_of("v1"))}, api_key=${is_keyed ? 'os.environ["BATON_API_KEY"]' : '"none"'})
reply = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": ${JSON.stringify(question)}}],
)
print(reply.choices[0].message.content)`;

const languages = [{name: "curl", words: "curl", lines_of: curl_of}, {name: "python", words: "Python", lines_of: python_of}];

let is_keyed = false, names = [], chosen = "", language = languages[0];
let parts;

// `ask(prompt)` sends a prompt, `copy(text)` copies.
export function build(ask, copy) {
  const tabs = languages.map(l => button(l.words, () => choose(l), {id: "api-tab-" + l.name, role: "tab", "aria-controls": "api-lines", onkeydown: on_arrow}));
  const name = make("h2", {id: "welcome-model"});
  const lines = make("code");
  const about = make("p", {id: "api-about"});
  const copies = button("Copy", () => copy(lines.textContent), {class: "plain", "aria-label": "Copy these lines"});
  const api = make("section", {id: "api", "aria-labelledby": "api-title"},
    make("h3", {id: "api-title"}, "Or call it from your code"),
    make("div", {class: "bar"}, make("div", {role: "tablist", "aria-label": "Language"}, ...tabs), copies),
    make("pre", {id: "api-lines", tabindex: 0, role: "tabpanel"}, lines), about);
  const element = make("section", {id: "welcome", "aria-labelledby": "welcome-model"}, name,
    make("p", {}, "Ask something. The answer survives the loss of a stage, a gateway or this page."),
    make("ul", {id: "prompts", "aria-label": "Example prompts"}, ...prompts.map(p => make("li", {}, button(p, () => ask(p))))), api);
  parts = {element, name, lines, about, api, tabs};
  choose(language);
}

function choose(a_language) {
  language = a_language;
  parts.tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(languages[i] === language));
    tab.tabIndex = languages[i] === language ? 0 : -1;
  });
  parts.lines.parentNode.setAttribute("aria-labelledby", "api-tab-" + language.name);
  draw();
}

function on_arrow(e) {
  if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
  e.preventDefault();
  const to = (languages.indexOf(language) + (e.key === "ArrowRight" ? 1 : languages.length - 1)) % languages.length;
  choose(languages[to]);
  parts.tabs[to].focus();
}

function draw() {
  const model = chosen || names[0];
  say(parts.name, model ?? "Waiting for a model…");
  parts.api.hidden = !model;
  if (model) say(parts.lines, language.lines_of(model, is_keyed));
  say(parts.about, is_keyed ? "This server asks for an API key: put yours in the environment variable BATON_API_KEY." : "");
}

// The served models, and the one of the settings or "" for the first.
export function offer(all, model) {
  names = all;
  choose_model(model);
}

export function choose_model(model) {
  chosen = names.includes(model) ? model : "";
  draw();
}

export function want_key() {
  is_keyed = true;
  draw();
}

export const view = () => parts.element;
