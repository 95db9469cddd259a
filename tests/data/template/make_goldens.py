#!/usr/bin/env python3
"""Renders the templates of this directory and the snippets below with jinja2 itself, set up as
Hugging Face's apply_chat_template does, and writes goldens.json, which the unit test compares the
C++ engine with. Run it by hand after a change here: pip install jinja2; python3 make_goldens.py"""
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
             "extra": {"s": "  Some Text\there\n", "u": "Ünïcödé ñandú 日本", "n": 7, "neg": -7,
                       "f": 2.5, "big": 1e16, "small": 1e-7, "yes": True, "no": False,
                       "nil": None, "e": "", "xs": [3, 1, 2], "words": ["b", "A", "c", "a"],
                       "d": {"b": 1, "a": {"x": [1, {"y": None}]}, "B": "it's"},
                       "people": [{"name": "Bo", "age": 3, "tag": {"k": "x"}},
                                  {"name": "al", "age": 1}, {"name": "Cy", "age": 2}],
                       "q": "say \"hi\"", "both": "it's \"x\"", "lines": "a\nb\r\n\nc"}},
}

SNIPPETS = """
{{ 1 + 2 * 3 - 4 / 2 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}
{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ 2.0 ** 3 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }}
{{ 1.0 }} {{ 100000000000000000.0 }} {{ big }} {{ small }} {{ 0.0001 }} {{ 1e300 }} {{ 123456789.125 }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-3 }}
{{ yes }} {{ no }} {{ nil }} {{ true }} {{ True }} {{ none }} {{ None }}
{{ yes + 1 }} {{ yes == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }}
{{ -n }} {{ +n }} {{ -n|abs }} {{ neg|abs }} {{ -2.5|abs }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] }}
{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'ab' * 3 }} {{ [0] * 2 }} {{ 2 * 'x' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 <= 1.0 }}
{{ 1 in xs }} {{ 9 in xs }} {{ 9 not in xs }} {{ 'b' in d }} {{ 'ell' in 'hello' }} {{ '' in '' }}
{{ not yes }} {{ not not yes }} {{ yes and no or n }} {{ e or 'fallback' }} {{ n and 'both' }}
{{ 'yes' if n > 5 else 'no' }} {{ 'x' if no }} {{ 'a' if no else 'b' if no else 'c' }}
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ 1, 2 }}
{{ [1, 2.0, 'three', none, true, undefined_thing] }}
{{ {'a': 1, 'b': [1, 2], 3: 'x', none: 0} }}
{{ {'a': 1, 'b': 2, 'a': 3} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ d }} {{ q }} {{ [q, both, "it's", 'tab\\t', 'nul\\x00', 'é', '\\u200b', '\\\\'] }}
{{ xs[0] }} {{ xs[-1] }} {{ xs[9] }} {{ xs[1:] }} {{ xs[:-1] }} {{ xs[::-1] }} {{ xs[::2] }} {{ xs[5:] }} {{ xs[-2:] }}
{{ u[0] }} {{ u[-1] }} {{ u[1:4] }} {{ u[::-1] }} {{ u[::3] }} {{ u[99:] }} {{ 'abc'[9] }} {{ u[-3:-1] }}
{{ 'abcdef'[4:1:-1] }} {{ 'abcdef'[-100:100] }} {{ 'abcdef'[3:2] }} {{ 'abc'[::-5] }} {{ (1,2,3)[1:] }}
{{ d.b }} {{ d['b'] }} {{ d.a.x[1].y }} {{ d.nothing }} {{ d['nothing'] is undefined }} {{ d.items is callable }}
{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.keys()|list }} {{ d.values()|list|length }} {{ d.items()|list }}
{{ undefined_thing }}|{{ undefined_thing is defined }}|{{ undefined_thing|default('x') }}|{{ undefined_thing|length }}
{{ undefined_thing.attribute }}
{{ undefined_thing + 1 }}
{{ undefined_thing() }}
{{ undefined_thing < 1 }}
{{ undefined_thing == other_thing }} {{ undefined_thing == none }} {{ 'a' in undefined_thing }} {{ undefined_thing ~ 'x' }}
{% for x in undefined_thing %}x{% else %}none{% endfor %}
{{ d.nothing.more }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ none + 1 }}
{{ 'a' in 5 }}
{{ 5 in 'a' }}
{{ [1] < 'a' }}
{{ n() }}
{{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ 1 is sequence }} {{ undefined_thing is sequence }}
{{ n is number }} {{ yes is number }} {{ n is integer }} {{ yes is integer }} {{ f is float }} {{ n is float }} {{ yes is boolean }} {{ n is boolean }}
{{ yes is true }} {{ no is false }} {{ 1 is true }} {{ 0 is false }} {{ nil is none }} {{ e is none }}
{{ s is string }} {{ n is string }} {{ d is mapping }} {{ xs is mapping }} {{ xs is iterable }} {{ n is iterable }} {{ s is iterable }} {{ undefined_thing is iterable }}
{{ 3 is odd }} {{ 3 is even }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 2.0 is even }}
{{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 1 is gt 2 }} {{ 1 is ge 1 }} {{ 1 is greaterthan 0 }} {{ 1 is lessthan 0 }} {{ 1 is in [1] }} {{ 1 is in xs }} {{ 1 is not in xs }}
{{ 'abc' is lower }} {{ 'Abc' is lower }} {{ 'ABC' is upper }} {{ '123' is lower }} {{ range is callable }} {{ s is callable }} {{ undefined_thing is callable }}
{{ nil is sameas none }} {{ yes is sameas true }} {{ xs is sameas xs }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ s is escaped }}
{{ not undefined_thing is defined }} {{ n is not none and n is number }} {{ n is defined == true }}
{{ s|trim }}| {{ s|upper }}| {{ s|lower }}| {{ 'aXXb'|trim('ab') }}| {{ n|trim }}
{{ u|upper }} {{ u|lower }} {{ u|capitalize }} {{ u|title }} {{ u|length }} {{ u|reverse }}
{{ 'hello world-foo (bar) it\\'s'|title }} {{ "it's a dog".title() }} {{ 'ÀB'.lower() }} {{ 'x1y'.title() }} {{ 'aBc'.swapcase() }}
{{ 'hello'|capitalize }} {{ 'HELLO'|capitalize }} {{ 'hELLO'.capitalize() }} {{ ''|capitalize }}
{{ 'a-b-c'|replace('-', '+') }} {{ 'a-b-c'|replace('-', '+', 1) }} {{ 'abc'|replace('', '.') }} {{ 111|replace(1, 2) }}
{{ xs|first }} {{ xs|last }} {{ []|first }} {{ 'abc'|first }} {{ 'abc'|last }} {{ d|first }} {{ xs|min }} {{ xs|max }} {{ []|max }} {{ words|min }} {{ words|max }}
{{ xs|sort }} {{ xs|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(',') }}
{{ xs|length }} {{ d|length }} {{ s|length }} {{ xs|count }}
{{ 5|length }}
{{ xs|join }} {{ xs|join(', ') }} {{ words|join('-') }} {{ people|join(', ', attribute='name') }} {{ []|join('x') }} {{ [1, none, true]|join('/') }}
{{ xs|sum }} {{ people|sum(attribute='age') }} {{ [1.5, 2]|sum }} {{ xs|sum(start=10) }} {{ []|sum }}
{{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }} {{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(-3)|list }}
{{ range(2, 100000000000) }}
{{ words|map('upper')|list }} {{ people|map(attribute='name')|list }} {{ people|map(attribute='tag.k', default='?')|list }} {{ ['a-b']|map('replace', '-', '+')|list }} {{ [' a ']|map('trim')|list }}
{{ xs|select('odd')|list }} {{ xs|reject('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ xs|select('gt', 1)|list }} {{ [0, 1]|reject|list }} {{ [1, undefined_thing]|select('defined')|list }}
{{ people|selectattr('age', 'gt', 1)|map(attribute='name')|list }} {{ people|rejectattr('tag')|map(attribute='name')|list }} {{ people|selectattr('tag', 'defined')|list|length }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }}
{{ people|selectattr('tag.k', 'eq', 'x')|list|length }}
{{ [1, 2, 1, 'a', 'A']|unique|list }} {{ ['b', 'a', 'B']|unique(case_sensitive=true)|list }} {{ people|unique(attribute='age')|list|length }}
{{ d|dictsort }} {{ {'x': 2, 'y': 1}|dictsort(by='value') }} {{ {'b': 1, 'A': 2}|dictsort(case_sensitive=true) }} {{ {'a': 1, 'b': 2}|dictsort(reverse=true) }}
{{ d|items|list }} {{ undefined_thing|items|list }} {{ xs|reverse|list }} {{ 'abc'|reverse }} {{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3]|batch(2, 'x')|list }}
{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ -3.9|int }} {{ 'ff'|int(base=16) }} {{ '0x1f'|int(0, 16) }} {{ none|int }} {{ ' 12 '|int }} {{ true|int }} {{ '1_0'|int }} {{ [1]|int }}
{{ '2.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ 'x'|float(1.5) }} {{ '1e3'|float }} {{ 'inf'|float }} {{ ' 1.5 '|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42|round }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ -2.5|round }} {{ 1234|round(-2) }} {{ 0.1|round(3) }} {{ 1e22|round(1) }}
{{ 'x'|default('y') }} {{ ''|default('y') }} {{ ''|default('y', true) }} {{ none|default('y') }} {{ none|d('y', boolean=true) }} {{ undefined_thing|d }}
{{ "<a href='x'>&\\"</a>"|e }} {{ '<'|escape }} {{ 'x'|safe }} {{ 5|string + '6' }} {{ none|string }}
{{ 'a\\nb\\n\\nc'|indent }}| {{ 'a\\nb'|indent(2, true) }}| {{ 'a\\n\\nb'|indent(2, blank=true) }}| {{ 'a\\nb'|indent('> ') }}| {{ 'a\\n'|indent(1) }}|
{{ 'one two  three'|wordcount }} {{ u|wordcount }} {{ ''|wordcount }} {{ 'x'|center(5) }}| {{ 'xy'.center(5) }}| {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '.') }} {{ '-5'.zfill(4) }}
{{ 'hello big world'|truncate(9) }} {{ 'hello big world'|truncate(9, true) }} {{ 'hello big world'|truncate(9, leeway=0) }} {{ 'hello big world'|truncate(11, true, '..', 0) }} {{ 'hi'|truncate(1, false, '') }}
{{ 'a b/c?é&'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ '%s has %d (%.2f)'|format('x', 3, 2.5) }} {{ '%(a)s-%(b)05d'|format(a='x', b=42) }}
{{ '%s|%5s|%-5s|%r' % ('a', 'b', 'c', 'd') }} {{ '%d%%' % 50 }} {{ '%x %X %o %e %g %+d' % (255, 255, 8, 12345.678, 0.0001, 5) }} {{ '%s' % none }} {{ '%05.1f' % -2.25 }} {{ '%c' % 'x' }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x!r}'.format(x='y') }} {{ '{{}}'.format() }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ {'a': [1, 2.5, none, true, 'ü"\\\\\\n\\x01/<&>']} | tojson }}
{{ d|tojson }} {{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson }} {{ d|tojson(sort_keys=true) }} {{ [1,2]|tojson(separators=(',', ':')) }} {{ 'é日😀'|tojson(ensure_ascii=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 6}|tojson }} {{ (1, 2)|tojson(indent=0) }} {{ 'x'|tojson }} {{ 1e16|tojson }} {{ xs|tojson(indent='--') }}
{{ undefined_thing|tojson }}
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'aXXbXXc'.split('XX') }} {{ 'aaa'.rsplit('aa') }}
{{ 'a'.split('') }}
{{ '  x '.strip() }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.lstrip('ab') }}|{{ 'x\\n\\n'.rstrip('\\n') }}|{{ '\\u00a0x\\u2003'.strip() }}|
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\\n'.splitlines() }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ ''.startswith('') }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.index('e') }} {{ u.find('ñ') }} {{ 'hello'.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.find('l', -2) }}
{{ 'hello'.index('z') }}
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ 'ab1'.isalpha() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ u.isalpha() }} {{ '日本'.isalpha() }}
{{ ', '.join(['a', 'b']) }} {{ '-'.join('abc') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'prefix'.removeprefix('pre') }} {{ 'suffix'.removesuffix('fix') }}
{{ ','.join([1]) }}
{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ xs.append }} {{ d.pop is defined }}
{{ xs.append(1) }}
{{ d.update({}) }}
{{ xs.pop() }}
{% set x = 5 %}{{ x }}{% set x = x + 1 %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}
{% set a, b = 1, 2, 3 %}
{% set x %}block {{ n }}{% endset %}[{{ x }}] {% set y | upper | trim %} shout {% endset %}[{{ y }}]
{% set ns = namespace(x=1, y='a') %}{% set ns.x = ns.x + 1 %}{% set ns.z = 3 %}{{ ns.x }}{{ ns.y }}{{ ns.z }}{{ ns.nothing }}
{% set d.x = 1 %}
{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }};{% endfor %}
{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('odd', 'even') }} {% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [1, 2] %}{% endfor %}
{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}{% for x in xs if x > 9 %}{% else %}none{% endfor %}
{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for i in [1, 2] %}{% for j in [1, 2] %}{% if j == 2 %}{% break %}{% endif %}{{ loop.index }}{{ i }}{{ j }}{% endfor %}{{ loop.index }};{% endfor %}
{% for c in 'añb' %}[{{ c }}]{% endfor %}
{% for x in 5 %}{% endfor %}
{% for i in [1] %}{% set outer = loop %}{% for j in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}{{ loop is defined }}
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}{% if no %}x{% elif yes %}y{% endif %}{% if no %}{% endif %}
{% macro m(a, b=2, c='x') %}({{ a }}{{ b }}{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m() }}{{ m(b=9, a=8) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m() }}
{% macro fact(n) %}{{ n if n < 2 else n * (fact(n - 1)|int) }}{% endmacro %}{{ fact(10) }}
{% macro m() %}{{ later }}{% endmacro %}{% set later = 'seen' %}{{ m() }}{% for i in [1] %}{% set later = 'loop' %}{{ m() }}{% endfor %}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1)|upper ~ m(2)|length }}
{% macro outer() %}{% macro inner(x) %}<{{ x }}{{ n }}>{% endmacro %}{{ inner(1) }}{{ inner(2) }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% macro box(t) %}[{{ t }}: {{ caller() }}]{% endmacro %}{% call box('T') %}body {{ n }}{% endcall %}
{% macro each(items) %}{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(x, k) each(xs) %}<{{ k }}:{{ x }}>{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% filter upper %}shout {{ s|trim }}{% endfilter %}{% filter replace('a', 'b')|trim %} aa {% endfilter %}|
{% with a=1, b=n %}{{ a }}{{ b }}{% set z = 3 %}{% endwith %}{{ a is defined }}{{ z is defined }}{% with %}x{% endwith %}
{% generation %}{% set g = 1 %}in{{ g }}{% endgeneration %}{{ g is defined }}
{% raw %}{{ not evaluated }} {% if %}{% endraw %}|{%- raw -%} x {%- endraw -%} |
{{ dict(a=1, b=2) }} {{ dict({'a': 1}, c=3) }} {{ dict([('x', 1)]) }} {{ dict(**{'k': 1}) }} {{ namespace is callable }}
{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2], **{'c': 3}) }}{{ m(*'ab') }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %j %y %I %p %e %-d %-m %%') }}
{{ raise_exception('stop here: ' ~ n) }}
{# comment {{ n }} #}a{#- strip -#} b{# x #}
  {%- if yes -%}  stripped  {%- endif -%}  end
{%+ if yes +%} kept {%+ endif +%}
{{- n -}}   x   {{- n }} y {{ n -}}
{{ '}}' }} {{ "%}" }} {{ {'a': {'b': 1}} }} {{ {'a': {}}['a'] }} {{ '{#' }}
{{ "a" 'b' "c" }} {{ 'esc: \\' \\" \\\\ \\x41 \\u00e9 \\U0001F600 \\101 \\q' }}
{{ messages[0].content }} {{ messages[-1]['role'] }} {{ messages|length }} {{ messages[0]['missing'] }} {{ add_generation_prompt }} {{ tools }} {{ tools is none }} {{ documents is none }}
{{ bos_token }}{{ eos_token }}
{{ people[0].tag.k }} {{ people.0.name }} {{ d.a['x'].1.y }} {{ d.__class__ }} {{ s.nothing }} {{ xs['a'] }}
{{ 1 if 1 is defined and n is number else 2 }} {{ (n if yes else 0) + 1 }}
{{ [x for x in xs] }}
{{ n|unknown_filter }}
{{ n is unknown_test }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% do x %}
{% endif %}
{% if yes %}
{% for %}{% endfor %}
{{ 1 + }}
{{ (1 }}
{{ 'open }}
{{ 1 2 }}
{% break %}
{% set true = 1 %}
{{ a.b.c(
{{ 9223372036854775807 + 0 }} {{ 2 ** 62 }} {{ -9223372036854775807 - 1 }}
{{ [[1, 2], [3]]|sum(start=[]) }}
{{ [3, 'a']|max }}
{{ [1, 'a']|sort }}
{{ nil.x }} {{ nil['x'] }} {{ n['x'] }} {{ n.x is undefined }}
{{ xs == [3, 1, 2] }} {{ (3, 1) == [3, 1] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ [1, [2]] != [1, [2]] }}
{{ 'ab' > 'aa' }} {{ 'é' > 'z' }} {{ true > false }} {{ 1 == true }} {{ 'a' != none }}
{{ range(3)|map('string')|join }} {{ 'a b c'.split()|map('upper')|reverse|list|join('') }} {{ xs|map('abs')|sum }}
{{ (s|trim).split('\\t')|first|lower|replace(' ', '_') }} {{ ('a' ~ 'b')|upper }} {{ -1|abs }} {{ 'x'|upper ~ 'y'|upper }}
{{ 'a' 'b'|upper }} {{ not 1 == 2 }} {{ 1 + 1 == 2 and 2 * 2 == 4 }} {{ 'a' in 'abc' and 'z' not in 'abc' }}
{{ 3 - 1 ~ 5 }}
{{ 3 ~ 1 * 5 }} {{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }} {{ 8 / 2 / 2 }} {{ -2 ** 2 }}
""".strip("\n").split("\n")

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
