#!/usr/bin/env python3
"""Renders the templates and the snippets of this directory with jinja2 itself, set up as in Hugging Face's apply_chat_template. The unit
test compares the C++ engine with the output, goldens.json. Run it by hand after a change here: pip install jinja2; python3
make_goldens.py"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 3, 7, 9, 5, 3)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's tokens; the text passes through."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(lineno)

    def _same(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a \"city\" <now> & later",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name, as in Zürich"},
            "days": {"type": "integer"},
            "units": {"type": ["string", "number"]},
            "tags": {"type": "array", "items": {"type": "boolean"}}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds",
        "parameters": {"type": "object", "properties": {"x": {"type": "number"}},
                       "required": ["x"]}}},
]
CALL = {"id": "abcdef123", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CONTEXTS = {
    "user": {"messages": [turn("user", "Why is the sky blue?")], "add_generation_prompt": True},
    "empty": {"messages": []},
    "system": {"messages": [turn("system", "Be brief. "), turn("user", " Hi <|im_end|> there\n")],
               "add_generation_prompt": True},
    "dialogue": {"messages": [turn("user", "Hi"), turn("assistant", "\nHello! "),
                              turn("user", "日本語で?\n"), turn("assistant", "はい。")]},
    "thinking": {"messages": [turn("system", "x /no_think"), turn("user", "2+2?"),
                              turn("assistant", "<think>\neasy\n</think>\n\n4"),
                              turn("user", "3+3?"),
                              turn("assistant", "<think>\nhm\n</think>\n\n6")],
                 "add_generation_prompt": False},
    "no_thinking": {"messages": [turn("user", "2+2?")], "add_generation_prompt": True,
                    "extra": {"enable_thinking": False}},
    "tools": {"messages": [turn("system", "Use tools."), turn("user", "Weather?")],
              "tools": TOOLS, "add_generation_prompt": True},
    "tool_call": {"messages": [turn("user", "Weather?"),
                               turn("assistant", "", tool_calls=[CALL]),
                               turn("tool", "{\"t\": 21.5}", tool_call_id="abcdef123"),
                               turn("assistant", "21.5 degrees.")],
                  "tools": TOOLS},
    "tool_open": {"messages": [turn("user", "Weather?"),
                               turn("assistant", "", tool_calls=[CALL]),
                               turn("tool", "sunny", tool_call_id="abcdef123"),
                               turn("tool", "warm", tool_call_id="abcdef123")],
                  "add_generation_prompt": True},
    "two_calls": {"messages": [turn("user", "?"), turn("assistant", "", tool_calls=[CALL, CALL])]},
    "parts": {"messages": [turn("user", [{"type": "text", "text": " look "},
                                         {"type": "image"}])],
              "add_generation_prompt": True},
    "wrong_order": {"messages": [turn("assistant", "first")]},
    "builtin": {"messages": [turn("user", "Search"),
                             turn("assistant", None, tool_calls=[{"function": {
                                 "name": "brave_search", "arguments": {"query": "x", "n": "3"}}}])],
                "extra": {"builtin_tools": ["brave_search", "code_interpreter"],
                          "date_string": "1 Jan 2025"}},
    "custom": {"messages": [turn("system", "S"), turn("user", "U")],
               "extra": {"custom_tools": TOOLS, "tools_in_user_message": False}},
    # For the snippets.
    "data": {"messages": [turn("user", "Hello, World!"), turn("assistant", "Yes")],
             "extra": {"s": "  Some Text\there\n", "u": "Ünïcödé ñandú 日本", "n": 7,
                       "neg": -7, "f": 2.5, "big": 1e16, "small": 1e-7, "yes": True, "no": False,
                       "nil": None, "e": "", "xs": [3, 1, 2], "words": ["b", "A", "c", "a"],
                       "d": {"b": 1, "a": {"x": [1, {"y": None}]}, "B": "it's"},
                       "people": [{"name": "Bo", "age": 3, "tag": {"k": "x"}},
                                  {"name": "al", "age": 1}, {"name": "Cy", "age": 2}],
                       "q": "say \"hi\"", "both": "it's \"x\"", "lines": "a\nb\r\n\nc"}},
}

# One a line; rendered with the context "data".
SNIPPETS = (HERE / "snippets.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")

# Sources that need several lines, where whitespace control shows.
BLOCKS = [
    "a\n  {% if yes %}\n    b\n  {% endif %}\nc\n",
    "a\n  {%+ if yes %}\n    b\n  {%- endif %}\nc\n\n",
    "{% for x in xs %}\n  {{ x }}\n{% endfor %}\nend",
    "x {% if yes %}\n y {% endif %} z\n",
    "  {# note #}\n  text {# note #}\n\t{{ n }}\n",
    "{{ n }}\n{{ n }}\n\n{%- if yes %}\n\n1{% endif %}\r\n2\r3",
    "a\n\n  {%- set z = 1 -%}  \n\n  {{- z }}\n",
    "{% if yes -%}\n   x\n{%- endif +%}\n y",
    "{% macro m() -%}\n  body\n{%- endmacro %}\n[{{ m() }}]\n",
    "{{ {\n  'a': 1,\n  'b': [\n 2\n ]\n} }}\n{% set t = 'x\ny' %}{{ t }}",
    "{% raw %}\n  {{ x }}\n{% endraw %}\n  tail",
    "{{ 'a' }}  \n  {% set a = 1 %}  \n  b",
    "\n\n{% if no %}x{% endif %}\n\n",
    "{#- c -#}\n\n x \n{#+ c +#}\n y",
]


def variables(context):
    c = dict(context)
    extra = c.pop("extra", {})
    base = {"tools": None, "documents": None, "add_generation_prompt": False,
            "bos_token": "<s>", "eos_token": "</s>"}
    return {**base, **c, **extra}


def answer(env, source, context):
    try:
        return {"text": env.from_string(source).render(**variables(context))}
    except jinja2.exceptions.TemplateError as e:
        own = type(e) is jinja2.exceptions.TemplateError
        return {"error": str(e) if own else ""}
    except Exception:  # a Python error in an expression
        return {"error": ""}


def main():
    env = environment()
    families = []
    for path in sorted(HERE.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, context in CONTEXTS.items():
            if name != "data":
                families.append({"template": path.name, "context": name,
                                 **answer(env, source, context)})
    snippets = [{"source": s, **answer(env, s, CONTEXTS["data"])} for s in SNIPPETS + BLOCKS]
    rows = ",\n".join
    parts = [f'"{k}": ' + (json.dumps(v, ensure_ascii=False) if k == "contexts" else
                           "[\n" + rows(json.dumps(r, ensure_ascii=False) for r in v) + "\n]")
             for k, v in (("contexts", CONTEXTS), ("families", families), ("snippets", snippets))]
    (HERE / "goldens.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    print(len(families), "renderings,", len(snippets), "snippets")


main()
