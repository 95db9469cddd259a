// Converts an answer's text to elements: paragraphs, headings, lists, quotes, code, **bold**, *italic*, `code`. Model output
// becomes text nodes only, so HTML is shown as text and links stay text.
import {make} from "./dom.js";

const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const item = /^\s{0,8}(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const heading = /^(#{1,6})\s+(.*)$/;
const marks = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)\*\*|(?<![*\w])\*(?=\S)([^*]+?)(?<=\S)\*(?![*\w])/s;
const depth_max = 4, inline_chars_max = 4000; // longer text stays plain: the search is quadratic

function inline(text, depth = 0) {
  const parts = [];
  for (let rest = text; rest;) {
    const found = depth < depth_max && text.length <= inline_chars_max && marks.exec(rest);
    if (!found) { parts.push(rest); break; }
    if (found.index) parts.push(rest.slice(0, found.index));
    const [all, , code, bold, italic] = found;
    if (code !== undefined) parts.push(make("code", {}, code));
    else if (bold !== undefined) parts.push(make("strong", {}, ...inline(bold, depth + 1)));
    else parts.push(make("em", {}, ...inline(italic, depth + 1)));
    rest = rest.slice(found.index + all.length);
  }
  return parts;
}

// Splits the text into blocks {kind, source, ...}. The last one may still grow.
export function blocks(text) {
  const out = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length;) {
    const begin = i;
    const add = block => out.push({...block, source: lines.slice(begin, i).join("\n") + "\0" + block.kind});
    const fenced = fence.exec(lines[i]);
    if (fenced) {
      const end = new RegExp("^ {0,3}" + (fenced[1][0] === "`" ? "`" : "~") + "{" + fenced[1].length + ",}\\s*$");
      for (++i; i < lines.length && !end.test(lines[i]);) ++i;
      const code = lines.slice(begin + 1, i).join("\n");
      if (i < lines.length) ++i;
      add({kind: "code", language: fenced[2], code});
    } else if (heading.test(lines[i])) {
      const [, , words] = heading.exec(lines[i++]);
      add({kind: "heading", words});
    } else if (item.test(lines[i])) {
      const first = item.exec(lines[i]);
      const items = [];
      for (; i < lines.length && (item.test(lines[i]) || (/^\s+\S/.test(lines[i]) && !fence.test(lines[i]))); ++i) {
        const one = item.exec(lines[i]);
        if (one) items.push(one[2]); else items[items.length - 1] += "\n" + lines[i].trim();
      }
      add({kind: first[1] ? "ol" : "ul", items, start: first[1]});
    } else if (lines[i].startsWith(">")) {
      while (i < lines.length && lines[i].startsWith(">")) ++i;
      add({kind: "quote", words: lines.slice(begin, i).map(l => l.replace(/^> ?/, "")).join("\n")});
    } else if (!lines[i].trim()) {
      ++i;
    } else {
      const is_else = l => !l.trim() || fence.test(l) || item.test(l) || heading.test(l) || l.startsWith(">");
      for (++i; i < lines.length && !is_else(lines[i]);) ++i;
      add({kind: "paragraph", words: lines.slice(begin, i).join("\n")});
    }
  }
  return out;
}

function element_of(block, copy) {
  switch (block.kind) {
  case "code":
    return make("figure", {class: "code"},
      make("figcaption", {}, make("span", {}, block.language || "code"),
        make("button", {type: "button", class: "plain", "aria-label": "Copy this code", onclick: () => copy(block.code)}, "Copy")),
      make("pre", {tabindex: 0, role: "region", "aria-label": "Code"}, make("code", {}, block.code)));
  case "heading": return make("p", {class: "heading"}, ...inline(block.words));
  case "quote": return make("blockquote", {}, ...inline(block.words));
  case "ol": return make("ol", {start: block.start}, ...block.items.map(t => make("li", {}, ...inline(t))));
  case "ul": return make("ul", {}, ...block.items.map(t => make("li", {}, ...inline(t))));
  default: return make("p", {}, ...inline(block.words));
  }
}

// Shows `text` in `box` and rebuilds only changed blocks. `copy` takes the text of code.
export function show_text(box, text, copy) {
  const now = blocks(text);
  const before = box.sources ?? [];
  now.forEach((block, i) => {
    if (before[i] === block.source) return;
    const made = element_of(block, copy);
    if (box.children[i]) box.children[i].replaceWith(made); else box.append(made);
  });
  while (box.children.length > now.length) box.lastChild.remove();
  box.sources = now.map(b => b.source);
}
