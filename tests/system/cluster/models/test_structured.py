"""Answers under constraints have the requested form, also when a stage is killed in the middle."""
import concurrent.futures
import json
import re
import sys

import jsonschema
import lark
import openai
import pytest
from harness import ROOT
from schemas import SCHEMAS
from streams import Stream, all_begun

sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client import BatonError, Client  # noqa: E402

CHECK = jsonschema.Draft202012Validator
# Rules that begin with themselves, ignored text, and terminals of Lark's library.
SUMS = """
start: sum (";" sum)~5..8
sum: product | sum ("+" | "-") product
product: atom | product "*" atom
atom: INT | CNAME | "(" sum ")"
%import common (INT, CNAME, WS_INLINE)
%ignore WS_INLINE
"""
LOOKUP = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<look"], "at_least_one": True, "stop_after_first": True, "tags": [
    {"type": "tag", "begin": "<look>", "end": "</look>", "content": {"type": "json_schema", "json_schema": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"], "additionalProperties": False}}}]}}
STORY = "Tell me about the people, the houses and the animals of a small town."


def ask(cluster, prompt="Answer in JSON.", max_tokens=400, **fields):
    """-> (text, finish_reason)"""
    body = {"model": "smollm2", "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens, "temperature": 1.0, "seed": 5, **fields}
    status, _, answer = cluster.post("/v1/chat/completions", body, timeout=300)
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]


def as_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def holds(schema, text):
    CHECK(schema, format_checker=CHECK.FORMAT_CHECKER).validate(json.loads(text))
    return True


def test_every_answer_is_what_its_schema_says(shared):
    def one(number):
        text, finish = ask(shared, f"Give me an example, number {number}.", seed=number, response_format=as_format(SCHEMAS[number]))
        assert finish == "stop", (number, text)
        return holds(SCHEMAS[number], text)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(0, len(SCHEMAS), 4)))


def test_a_killed_stage_changes_no_constrained_answer(fresh):
    """Streams under constraints of each kind, at a high temperature. Each stage is killed meanwhile."""
    people = {"type": "array", "minItems": 3, "maxItems": 4, "items": {"type": "object", "required": ["name", "age"], "additionalProperties": False,
              "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}}}}
    tree = {"$defs": {"node": {"type": "object", "required": ["v", "next"], "additionalProperties": False, "properties": {
            "v": {"type": "string", "maxLength": 6}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}},
            "type": "array", "minItems": 2, "maxItems": 3, "items": {"$ref": "#/$defs/node"}}
    wanted = [{"response_format": as_format(people)}, {"guided_json": tree}, {"guided_regex": "([A-Z][a-z]{2,8} ){20,24}end"},
              {"guided_grammar": 'root ::= line{8}\nline ::= [a-z]+ "=" [0-9]{1,4} "\\n"'},
              {"structured_outputs": {"grammar": SUMS}}, {"response_format": LOOKUP}]
    begin = lambda: all_begun([Stream(fresh, STORY, max_tokens=220, seed=7 + i, **{"temperature": 0.9, **w})
                               for i, w in enumerate(wanted)])
    undisturbed = [s.check() for s in begin()]
    for shard in ("shard-1", "shard-0"):
        streams = begin()
        fresh.kill(shard)
        assert [s.check().text for s in streams] == [s.text for s in undisturbed]
        fresh.wait_standing()
    assert [p["restarts"] for p in fresh.status()["processes"] if p["name"] in ("shard-0", "shard-1")] == [1, 1]
    for s, w in zip(undisturbed, wanted):
        if s.finish == "length":
            continue
        if "guided_regex" in w:
            assert re.fullmatch(w["guided_regex"], s.text)
        elif "guided_grammar" in w:
            assert re.fullmatch(r"([a-z]+=[0-9]{1,4}\n){8}", s.text)
        elif "structured_outputs" in w:
            assert lark.Lark(SUMS, parser="earley").parse(s.text)
        elif w.get("response_format") is LOOKUP:
            assert list(json.loads(re.fullmatch(r"<look>(.*)</look>", s.text, re.DOTALL)[1])) == ["city"]
        else:
            holds(w.get("guided_json") or people, s.text)
    assert "stop" in [s.finish for s in undisturbed]


def test_regex_choice_and_grammar(shared):
    text, finish = ask(shared, guided_regex=r"\d{3}-[a-f]{4}( or \d+\.\d)?")
    assert finish == "stop" and re.fullmatch(r"\d{3}-[a-f]{4}( or \d+\.\d)?", text)
    colours = ["red", "green", "a deep blue", "schwarz-weiß"]
    seen = {ask(shared, "A colour?", seed=seed, guided_choice=colours) for seed in range(12)}
    assert {finish for _, finish in seen} == {"stop"} and {text for text, _ in seen} <= set(colours) and len(seen) > 1
    text, finish = ask(shared, structured_outputs={"grammar": 'root ::= "(" root ")" | [0-9]+ [+*] [0-9]{1,3}'}, temperature=0.7)
    assert finish == "length" or re.fullmatch(r"\(*[0-9]+[+*][0-9]{1,3}\)*", text)
    text, finish = ask(shared, response_format={"type": "json_object"}, max_tokens=600)
    assert text.startswith("{") and (finish == "length" or isinstance(json.loads(text), dict))
    completion = shared.post("/v1/completions", {"model": "smollm2", "prompt": "The answer is", "max_tokens": 30, "temperature": 1.0, "seed": 3,
                                                 "guided_regex": " (yes|no), because [a-z ]{5,20}\\."})[2]["choices"][0]
    assert re.fullmatch(r" (yes|no), because [a-z ]{5,20}\.", completion["text"])


def test_a_grammar_of_lark_is_kept_as_lark_reads_it(shared):
    """Lark's own parser is the judge."""
    parser = lark.Lark(SUMS, parser="earley")
    for seed in range(4):
        text, finish = ask(shared, "Six sums, please.", max_tokens=150, seed=seed, structured_outputs={"grammar": SUMS})
        if finish == "stop":
            assert parser.parse(text)
        else:  # cut: what there is begins a text of the grammar
            with pytest.raises(lark.exceptions.UnexpectedEOF):
                parser.parse(text)
    short = """start: "yes"i | greeting "!"~2
greeting: "hi" NAME
NAME: "A".."C" LCASE~2..3
%import common.LCASE_LETTER -> LCASE
"""
    seen = {ask(shared, "Greet me.", seed=seed, guided_grammar=short) for seed in range(6)}
    assert all(finish == "stop" and lark.Lark(short, parser="earley").parse(text) for text, finish in seen)


def test_a_structural_tag_obliges_behind_its_trigger(shared):
    """Both notations of vLLM: a trigger obliges to one of the structures, and other text is free."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["n"], "additionalProperties": False}
    old = {"type": "structural_tag", "triggers": ["<f"], "structures": [{"begin": "<f=count>", "schema": schema, "end": "</f>"}]}
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0)
    say = [{"role": "user", "content": "Repeat exactly: <f=count>{\"n\": 7}</f>"}]
    for extra in ({"response_format": old}, {"structured_outputs": {"structural_tag": json.dumps(old)}}):
        answer = client.chat.completions.create(model="smollm2", messages=say, temperature=0, max_tokens=60, logit_bias={}, extra_body=extra)
        text = answer.choices[0].message.content
        for at in (m.start() for m in re.finditer("<f", text)):
            assert re.match(r'<f=count>\{"n": ?\d{1,2}\}</f>', text[at:]) or answer.choices[0].finish_reason == "length"
    text, finish = ask(shared, "Where is it warm?", response_format=LOOKUP)
    assert finish == "stop" and list(json.loads(re.fullmatch(r"<look>(.*)</look>", text, re.DOTALL)[1])) == ["city"]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="smollm2", messages=say, extra_body={"response_format": {**old, "triggers": ["!"]}})
    assert refused.value.param == "response_format" and "none of the triggers" in refused.value.body["message"]


def test_the_official_client_gets_typed_answers(shared):
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0)
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer", "minimum": 1}},
              "required": ["city", "people"], "additionalProperties": False}
    answer = client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "A city and its people, as JSON."}],
                                            response_format=as_format(schema), temperature=0)
    assert list(json.loads(answer.choices[0].message.content)) == ["city", "people"]
    pieces = list(client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "A city and its people, as JSON."}],
                                                 response_format=as_format(schema), temperature=0, stream=True))
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == answer.choices[0].message.content
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "x"}], response_format=as_format({"not": {}}))
    assert refused.value.param == "response_format" and "'not'" in refused.value.body["message"]


def test_guesses_choices_and_a_least_length_under_a_constraint(shared):
    schema = {"type": "array", "minItems": 5, "maxItems": 5, "items": {"type": "object", "required": ["first", "second"], "additionalProperties": False,
              "properties": {"first": {"enum": ["left", "right"]}, "second": {"type": "boolean"}}}}
    answers = [ask(shared, guided_json=schema, num_speculative_tokens=guesses) for guesses in (0, 4)]
    assert answers[0] == answers[1] and holds(schema, answers[0][0])
    body = {"model": "smollm2", "prompt": "JSON:", "max_tokens": 300, "temperature": 1.0, "seed": 2, "n": 4, "guided_json": schema}
    choices = shared.post("/v1/completions", body, timeout=120)[2]["choices"]
    assert len({c["text"] for c in choices}) > 1 and all(holds(schema, c["text"]) for c in choices)
    # A complete answer ends, even before its minimum length.
    assert ask(shared, guided_choice=["no"], min_tokens=40)[0] == "no"


def test_the_python_sdk_takes_a_constraint(shared):
    with Client(shared.door) as client:
        ask_for = lambda **fields: client.generate("The answer is", max_tokens=60, temperature=1.0, seed=4, **fields).text
        assert re.fullmatch(r" (yes|no)\.", ask_for(structured_outputs={"regex": r" (yes|no)\."}))
        assert ask_for(structured_outputs={"choice": ["é", "x\n"]}) in ("é", "x\n")
        assert holds(SCHEMAS[2], ask_for(structured_outputs={"json": SCHEMAS[2]}))
        with pytest.raises(BatonError) as refused:
            ask_for(structured_outputs={"regex": "("})
        assert refused.value.param == "structured_outputs"
