#!/usr/bin/env python3
"""Writes apply.json: prompts and their ids from transformers' own apply_chat_template, for conversations with all of its template
variables. The unit test is compared with it, and so is a cluster that serves tests/data/model/checkpoint with a template of apply/. Run it
by hand after a change here: pip install transformers jinja2; python3 make_apply_goldens.py"""
import json
import pathlib

import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent / "model/checkpoint"
ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sky blue?"}]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <two>", "parameters": {
    "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}]
CALLED = [*ASK, {"role": "assistant", "content": "So:", "tool_calls": [{"id": "a1", "type": "function", "function": {
    "name": "add", "arguments": {"x": 2.5, "to": ["Zürich", None, True]}}}]}, {"role": "tool", "content": "5", "tool_call_id": "a1"}]
DOCUMENTS = [{"title": "Light", "text": "Blue is scattered."}, {"title": "Air", "text": "Thin."}]
KWARGS = {"greeting": {"words": ["Hi", "you"], "sep": "-"}, "limits": [41, 2], "ratio": 0.5}


def begun(text):
    return [*ASK, {"role": "assistant", "content": text}]


# template, then the fields of a request
ROWS = [
    ("everything", {"messages": ASK}),
    ("everything", {"messages": ASK, "add_generation_prompt": False}),
    ("everything", {"messages": ASK, "documents": DOCUMENTS}),
    ("everything", {"messages": ASK, "tools": TOOLS}),
    ("everything", {"messages": CALLED, "tools": TOOLS}),
    ("everything", {"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}}),
    ("everything", {"messages": ASK, "chat_template_kwargs": {"enable_thinking": True, **KWARGS}}),
    ("everything", {"messages": ASK, "chat_template_kwargs": {"show_tokens": True}}),
    ("everything", {"messages": begun("The sky"), "continue_final_message": True}),
    ("everything", {"messages": begun(" The sky is \n"), "continue_final_message": True}),
    ("everything", {"messages": begun(""), "continue_final_message": True}),
    ("everything", {"messages": ASK, "continue_final_message": True, "documents": DOCUMENTS, "chat_template_kwargs": KWARGS}),
    ("trims", {"messages": begun(" The sky is \n"), "continue_final_message": True}),
    ("trims", {"messages": begun("The sky"), "continue_final_message": True}),
    ("drops", {"messages": begun("The sky"), "continue_final_message": True}),
    ("drops", {"messages": ASK}),
]


def answer(words, template, fields):
    words.chat_template = (HERE / "apply" / f"{template}.jinja").read_text(encoding="utf-8")
    of = {k: fields[k] for k in ("tools", "documents", "continue_final_message") if k in fields}
    of |= fields.get("chat_template_kwargs", {})
    of["add_generation_prompt"] = fields.get("add_generation_prompt", not fields.get("continue_final_message", False))
    try:
        text = words.apply_chat_template(fields["messages"], tokenize=False, **of)
    except ValueError:
        return {"error": "continue_final_message"}
    return {"text": text, "ids": words(text, add_special_tokens=False)["input_ids"]}


def main():
    words = transformers.AutoTokenizer.from_pretrained(MODEL)
    rows = [json.dumps({"template": t, "fields": f, **answer(words, t, f)}, ensure_ascii=False) for t, f in ROWS]
    (HERE / "apply.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    print(len(rows), "prompts by transformers", transformers.__version__)


main()
