"""Tools with the default model, which was never trained to call any. The grammar's guarantees hold all the same, also when a stage is
killed in the middle and when a client resumes."""
import http.client
import json
import urllib.request

import jsonschema
import openai
from streams import Stream, all_begun

CHECK = jsonschema.Draft202012Validator
BOOK = {"type": "object", "properties": {"title": {"type": "string", "minLength": 3, "maxLength": 24},
                                         "stars": {"type": "integer", "minimum": 1, "maximum": 5},
                                         "tags": {"type": "array", "minItems": 2, "maxItems": 4, "items": {"type": "string", "maxLength": 10}}},
        "required": ["title", "stars", "tags"], "additionalProperties": False}
MOVE = {"type": "object", "properties": {"direction": {"enum": ["north", "south", "east", "west"]}, "steps": {"type": "integer", "minimum": 1, "maximum": 99}},
        "required": ["direction", "steps"], "additionalProperties": False}
SCHEMAS = {"note_book": BOOK, "move": MOVE, "stop": {"type": "object", "additionalProperties": False}}
TOOLS = [{"type": "function", "function": {"name": "note_book", "description": "Notes a book", "parameters": BOOK}},
         {"type": "function", "function": {"name": "move", "parameters": MOVE}},
         {"type": "function", "function": {"name": "stop"}}]
PROMPT = "Note the book that you like best, then go somewhere."


def named(name):
    return {"type": "function", "function": {"name": name}}


def holds(name, arguments):
    CHECK(SCHEMAS[name]).validate(json.loads(arguments))
    return True


def test_a_call_that_must_come_comes_and_holds(shared):
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0, timeout=300)
    seen = set()
    for seed in range(6):
        for choice in ("required", named("note_book"), named("move")):
            ask = dict(model="smollm2", messages=[{"role": "user", "content": PROMPT}], tools=TOOLS, tool_choice=choice, seed=seed, temperature=1.0,
                       max_tokens=300, parallel_tool_calls=False)
            answer = client.chat.completions.create(**ask).choices[0]
            calls = answer.message.tool_calls
            assert answer.finish_reason == "tool_calls" and len(calls) == 1 and answer.message.content is None
            assert choice == "required" or calls[0].function.name == choice["function"]["name"]
            assert all(holds(c.function.name, c.function.arguments) for c in calls)
            seen.add(calls[0].function.arguments)
            if seed == 0:
                parts = [p for c in client.chat.completions.create(**ask, stream=True) for p in (c.choices[0].delta.tool_calls or [])]
                assert "".join(p.function.arguments for p in parts) == calls[0].function.arguments and len(parts) > 3
    assert len(seen) > 6


def test_a_template_without_tools_gets_hermes_format_and_the_card_says_so(shared):
    with urllib.request.urlopen(shared.url + "/cluster", timeout=10) as answer:
        card = json.load(answer)["models"][0]
    assert (card["call_format"], card["has_own_calls"]) == ("hermes", False)


def test_several_calls_strict_ones_and_text(shared):
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0, timeout=300)
    strict = [{**t, "function": {**t["function"], "strict": True}} for t in TOOLS]
    ask = lambda **fields: client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": PROMPT}], temperature=1.0,
                                                          max_tokens=200, **fields).choices[0]
    several = ask(tools=TOOLS, tool_choice="required", seed=3)
    whole = several.message.tool_calls[:-1] if several.finish_reason == "length" else several.message.tool_calls
    assert all(holds(c.function.name, c.function.arguments) for c in whole)
    for seed in range(4):
        free = ask(tools=strict, seed=seed)
        assert free.message.content or free.message.tool_calls
        assert "<tool_call>" not in (free.message.content or "")
        if free.finish_reason == "tool_calls":
            assert all(holds(c.function.name, c.function.arguments) for c in free.message.tool_calls)
    # The call and its result go back to the model.
    call = {"id": "call_1", "type": "function", "function": {"name": "move", "arguments": '{"direction": "north", "steps": 3}'}}
    messages = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "You are at the river."}]
    again = client.chat.completions.create(model="smollm2", messages=messages, tools=TOOLS, max_tokens=20, temperature=0)
    assert again.usage.prompt_tokens > 200  # the tools are told to a template that knows of none
    assert again.choices[0].message.content or again.choices[0].message.tool_calls


def test_a_killed_stage_changes_no_call(fresh):
    kinds = [{"tool_choice": "required"}, {"tool_choice": named("note_book")}, {"tool_choice": named("move")}, {}]
    begin = lambda: all_begun([Stream(fresh, PROMPT, max_tokens=160, seed=11 + i, **{"temperature": 0.9, "tools": TOOLS, **kind}) for i, kind in enumerate(kinds)])
    reply = lambda streams: [(s.text, [c[1:] for c in s.calls], s.finish) for s in (s.check() for s in streams)]
    undisturbed = reply(begin())
    assert all(calls for _, calls, _ in undisturbed[:3])
    for shard in ("shard-1", "shard-0"):
        streams = begin()
        fresh.kill(shard)
        assert reply(streams) == undisturbed
        fresh.wait_standing()
    for _, calls, finish in undisturbed:
        whole = calls[:-1] if finish == "length" else calls
        assert all(holds(*c) for c in whole)


def test_a_client_comes_back_in_the_middle_of_a_call(fresh):
    """The connection is cut after several different events, once with a gateway killed in between."""
    body = {"model": "smollm2", "stream": True, "messages": [{"role": "user", "content": PROMPT}], "tools": TOOLS, "tool_choice": named("note_book"),
            "max_tokens": 300, "temperature": 0.9, "seed": 4, "resumable": True}

    def events(place=None, count=None):
        connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=120)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", **({"Last-Event-ID": place} if place else {})})
        answer, out = connection.getresponse(), []
        assert answer.status == 200
        for raw in answer:
            line = raw.decode().rstrip()
            if line.startswith("id: "):
                place = line[4:]
            elif line.startswith("data: {"):
                out.append((place, json.loads(line[6:])["choices"][0]))
                if len(out) == count:
                    break
        connection.close()
        return out

    def arguments(of):
        return "".join(p["function"]["arguments"] for _, c in of for p in c["delta"].get("tool_calls", []))

    def heads(of):
        return [(p["id"], p["function"]["name"]) for _, c in of for p in c["delta"].get("tool_calls", []) if "id" in p]

    whole = events()
    assert holds("note_book", arguments(whole)) and whole[-1][1]["finish_reason"] == "tool_calls"
    for count in (1, 2, 4, len(whole) - 2):
        first = events(count=count)
        if count == 4:
            former = ("gateway", fresh.pid("gateway"))
            fresh.kill("gateway")
            fresh.wait_standing(former)
        rest = events(place=first[-1][0])
        assert arguments(first + rest) == arguments(whole)
        assert [name for _, name in heads(first + rest)] == ["note_book"]
        assert rest[-1][1]["finish_reason"] == "tool_calls"
    with urllib.request.urlopen(fresh.url + "/health", timeout=10) as health:
        assert health.status == 200


def test_an_answer_calls_or_has_the_format(shared):
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0, timeout=300)
    shape = {"type": "json_schema", "json_schema": {"name": "book", "schema": BOOK}}
    kinds = set()
    for seed in range(8):
        ask = dict(model="smollm2", messages=[{"role": "user", "content": PROMPT}], tools=TOOLS, response_format=shape, seed=seed, temperature=1.5, max_tokens=300)
        answer = client.chat.completions.create(**ask).choices[0]
        if answer.finish_reason == "length":
            continue
        for call in answer.message.tool_calls or []:
            assert isinstance(json.loads(call.function.arguments), dict) and call.function.name in SCHEMAS
        if answer.message.content:
            CHECK(BOOK).validate(json.loads(answer.message.content))
        assert bool(answer.message.content) != bool(answer.message.tool_calls)
        kinds.add(answer.finish_reason)
        streamed = list(client.chat.completions.create(**ask, stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in streamed if c.choices) == (answer.message.content or "")
    assert kinds
    r = client.responses.create(model="smollm2", input=PROMPT, temperature=1.0, max_output_tokens=300, tool_choice="auto",
                                tools=[{"type": "function", **TOOLS[1]["function"]}], text={"format": {"type": "json_schema", "name": "book", "schema": BOOK}})
    assert r.status in ("completed", "incomplete")
    if r.status == "completed" and r.output_text:
        CHECK(BOOK).validate(json.loads(r.output_text))
