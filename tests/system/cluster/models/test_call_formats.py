"""Formats of tool calls that are no JSON objects, with a tiny model of random weights. Its template and vocabulary have a family's marks,
some of them as control tokens, which an answer's text does not have otherwise. Calls are kept by the grammar, whole and streamed, also when
a process is killed in the middle."""
import json
import urllib.request

import jsonschema
import openai
import pytest
from harness import running
from marked_model import marked_model

# The template's marks, and the ones that are control tokens.
FORMATS = {
    "qwen_xml": ("<tool_call>\n<function=x>\n<parameter=y>\n", []),
    "harmony": ("<|channel|>analysis<|channel|>commentary", ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|call|>"]),
    "kimi": ("<|tool_calls_section_begin|>", ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                                              "<|tool_call_end|>", "<|tool_calls_section_end|>"]),
    "lfm2": ("<|tool_call_start|>", ["<|tool_call_start|>", "<|tool_call_end|>"]),
    "mistral_named": ("[TOOL_CALLS]x[ARGS]", ["[TOOL_CALLS]", "[ARGS]"]),
    "glm": ("<tool_call>x\n<arg_key>y</arg_key>\n<arg_value>", []),
    "deepseek": ("<｜tool▁calls▁begin｜>```json", ["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"]),
    "gemma4": ("<|tool_call>call:x{}<tool_call|>", ["<|tool_call>", "<tool_call|>", '<|"|>']),
}
TEMPLATE = """{%% for m in messages %%}<|im_start|>{{ m.role }}
{{ m.content }}{%% if m.tool_calls %%}%s{%% endif %%}<|im_end|>
{%% endfor %%}{%% if tools %%}{{ tools | length }} tools.{%% endif %%}{%% if add_generation_prompt %%}<|im_start|>assistant
{%% endif %%}"""
NOTE = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 12}, "stars": {"type": "integer", "minimum": 1, "maximum": 5},
                                         "kind": {"enum": ["book", "film"]},
                                         "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2}},
        "required": ["text", "stars", "kind", "tags"], "additionalProperties": False}
STOP = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMAS = {"note": NOTE, "stop": STOP}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]
STRICT = [{**t, "function": {**t["function"], "strict": True}} for t in TOOLS]
ASK = {"model": "smollm2", "messages": [{"role": "user", "content": "Go"}], "max_tokens": 300, "temperature": 1.0}
NAMED = {"type": "function", "function": {"name": "note"}}


@pytest.fixture(scope="module", params=FORMATS)
def cluster(request, tmp_path_factory):
    marks, controls = FORMATS[request.param]
    with running(path=marked_model(tmp_path_factory.mktemp(request.param), controls, TEMPLATE % marks, are_control=True)) as c:
        c.format = request.param
        yield c


@pytest.fixture(scope="module")
def client(cluster):
    return openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0, timeout=300)


@pytest.fixture(autouse=True)
def bounded(cluster, client, monkeypatch):
    """Random weights would never end their reasoning."""
    if cluster.format == "harmony":
        create = client.chat.completions.create
        more = lambda fields: {"thinking_token_budget": 8, **fields.pop("extra_body", {})}
        monkeypatch.setattr(client.chat.completions, "create", lambda **fields: create(extra_body=more(fields), **fields))


def check(name, arguments):
    jsonschema.Draft202012Validator(SCHEMAS[name]).validate(json.loads(arguments))


def streamed(client, **fields):
    """Name and arguments of each call, the text, and the number of pieces of the arguments."""
    calls, text, pieces, finish = [], "", 0, None
    for event in client.chat.completions.create(**ASK, **fields, stream=True):
        choice = event.choices[0]
        text += choice.delta.content or ""
        finish = choice.finish_reason or finish
        for part in choice.delta.tool_calls or []:
            if part.id:
                assert part.index == len(calls) and part.function.name
                calls.append([part.function.name, ""])
            calls[part.index][1] += part.function.arguments
            pieces += 1
        yield calls, text, pieces, finish


def last_of(stream):
    for state in stream:
        pass
    return state


def test_the_card_names_the_format(cluster):
    with urllib.request.urlopen(cluster.url + "/cluster", timeout=10) as answer:
        card = json.load(answer)["models"][0]
    assert (card["call_format"], card["has_own_calls"]) == (cluster.format, True)


def test_calls_that_must_come_hold_their_schemas(client):
    seen = set()
    for seed in range(6):
        for choice in ("required", NAMED):
            answer = client.chat.completions.create(**ASK, tools=TOOLS, tool_choice=choice, seed=seed, parallel_tool_calls=False).choices[0]
            assert answer.finish_reason == "tool_calls" and answer.message.content is None, answer
            (call,) = answer.message.tool_calls
            check(call.function.name, call.function.arguments)
            assert choice == "required" or call.function.name == "note"
            seen.add(call.function.arguments)
            calls, text, pieces, finish = last_of(streamed(client, tools=TOOLS, tool_choice=choice, seed=seed, parallel_tool_calls=False))
            assert calls == [[call.function.name, call.function.arguments]] and text == "" and finish == "tool_calls"
            assert call.function.name == "stop" or pieces > 4
    assert len(seen) > 4


def test_strict_calls_or_text_without_marks(client):
    for seed in range(6):
        answer = client.chat.completions.create(**{**ASK, "max_tokens": 60}, tools=STRICT, seed=seed).choices[0]
        text = answer.message.content or ""  # a call that is cut short before its name is text
        assert answer.finish_reason == "length" or not any(mark in text for _, controls in FORMATS.values() for mark in controls), text
        if answer.finish_reason == "tool_calls":
            for call in answer.message.tool_calls:
                check(call.function.name, call.function.arguments)


def test_a_killed_process_changes_no_call(cluster, client):
    fields = {"tools": TOOLS, "tool_choice": NAMED, "seed": 7}
    whole = last_of(streamed(client, **fields))
    check(*whole[0][0])
    for victim in ("shard-1", "head"):
        former = cluster.pids()[victim]
        is_killed = False
        for state in streamed(client, **fields):
            if state[0] and state[0][0][1] and not is_killed:
                cluster.kill(victim)
                is_killed = True
        assert is_killed and (state[0], state[1], state[3]) == (whole[0], whole[1], whole[3])
        cluster.wait_standing((victim, former))


def test_control_tokens_are_text_only_where_tools_are_given(cluster, client):
    for seed in range(3):
        answer = client.chat.completions.create(**{**ASK, "max_tokens": 80}, seed=seed, extra_body={"ignore_eos": True}).choices[0]
        controls = FORMATS[cluster.format][1]
        assert cluster.format == "harmony" or not any(mark in answer.message.content for mark in controls)
