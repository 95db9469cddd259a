// Splits Markdown into blocks (CommonMark 0.31 and GitHub's tables, without HTML, references and indented code).
//
//   {kind: "paragraph" | "heading", words, level}   {kind: "code", language, code}   {kind: "quote", parts: blocks}
//   {kind: "list", start, parts: [{kind: "item", parts: blocks}]}   {kind: "rule"}
//   {kind: "table", sides: ["left" | "center" | "right"], parts: [{kind: "row", cells}]}, the heads first
//
// Each block and part has `source`: equal sources of the same kind look the same. `grows` marks the part at the end of a text
// that has not ended; it is shown as if its open marks were complete.
const fence = /^( {0,3})(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const item = /^( *)([-*+]|\d{1,9}[.)])( +(?=\S)|$)/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const rule = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const quote = /^ {0,3}> ?/;
const columns = /^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$|^ {0,3}\|? *:?-+:? *\|$/;
const depth_max = 8;

const indent_of = line => line.length - line.trimStart().length;
const with_spaces = line => line.replace(/^[ \t]+/, w => w.replaceAll("\t", "    "));
const is_blank = line => !line.trim();

// Splits a row at each | that has no backslash before it.
function cells_of(line) {
  const cells = [""];
  for (const [piece] of line.trim().matchAll(/\\.|\||[^\\|]+|\\$/g))
    if (piece === "|") cells.push(""); else cells[cells.length - 1] += piece === "\\|" ? "|" : piece;
  if (cells.length > 1 && is_blank(cells[0])) cells.shift();
  if (cells.length > 1 && is_blank(cells.at(-1))) cells.pop();
  return cells.map(c => c.trim());
}

const side_of = cell => cell.endsWith(":") ? cell.startsWith(":") ? "center" : "right" : "left";

function begins_table(lines, i, grows) {
  const is_last = grows && i + 2 === lines.length;
  if (i + 1 < lines.length && lines[i].includes("|")) {
    if (columns.test(lines[i + 1]) && cells_of(lines[i]).length === cells_of(lines[i + 1]).length) return true;
    return is_last && /^ {0,3}\|[ :|-]*$/.test(lines[i + 1]);
  }
  return grows && i + 1 === lines.length && /^ {0,3}\|./.test(lines[i]); // its second line is still to come
}

const ends_paragraph = (lines, i, grows) => is_blank(lines[i]) || fence.test(lines[i]) || heading.test(lines[i]) || rule.test(lines[i]) ||
  quote.test(lines[i]) || is_first_item(lines[i]) || begins_table(lines, i, grows);

// A number other than 1 inside a paragraph is the end of a sentence.
function is_first_item(line) {
  const found = item.exec(line);
  return Boolean(found) && found[3] !== "" && (found[2].length === 1 || /^1[.)]/.test(found[2]));
}

function take_code(lines, i) {
  const [, indent, marks, language] = fence.exec(lines[i]);
  const end = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}\\s*$`);
  const body = [];
  for (++i; i < lines.length && !end.test(lines[i]); ++i) body.push(lines[i].slice(Math.min(indent.length, indent_of(lines[i]))));
  return [{kind: "code", language, code: body.join("\n")}, i + (i < lines.length)];
}

function take_table(lines, begin, grows) {
  const heads = cells_of(lines[begin]);
  const row = (cells, at) => {
    const is_end = grows && at === lines.length - 1;
    return {kind: "row", cells: heads.map((_, c) => cells[c] ?? ""), is_head: at === begin, source: lines[at], grows: is_end};
  };
  const sides = columns.test(lines[begin + 1] ?? "") ? cells_of(lines[begin + 1]).map(side_of) : heads.map(() => "left");
  const parts = [row(heads, begin)];
  let i = begin + 2;
  for (; i < lines.length && !is_blank(lines[i]) && !fence.test(lines[i]) && !heading.test(lines[i]) && !quote.test(lines[i]); ++i)
    parts.push(row(cells_of(lines[i]), i));
  return [{kind: "table", sides, parts}, Math.min(i, lines.length)];
}

// An item has the lines that are further in than its mark. They may be less far in than its text.
function take_item(lines, i, base, depth, grows) {
  const begin = i;
  const [mark] = item.exec(lines[i]);
  let inner = mark.length - base > 5 ? base + 2 : mark.length;
  const own = [lines[i].slice(mark.length)];
  let is_set = false;
  for (++i; i < lines.length; ++i) {
    if (is_blank(lines[i])) { own.push(""); continue; }
    const indent = indent_of(lines[i]);
    const is_inside = item.test(lines[i]) ? indent >= base + 2 : indent > base;
    if (!is_inside) break;
    if (!is_set) inner = Math.min(inner, indent);
    is_set = true;
    own.push(lines[i].slice(Math.min(inner, indent)));
  }
  while (own.length > 1 && own.at(-1) === "") { own.pop(); --i; }
  const is_end = grows && i >= lines.length;
  return [{kind: "item", parts: blocks(own, depth + 1, is_end), source: lines.slice(begin, i).join("\n"), grows: is_end}, i];
}

const kind_of_mark = mark => mark.length === 1 ? mark : mark.at(-1);

function take_list(lines, i, depth, grows) {
  const [, , first] = item.exec(lines[i]);
  const parts = [];
  for (let next = i; next < lines.length;) {
    const found = item.exec(lines[next]);
    if (!found || rule.test(lines[next]) || kind_of_mark(found[2]) !== kind_of_mark(first)) break;
    const [part, end] = take_item(lines, next, found[1].length, depth, grows);
    parts.push(part);
    for (i = next = end; next < lines.length && is_blank(lines[next]);) ++next;
  }
  return [{kind: "list", start: first.length > 1 ? parseInt(first) : undefined, parts}, i];
}

function take_quote(lines, i, depth, grows) {
  const own = [];
  for (; i < lines.length && quote.test(lines[i]); ++i) own.push(lines[i].replace(quote, ""));
  return [{kind: "quote", parts: blocks(own, depth + 1, grows && i === lines.length)}, i];
}

function take_paragraph(lines, i, grows) {
  const begin = i;
  for (++i; i < lines.length && !ends_paragraph(lines, i, grows);) ++i;
  return [{kind: "paragraph", words: lines.slice(begin, i).map(l => l.trimStart()).join("\n").trimEnd()}, i];
}

function take_block(lines, i, depth, grows) {
  const line = lines[i];
  if (fence.test(line)) return take_code(lines, i);
  if (heading.test(line)) {
    const [, marks, words] = heading.exec(line);
    return [{kind: "heading", level: marks.length, words}, i + 1];
  }
  if (rule.test(line)) return [{kind: "rule"}, i + 1];
  if (depth < depth_max && item.test(line)) return take_list(lines, i, depth, grows);
  if (depth < depth_max && quote.test(line)) return take_quote(lines, i, depth, grows);
  if (begins_table(lines, i, grows)) return take_table(lines, i, grows);
  return take_paragraph(lines, i, grows);
}

// `lines` to blocks, each with the lines from `begin` to `end`.
function blocks(lines, depth, grows) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    if (is_blank(lines[i])) { ++i; continue; }
    const [block, end] = take_block(lines, i, depth, grows);
    const is_end = grows && end === lines.length;
    out.push({...block, begin: i, end, source: lines.slice(i, end).join("\n"), grows: is_end});
    i = end;
  }
  return out;
}

// The blocks of a text that only grows. A block is final once two complete lines of a later one stand: no line changes a
// block before the previous line's. So a longer text costs the time of its last blocks.
export class Blocks {
  #blocks = []; #final = 0; #from = 0; // the text from #from on is read again, as the blocks from #final on

  // Returns {blocks, changed}: those before `changed` are as in the call before. `grows`: more text may follow.
  read(text, grows = false) {
    const changed = this.#final;
    const lines = text.slice(this.#from).split("\n").map(with_spaces);
    const fresh = blocks(lines, 0, grows);
    this.#blocks.length = changed;
    this.#blocks.push(...fresh);
    const sure = fresh.findLastIndex(b => b.begin + 1 < lines.length - 1);
    if (sure > 0) {
      this.#final += sure;
      this.#from = place_of_line(text, this.#from, fresh[sure].begin);
    }
    return {blocks: this.#blocks, changed};
  }
}

function place_of_line(text, from, number) {
  for (; number; --number) from = text.indexOf("\n", from) + 1;
  return from;
}
