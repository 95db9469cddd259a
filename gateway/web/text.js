// Shows an answer's Markdown as elements. Model output becomes text nodes and the addresses of checked links only, so HTML is
// shown as text. A growing text changes the elements at its end; what stands before keeps its selection, scroll and focus.
import {Blocks} from "./blocks.js";
import {make} from "./dom.js";
import {inline, words_of} from "./inline.js";

const link_of = part => make("a", {href: part.href, title: part.href, target: "_blank", rel: "noopener noreferrer nofollow"}, ...nodes_of(part.parts));

const nodes_of = parts => parts.map(part => {
  if (typeof part === "string") return document.createTextNode(part);
  return part.kind === "link" ? link_of(part) : make(part.kind, {}, ...part.parts ? nodes_of(part.parts) : [part.text]);
});

// Keeps the nodes that are equal to the new ones; text that is longer is appended.
function write_words(element, text, grows) {
  const nodes = nodes_of(inline(text, grows));
  nodes.forEach((node, i) => {
    const old = element.childNodes[i];
    if (!old) element.append(node);
    else if (old.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) write_data(old, node.data);
    else if (!old.isEqualNode(node)) old.replaceWith(node);
  });
  while (element.childNodes.length > nodes.length) element.lastChild.remove();
}

function write_data(node, text) {
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length)); else node.data = text;
}

const heading_level_max = 6;

// Of each kind: `shell` makes the empty element, `key` names what it depends on, `write` fills it, also again.
const kinds = {
  paragraph: {shell: () => make("p"), write: (e, block) => write_words(e, block.words, block.grows)},
  heading: {
    key: block => block.level, // the page's own headings are above
    shell: block => make("p", {class: `heading level-${block.level}`, role: "heading", "aria-level": Math.min(block.level + 2, heading_level_max)}),
    write: (e, block) => write_words(e, block.words, block.grows),
  },
  rule: {shell: () => make("hr"), write: () => {}},
  quote: {shell: () => make("blockquote"), write: (e, block, copy) => write_parts(e, block.parts, copy)},
  list: {
    key: block => block.start,
    shell: block => make(block.start === undefined ? "ul" : "ol", {start: block.start}),
    write: (e, block, copy) => write_parts(e, block.parts, copy),
  },
  item: {shell: () => make("li"), write: (e, item, copy) => write_parts(e, item.parts, copy)},
  table: {
    key: block => block.sides.join(),
    shell: () => make("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Table"}, make("table", {}, make("thead"), make("tbody"))),
    write: (e, block, copy) => {
      const parts = block.parts.map(row => ({...row, sides: block.sides}));
      write_parts(e.firstChild.firstChild, parts.slice(0, 1), copy);
      write_parts(e.firstChild.lastChild, parts.slice(1), copy);
    },
  },
  row: {
    shell: row => make("tr", {}, ...row.cells.map((_, i) => make(row.is_head ? "th" : "td", {scope: row.is_head ? "col" : null, class: row.sides[i]}))),
    write: (e, row) => row.cells.forEach((cell, i) => write_words(e.children[i], cell, row.grows)),
  },
  code: {
    key: block => block.language,
    shell: (block, copy) => {
      const code = make("code", {}, document.createTextNode(""));
      return make("figure", {class: "code"},
        make("figcaption", {}, make("span", {}, block.language || "code"),
          make("button", {type: "button", class: "plain", "aria-label": "Copy this code", onclick: () => copy(code.textContent)}, "Copy")),
        make("pre", {tabindex: 0, role: "region", "aria-label": "Code"}, code));
    },
    write: (e, block) => write_data(e.lastChild.lastChild.firstChild, block.code),
  },
};

function write_parts(box, parts, copy, from = 0) {
  for (let i = from; i < parts.length; ++i) {
    const part = parts[i], kind = kinds[part.kind];
    const key = `${part.kind} ${kind.key?.(part) ?? ""}`, looks = `${part.grows ? 1 : 0}${part.source}`;
    let element = box.children[i];
    if (element?.key === key && element.looks === looks) continue;
    if (element?.key !== key) {
      const made = kind.shell(part, copy);
      made.key = key;
      if (element) element.replaceWith(made); else box.append(made);
      element = made;
    }
    element.looks = looks;
    kind.write(element, part, copy);
  }
  while (box.children.length > parts.length) box.lastElementChild.remove();
}

// Shows `text`, which only grows, in `box`. `grows`: more may follow. `copy` takes the text of code.
export function show_text(box, text, grows, copy) {
  box.reader ??= new Blocks();
  const {blocks, changed} = box.reader.read(text, grows);
  write_parts(box, blocks, copy, changed);
}

// The words of a block for a screen reader, without marks.
export function spoken(block) {
  if (block.parts) return block.parts.map(spoken).join("\n");
  if (block.cells) return block.cells.map(c => words_of(inline(c))).join(", ");
  return block.code ?? words_of(inline(block.words ?? ""));
}
