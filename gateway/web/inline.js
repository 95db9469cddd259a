// Reads the marks inside a line of Markdown: `code`, **bold**, *italic*, ~~struck~~, [links](..), <links> and bare addresses
// (CommonMark 0.31, section 6, without HTML and references). The time is linear in the text.
//
//   parts: a list of strings and {kind: "code", text} | {kind: "strong" | "em" | "del" | "link", parts, href}
const special = /[\\`*_~[\]!<]|https?:\/\//g; // a mark may begin here
const escaped = /[!-/:-@[-`{-~]/;
const address = /https?:\/\/[^\s<>"`|]{1,2048}/y, angled = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const target = /\(\s*(?:<([^<>\n]*)>|((?:[^\s()<>]|\((?:[^\s()]|\([^\s()]*\))*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const target_chars_max = 2048, depth_max = 24;
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

// `grows`: more text may follow, so open marks at the end are shown as if they were complete.
export function inline(text, grows = false) {
  const nodes = [];      // strings, parts and delimiters {run, width, opens, closes}
  const brackets = [];   // places of "[" in nodes
  const code_ends = last_runs(text);
  let at = 0, plain = 0;
  const flush = to => { if (to > plain) nodes.push(text.slice(plain, to)); };
  const take = (part, from, to) => { flush(from); nodes.push(part); at = plain = to; };
  while (at < text.length) {
    special.lastIndex = at;
    const found = special.exec(text);
    if (!found) break;
    const begin = found.index, c = text[begin];
    at = begin + 1;
    if (c === "\\") {
      if (escaped.test(text[at] ?? "")) take(text[at], begin, at + 1);
    } else if (c === "`") {
      const length = /^`+/.exec(text.slice(begin, begin + 64))[0].length;
      at = begin + length;
      const end = (code_ends.get(length) ?? -1) >= at ? end_of_code(text, at, length) : -1;
      if (end >= 0) take(code_of(text.slice(at, end)), begin, end + length);
      else if (grows && length === 1 && at < text.length && !brackets.length) take({kind: "code", text: text.slice(at)}, begin, text.length);
    } else if (c === "*" || c === "_" || c === "~") {
      let end = at;
      while (text[end] === c) ++end;
      const width = end - begin;
      if (c === "~" && width > 2) at = end;
      else take({run: c, width, ...flanks(c, width, text[begin - 1], text[end])}, begin, end);
    } else if (c === "<") {
      const link = match_at(angled, text, begin);
      const href = link && safe_address(link[1]);
      if (href) take({kind: "link", href, parts: [link[1]]}, begin, begin + link[0].length);
    } else if (c === "h") {
      const is_start = !brackets.length && !/[\w:/@]/.test(text[begin - 1] ?? "");
      const words = is_start ? trim_address(match_at(address, text, begin)?.[0] ?? "") : "";
      const href = words && safe_address(words);
      if (href) take({kind: "link", href, parts: [words]}, begin, begin + words.length);
      else at = begin + found[0].length;
    } else if (c === "[") {
      take("[", begin, at);
      brackets.push({place: nodes.length - 1, is_image: false});
    } else if (c === "!" && text[at] === "[") {
      take("![", begin, at + 1);
      brackets.push({place: nodes.length - 1, is_image: true});
    } else if (c === "]") {
      const bracket = brackets.pop();
      if (!bracket) continue;
      const link = match_at(target, text, at);
      const is_cut = grows && !link && /^\([^\s)]*$/.test(text.slice(at, at + target_chars_max));
      const href = link && safe_address(link[1] ?? link[2]);
      if (!href && !is_cut) continue;
      flush(begin);
      const parts = join_marks(nodes.splice(bracket.place + 1), false);
      nodes.pop();
      // An image is a link: the page loads nothing from elsewhere. Inside a link it is its words.
      if (href && !(bracket.is_image && brackets.length)) nodes.push({kind: "link", href, parts: parts.length ? parts : [href]});
      else nodes.push(...parts);
      if (!bracket.is_image) brackets.length = 0; // no link inside a link
      at = plain = href ? at + link[0].length : text.length;
    }
  }
  flush(text.length);
  return merged(join_marks(nodes, grows));
}

// The words without their marks.
export const words_of = parts => parts.map(p => typeof p === "string" ? p : p.text ?? words_of(p.parts)).join("");
