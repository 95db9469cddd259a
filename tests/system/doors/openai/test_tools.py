"""Tool calls with the official openai client: whole, streamed, continued. The fake head repeats the given text, in pieces of three
bytes."""

import json

import httpx
import openai
import pydantic
import pytest
from fake_answers import call, saying

CHAT = "/v1/chat/completions"
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}}
TIME = {"type": "function", "function": {"name": "get_time"}}


@pytest.fixture
def client(gateway):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=30)


def ask(client, text, tools=(WEATHER, TIME), **fields):
    return client.chat.completions.create(model="fake", messages=saying(text), tools=list(tools), **fields)


TWO = "I look.\n" + call("get_weather", {"city": "Zürich \"x\" </tool_call>", "days": 2}) + "\n" + call("get_time", {})


def test_calls_of_a_whole_answer(start):
    gateway = start()  # its own gateway: the test reads the head's requests
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=30)
    r = ask(client, TWO)
    assert gateway.wait_for("tools")["tools"] == [WEATHER, TIME]
    message = r.choices[0].message
    assert r.choices[0].finish_reason == "tool_calls"
    assert message.content == "I look."
    assert [c.function.name for c in message.tool_calls] == ["get_weather", "get_time"]
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Zürich \"x\" </tool_call>", "days": 2}
    assert message.tool_calls[1].function.arguments == "{}"
    assert len({c.id for c in message.tool_calls}) == 2 and all(c.id.startswith("call_") and c.type == "function" for c in message.tool_calls)
    # The client's message goes back unchanged, with the results.
    messages = [*saying("Done."), message, *({"role": "tool", "tool_call_id": c.id, "content": "12 °C"} for c in message.tool_calls)]
    assert client.chat.completions.create(model="fake", messages=messages, tools=[WEATHER, TIME]).choices[0].message.content == "Done."


def collected(chunks):
    """The result that a client collects from a stream."""
    text, calls, finish = "", {}, None
    for c in chunks:
        for choice in c.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or []:
                if part.id:
                    assert part.index == len(calls) and part.type == "function"
                    calls[part.index] = [part.id, part.function.name, ""]
                calls[part.index][2] += part.function.arguments
    return text, list(calls.values()), finish


@pytest.mark.parametrize("fields", [{}, {"tool_choice": "required"}, {"parallel_tool_calls": False}])
def test_a_stream_says_the_same(client, fields):
    text, calls, finish = collected(ask(client, TWO, stream=True, stream_options={"include_usage": True}, **fields))
    assert (text, finish) == ("I look.", "tool_calls")
    assert [(name, json.loads(arguments)) for _, name, arguments in calls] == [
        ("get_weather", {"city": "Zürich \"x\" </tool_call>", "days": 2}), ("get_time", {})]


def test_under_a_grammar_arguments_are_streamed_as_they_are_drawn(client):
    long = {"city": "x" * 60}
    parts = lambda **fields: [p for c in ask(client, call("get_weather", long), stream=True, **fields) for p in c.choices[0].delta.tool_calls or []]
    assert len(parts()) == 1
    drawn = parts(tool_choice={"type": "function", "function": {"name": "get_weather"}})
    assert len(drawn) > 20 and drawn[0].function.name == "get_weather" and all(p.id is None for p in drawn[1:])
    assert json.loads("".join(p.function.arguments for p in drawn)) == long


@pytest.mark.parametrize("text", ["No call.", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>", "<tool_call> {\"name\": \"get_time\"",
                                  "a <tool_cal", ""])
def test_output_that_is_no_call_is_text(client, text):
    r = ask(client, text) if text else client.chat.completions.create(model="fake", messages=[{"role": "user", "content": "tokens=1 text=x"}], tools=[TIME])
    assert r.choices[0].message.tool_calls is None and r.choices[0].finish_reason == "stop"
    assert r.choices[0].message.content == (text or "x")
    if text:
        assert collected(ask(client, text, stream=True)) == (text, [], "stop")


def test_without_tools_calls_are_text_and_the_template_gets_none(start):
    gateway = start()
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=30)
    text = call("get_time", {})
    assert client.chat.completions.create(model="fake", messages=saying(text)).choices[0].message.content == text
    assert ask(client, text, tool_choice="none").choices[0].message.content == text
    ask(client, "x", tools=[TIME], tool_choice="auto")
    assert gateway.wait_for("tools")["tools"] == [TIME]  # the first that were told


def test_parse_helpers(client):
    class get_weather(pydantic.BaseModel):
        city: str
        days: int = 1

    tool = openai.pydantic_function_tool(get_weather)
    r = client.chat.completions.parse(model="fake", messages=saying(call("get_weather", {"city": "Bern", "days": 3})), tools=[tool])
    assert r.choices[0].message.tool_calls[0].function.parsed_arguments == get_weather(city="Bern", days=3)
    with client.chat.completions.stream(model="fake", messages=saying(call("get_weather", {"city": "Bern", "days": 3})), tools=[tool]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == get_weather(city="Bern", days=3)


def test_a_stream_with_calls_is_gone_on_with_behind_any_event(gateway):
    for further in ({}, {"tool_choice": "required"}, {"n": 2}):
        body = {"model": "fake", "messages": saying(TWO), "tools": [WEATHER, TIME], "stream": True, "resumable": True, **further}
        events = [e for e in httpx.post(gateway.url + CHAT, json=body, timeout=30).text.split("\n\n") if e]
        assert events[-1] == "data: [DONE]"
        whole = put_together(events)
        assert whole[0][0] == "I look." and len(whole[0][1]) == 2
        for had in range(1, len(events), 3 if further else 1):
            place = events[had - 1].split("\n")[0].removeprefix("id: ")
            rest = httpx.post(gateway.url + CHAT, json=body, timeout=30, headers={"Last-Event-ID": place})
            assert rest.status_code == 200, rest.text
            assert put_together(events[:had] + [e for e in rest.text.split("\n\n") if e]) == whole, place
    # The position belongs to a stream with tools.
    without = {k: v for k, v in body.items() if k != "tools"}
    refused = httpx.post(gateway.url + CHAT, json=without, timeout=30, headers={"Last-Event-ID": place})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Last-Event-ID")


def put_together(events):
    """-> choice: (text, calls, finish)"""
    out = {}
    for event in events:
        data = event.split("data: ", 1)[1]
        for choice in json.loads(data)["choices"] if data != "[DONE]" else []:
            reply = out.setdefault(choice["index"], ["", [], None])
            reply[0] += choice["delta"].get("content") or ""
            reply[2] = choice["finish_reason"] or reply[2]
            for part in choice["delta"].get("tool_calls", []):
                if "id" in part:
                    assert part["index"] == len(reply[1])
                    reply[1].append([part["id"], part["function"]["name"], ""])
                reply[1][part["index"]][2] += part["function"]["arguments"]
    return out


@pytest.mark.parametrize("fields, param", [
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}}}, "response_format"),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"not": {}}}}]}, "tools"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}]}]},
     "messages[0].tool_calls[0].function.arguments"),
])
def test_bad_tools_are_typed_errors(client, fields, param):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(**{"model": "fake", "messages": saying("x"), **fields})
    assert e.value.param == param and e.value.body["type"] == "invalid_request_error"


def test_an_echo_with_logprobs_has_those_of_the_prompt(client):
    prompt = "tokens=2 abc"
    values = [None] + [-i / 4 for i in range(1, len(prompt))]
    for asked in (prompt, list(prompt.encode())):  # of ids the text is what they say
        r = client.completions.create(model="fake", prompt=asked, echo=True, logprobs=2, max_tokens=1).choices[0]
        assert r.text == prompt + "w0 " and r.logprobs.tokens == [*prompt, "w0 "]
        assert r.logprobs.token_logprobs == values + [-0.5] and r.logprobs.text_offset == list(range(len(prompt) + 1))
        assert r.logprobs.top_logprobs[0] is None and len(r.logprobs.top_logprobs[1]) == 2
        r = client.completions.create(model="fake", prompt=asked, echo=True, logprobs=0, max_tokens=0)
        assert r.choices[0].text == prompt and r.choices[0].logprobs.token_logprobs == values
        assert r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 0
        streamed = list(client.completions.create(model="fake", prompt=asked, echo=True, logprobs=0, max_tokens=2, stream=True))
        assert "".join(c.choices[0].text for c in streamed) == prompt + "w0 w1 "
        reply = [c.choices[0].logprobs for c in streamed if c.choices[0].logprobs]
        assert sum((t.token_logprobs for t in reply), []) == values + [-0.5] * 2
        assert sum((t.text_offset for t in reply), []) == [*range(len(prompt)), len(prompt), len(prompt) + 3]
    assert client.completions.create(model="fake", prompt=list(prompt.encode()), echo=True, max_tokens=1).choices[0].text == prompt + "w0 "


def test_echo_and_best_of(client):
    prompt = "tokens=2 é"
    assert client.completions.create(model="fake", prompt=prompt, echo=True).choices[0].text == prompt + "w0 w1 "
    stream = client.completions.create(model="fake", prompt=prompt, echo=True, stream=True, n=2)
    texts = ["", ""]
    for c in stream:
        for choice in c.choices:
            texts[choice.index] += choice.text
    assert texts == [prompt + "w0 w1 "] * 2
    r = client.completions.create(model="fake", prompt=prompt, best_of=4, n=2)
    assert [c.text for c in r.choices] == ["w0 w1 "] * 2 and r.choices[0].logprobs is None
    assert r.usage.completion_tokens == 8
    for fields, param in (({"max_tokens": 0, "logprobs": 1}, "max_tokens"), ({"best_of": 2, "stream": True}, "best_of"), ({"best_of": 1, "n": 2}, "best_of"),
                          ({"suffix": "x"}, "suffix")):
        with pytest.raises(openai.BadRequestError) as e:
            client.completions.create(model="fake", prompt=prompt, **fields)
        assert e.value.param == param
