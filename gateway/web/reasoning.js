// Separates the reasoning of a model from its answer. The server names the marks with the first text of an answer.
//
//   {open, close, begun, next, answer}   begun: the prompt has the mark `open`. next, answer: marks before an answer, where a family has them.

// Whether `text` may still become `mark`, which is longer.
const may_become = (text, mark) => text.length < mark.length && mark.startsWith(text);

// The longest end of `text` that may still become `mark`.
function unfinished(text, mark) {
  for (let n = Math.min(text.length, mark.length - 1); n > 0; --n) if (mark.startsWith(text.slice(-n))) return n;
  return 0;
}

// -> {reasoning, text} of the answer so far; `is_over`: no more comes.
export function parts_of(raw, marks, is_over) {
  if (!marks) return {reasoning: "", text: raw};
  let rest = raw.trimStart();
  if (rest.startsWith(marks.open)) rest = rest.slice(marks.open.length);
  else if (!is_over && may_become(rest, marks.open)) return {reasoning: "", text: ""};
  else if (!marks.begun) return {reasoning: "", text: without_lead(raw, marks, is_over)};
  const at = rest.indexOf(marks.close);
  if (at < 0) return {reasoning: rest.slice(0, rest.length - (is_over ? 0 : unfinished(rest, marks.close))).trim(), text: ""};
  return {reasoning: rest.slice(0, at).trim(), text: without_lead(rest.slice(at + marks.close.length).trimStart(), marks, is_over)};
}

function without_lead(text, marks, is_over) {
  for (const mark of [marks.next, marks.answer]) {
    if (!mark) continue;
    if (text.startsWith(mark)) text = text.slice(mark.length);
    else if (!is_over && may_become(text, mark)) return "";
  }
  return text;
}
