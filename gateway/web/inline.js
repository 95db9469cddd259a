// Reads the marks inside a line of Markdown: `code`, **bold**, *italic*, ~~struck~~, [links](..), <links> and bare addresses
// (CommonMark 0.31, section 6, without HTML and references). The time is linear in the text.
//
//   parts: a list of strings and {kind: "code", text} | {kind: "strong" | "em" | "del" | "link", parts, href}
const special = /!\[|[\\`*_~[\]<]|https?:\/\//g; // a mark may begin here
const escaped = /[!-/:-@[-`{-~]/;
const address = /https?:\/\/[^\s<>"`|]{1,2048}/y, angled = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const target = /\(\s*(?:<([^<>\n]*)>|((?:[^\s()<>]|\((?:[^\s()]|\([^\s()]*\))*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const target_chars_max = 2048, depth_max = 24, ticks_max = 64;
const schemes = new Set(["http:", "https:", "mailto:"]);

// The address of a link, or null: other schemes, relative addresses and hidden passwords are no links.
export function safe_address(text) {
  if (text.length > target_chars_max) return null;
  try {
    const url = new URL(text.trim());
    return schemes.has(url.protocol) && !url.username && !url.password ? url.href : null;
  } catch { return null; }
}

const symbols = /[\p{P}\p{S}]/u, unspaced = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]/u; // scripts without spaces between words
const is_space = c => !c || c === " " || c === "\n" || (c > "~" && c.trim() === "");
const is_mark = c => Boolean(c) && (c <= "~" ? escaped.test(c) : symbols.test(c));
const is_loose = c => is_space(c) || is_mark(c) || (c > "~" && unspaced.test(c));

// Whether a run of `c` between two characters can open or close an emphasis: CommonMark's flanking rules, but a single *
// inside a word is a product.
function flanks(c, width, before, after) {
  const is_left = !is_space(after) && (!is_mark(after) || is_loose(before));
  const is_right = !is_space(before) && (!is_mark(before) || is_loose(after));
  if (c === "~" || (c === "*" && width > 1)) return {opens: is_left, closes: is_right};
  return {opens: is_left && (!is_right || is_mark(before)), closes: is_right && (!is_left || is_mark(after))};
}

// Runs of backticks by length: the place after the last one, so that a search for a missing end is not repeated.
function last_runs(text) {
  const last = new Map();
  for (const run of text.matchAll(/`+/g)) last.set(run[0].length, run.index);
  return last;
}

function end_of_code(text, from, length) {
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let run = runs.exec(text); run; run = runs.exec(text)) if (run[0].length === length) return run.index;
  return -1;
}

const code_of = text => ({kind: "code", text: /^ .*[^ ].* $/s.test(text) ? text.slice(1, -1) : text});

function match_at(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

// A bare address ends before the punctuation of its sentence, and before a ) that it does not open.
function trim_address(text) {
  let end = text.length;
  let unopened = count(text, ")") - count(text, "(");
  while (end && /[.,:;!?'"*_~)\]]/.test(text[end - 1]) && (text[end - 1] !== ")" || unopened-- > 0)) --end;
  return text.slice(0, end);
}
const count = (text, c) => text.split(c).length - 1;

const flat = node => node.run ? node.run.repeat(node.width) : node;
const kind_of = (run, width) => run === "~" ? "del" : width === 2 ? "strong" : "em";

// Joins pairs of delimiters to emphases and returns the parts. A delimiter that is not in a pair is text.
function join_marks(nodes, grows) {
  const out = [];
  const open = new Map(); // the delimiters that may still be closed, of each kind: their places in `out`
  const stack_of = d => open.get(d.run === "~" ? "~" + d.width : d.run) ?? [];
  const close = (opener, width) => {
    for (const stack of open.values()) while (stack.length && stack.at(-1).place > opener.place) stack.pop();
    const inner = out.splice(opener.place + 1).map(flat);
    const depth = 1 + inner.reduce((most, n) => Math.max(most, n.depth ?? 0), 0);
    opener.width -= width;
    if (!opener.width) {
      stack_of(opener).pop();
      out.pop();
    }
    if (depth > depth_max) out.push(...inner); else out.push({kind: kind_of(opener.run, width), parts: inner, depth});
  };
  for (const node of nodes) {
    if (!node.run) { out.push(node); continue; }
    const mark = {...node, place: 0};
    while (mark.closes && mark.width && stack_of(mark).length) {
      const opener = stack_of(mark).at(-1);
      const width = Math.min(2, opener.width, mark.width);
      close(opener, width);
      mark.width -= width;
    }
    if (!mark.width) continue;
    mark.place = out.push(mark) - 1;
    if (!mark.opens || mark.width > 3) continue;
    const kind = mark.run === "~" ? "~" + mark.width : mark.run;
    if (!open.has(kind)) open.set(kind, []);
    open.get(kind).push(mark);
  }
  const last = grows && open.get("*")?.findLast(o => o.width === 2);
  if (last && last.place < out.length - 1) close(last, 2);
  return out.map(flat);
}

// Adjacent strings become one.
function merged(parts) {
  const out = [];
  for (const part of parts) {
    if (typeof part === "string" && typeof out.at(-1) === "string") out[out.length - 1] += part;
    else if (part !== "") out.push(typeof part === "string" || !part.parts ? part : {...part, parts: merged(part.parts)});
  }
  return out;
}

// Cuts a text into nodes: strings, parts, and delimiters {run, width, opens, closes}. A method for each mark gets the place
// where the mark begins; without a call of #take the mark stays text.
class Scanner {
  #text; #grows; #nodes = []; #brackets = []; #code_ends; #at = 0; #plain = 0; // text before #plain is in #nodes

  constructor(text, grows) {
    this.#text = text;
    this.#grows = grows;
    this.#code_ends = last_runs(text);
  }

  nodes() {
    for (;;) {
      special.lastIndex = this.#at;
      const found = special.exec(this.#text);
      if (!found) break;
      this.#at = found.index + found[0].length;
      this.#read(found[0], found.index);
    }
    this.#flush(this.#text.length);
    return this.#nodes;
  }

  #read(mark, begin) {
    switch (mark) {
    case "\\": return this.#read_escape(begin);
    case "`": return this.#read_code(begin);
    case "<": return this.#read_angled(begin);
    case "[": return this.#open_bracket(begin, false);
    case "![": return this.#open_bracket(begin, true);
    case "]": return this.#close_bracket(begin);
    case "*": case "_": case "~": return this.#read_delimiter(mark, begin);
    default: return this.#read_address(begin);
    }
  }

  #flush(to) { if (to > this.#plain) this.#nodes.push(this.#text.slice(this.#plain, to)); }

  // The text from `from` to `to` is `part`.
  #take(part, from, to) {
    this.#flush(from);
    this.#nodes.push(part);
    this.#at = this.#plain = to;
  }

  #read_escape(begin) {
    const c = this.#text[begin + 1] ?? "";
    if (escaped.test(c)) this.#take(c, begin, begin + 2);
  }

  #read_code(begin) {
    const text = this.#text;
    const length = /^`+/.exec(text.slice(begin, begin + ticks_max))[0].length;
    const from = this.#at = begin + length;
    const end = (this.#code_ends.get(length) ?? -1) >= from ? end_of_code(text, from, length) : -1;
    if (end >= 0) this.#take(code_of(text.slice(from, end)), begin, end + length);
    else if (this.#grows && length === 1 && from < text.length && !this.#brackets.length)
      this.#take({kind: "code", text: text.slice(from)}, begin, text.length);
  }

  #read_delimiter(run, begin) {
    let end = begin + 1;
    while (this.#text[end] === run) ++end;
    const width = end - begin;
    this.#at = end;
    if (run === "~" && width > 2) return;
    this.#take({run, width, ...flanks(run, width, this.#text[begin - 1], this.#text[end])}, begin, end);
  }

  #read_angled(begin) {
    const link = match_at(angled, this.#text, begin);
    const href = link && safe_address(link[1]);
    if (href) this.#take({kind: "link", href, parts: [link[1]]}, begin, begin + link[0].length);
  }

  #read_address(begin) {
    if (this.#brackets.length || /[\w:/@]/.test(this.#text[begin - 1] ?? "")) return;
    const words = trim_address(match_at(address, this.#text, begin)?.[0] ?? "");
    const href = words && safe_address(words);
    if (href) this.#take({kind: "link", href, parts: [words]}, begin, begin + words.length);
  }

  #open_bracket(begin, is_image) {
    this.#take(is_image ? "![" : "[", begin, this.#at);
    this.#brackets.push({place: this.#nodes.length - 1, is_image});
  }

  // An image is a link: the page loads nothing from elsewhere. Inside a link it is its words.
  #close_bracket(begin) {
    const bracket = this.#brackets.pop();
    if (!bracket) return;
    const from = this.#at;
    const link = match_at(target, this.#text, from);
    const is_cut = this.#grows && !link && /^\([^\s)]*$/.test(this.#text.slice(from, from + target_chars_max));
    const href = link && safe_address(link[1] ?? link[2]);
    if (!href && !is_cut) return;
    this.#flush(begin);
    const parts = join_marks(this.#nodes.splice(bracket.place + 1), false);
    this.#nodes.pop();
    if (href && !(bracket.is_image && this.#brackets.length)) this.#nodes.push({kind: "link", href, parts: parts.length ? parts : [href]});
    else this.#nodes.push(...parts);
    if (!bracket.is_image) this.#brackets.length = 0; // no link inside a link
    this.#at = this.#plain = href ? from + link[0].length : this.#text.length;
  }
}

// `grows`: more text may follow, so open marks at the end are shown as if they were complete.
export const inline = (text, grows = false) => merged(join_marks(new Scanner(text, grows).nodes(), grows));

// The words without their marks.
export const words_of = parts => parts.map(p => typeof p === "string" ? p : p.text ?? words_of(p.parts)).join("");
