"""Anthropic's Messages API: raw HTTP, and the official anthropic client, synchronous and asynchronous. The fake head repeats the given
text, in pieces of three bytes."""

import asyncio
import json

import anthropic
import httpx
import pytest
from anthropic.types import MessageTokensCount
from fake_answers import call, say, saying
from raw import connect, exchange, request

from conftest import key_table

ROUTE, COUNT = "/v1/messages", "/v1/messages/count_tokens"
WEATHER = {"name": "get_weather", "description": "The weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}
TIME = {"name": "get_time", "input_schema": {"type": "object", "properties": {}}}


def client_of(gateway, key="none", kind=anthropic.Anthropic, **options):
    return kind(base_url=gateway.url, api_key=key, **{"max_retries": 0, "timeout": 30, **options})


@pytest.fixture
def client(gateway):
    return client_of(gateway)


TWO = "I look.\n" + call("get_weather", {"city": "Zürich \"x\"", "days": 2}) + "\n" + call("get_time", {})


def ask(client, messages, **fields):
    return client.messages.create(**{"model": "fake", "max_tokens": 1000, "messages": messages, **fields})


def post(gateway, body, route=ROUTE, headers=None):
    return httpx.post(gateway.url + route, json=body, headers=headers, timeout=30)


def body_of(content="tokens=3", **fields):
    return {"model": "fake", "max_tokens": 100, "messages": say(content), **fields}


def events_of(text):
    """(type, data, id) of each."""
    found = []
    for event in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        found.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
        assert found[-1][1]["type"] == fields["event"]
    return found


def test_whole(client):
    r = ask(client, say("tokens=3"))
    assert (r.type, r.role, r.model, r.stop_reason, r.stop_sequence) == ("message", "assistant", "fake", "end_turn", None)
    assert r.id.startswith("msg_") and [b.text for b in r.content] == ["w0 w1 w2 "]
    assert r.usage.output_tokens == 3 and r.usage.input_tokens > 0
    assert (r.usage.cache_read_input_tokens, r.usage.cache_creation_input_tokens) == (0, 0)
    assert r._request_id


def test_why_a_message_ends(client):
    r = ask(client, say("tokens=9"), max_tokens=2)
    assert r.stop_reason == "max_tokens" and r.content[0].text == "w0 w1 "
    r = ask(client, say("tokens=2 stop=END"), stop_sequences=["END"])
    assert (r.stop_reason, r.stop_sequence) == ("stop_sequence", "END")


def test_stream(client):
    with client.messages.stream(model="fake", max_tokens=100, messages=say("tokens=4 pace_ms=5")) as stream:
        assert "".join(stream.text_stream) == "w0 w1 w2 w3 "
        final = stream.get_final_message()
    assert final.stop_reason == "end_turn" and final.content[0].text == "w0 w1 w2 w3 " and final.usage.output_tokens == 4
    events = list(ask(client, say("tokens=2"), stream=True))
    assert [e.type for e in events if e.type != "content_block_delta"] == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]


def test_events_as_they_are(gateway):
    r = post(gateway, body_of("tokens=2 pace_ms=5", stream=True))
    assert r.headers["content-type"].startswith("text/event-stream") and r.headers["request-id"] == r.headers["x-request-id"]
    events = events_of(r.text)
    assert [t for t, _, _ in events] == ["message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta",
                                         "content_block_stop", "message_delta", "message_stop"]
    start = events[0][1]["message"]
    assert start["content"] == [] and start["stop_reason"] is None and start["usage"]["input_tokens"] > 0
    assert events[3][1] == {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "w0 "}}
    assert events[6][1]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None} and events[6][1]["usage"]["output_tokens"] == 2


def test_asynchronous_client(gateway):
    async def all_of_it():
        async with client_of(gateway, kind=anthropic.AsyncAnthropic) as client:
            async def text(n):
                async with client.messages.stream(model="fake", max_tokens=100, messages=say(f"tokens={n} pace_ms=5")) as stream:
                    return "".join([piece async for piece in stream.text_stream])
            streamed = await asyncio.gather(*(text(n) for n in (1, 2, 3)))
            whole = await ask(client, say("tokens=1"))
            count = await client.messages.count_tokens(model="fake", messages=say("abc"))
            return streamed, whole.content[0].text, count.input_tokens

    streamed, whole, count = asyncio.run(all_of_it())
    assert streamed == ["w0 ", "w0 w1 ", "w0 w1 w2 "] and whole == "w0 " and count > 0


def test_calls_of_tools_and_their_results(start):
    gateway = start()  # its own gateway: the test reads the head's requests
    client = client_of(gateway)
    r = ask(client, saying(TWO), tools=[WEATHER, TIME])
    assert gateway.wait_for("tools")["tools"] == [
        {"type": "function", "function": {"name": t["name"], **({"description": t["description"]} if "description" in t else {}),
                                          "parameters": t["input_schema"]}} for t in (WEATHER, TIME)]
    text, weather, time = r.content
    assert r.stop_reason == "tool_use" and text.text == "I look."
    assert (weather.name, weather.input) == ("get_weather", {"city": "Zürich \"x\"", "days": 2}) and (time.name, time.input) == ("get_time", {})
    assert weather.id.startswith("toolu_") and weather.id != time.id
    with client.messages.stream(model="fake", max_tokens=1000, messages=saying(TWO), tools=[WEATHER, TIME]) as stream:
        types = [e.type for e in stream]
        streamed = stream.get_final_message()
    assert "input_json" in types and streamed.stop_reason == "tool_use"
    assert [b.model_dump(exclude={"id"}) for b in streamed.content] == [b.model_dump(exclude={"id"}) for b in r.content]
    # The client's message goes back unchanged, with the results.
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": [{"type": "text", "text": "12 °C"}]} for b in (weather, time)]
    messages = [*saying("Done."), {"role": "assistant", "content": r.content}, {"role": "user", "content": results}]
    assert ask(client, messages, tools=[WEATHER, TIME]).content[0].text == "Done."


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}, {"type": "auto", "disable_parallel_tool_use": True}])
def test_under_a_grammar_arguments_are_streamed_as_they_are_drawn(client, choice):
    long = {"city": "x" * 60}
    pieces = [e.delta.partial_json for e in ask(client, saying(call("get_weather", long)), tools=[WEATHER, TIME], tool_choice=choice, stream=True)
              if e.type == "content_block_delta" and e.delta.type == "input_json_delta"]
    assert len(pieces) > 10 and json.loads("".join(pieces)) == long


def test_tool_runner_of_the_client(client):
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: its name
        """
        return f"12 in {city} answer={b'Fine.'.hex()}"

    runner = client.beta.messages.tool_runner(model="fake", max_tokens=1000, tools=[get_weather], max_iterations=2,
                                              messages=saying(call("get_weather", {"city": "Bern"})))
    first, *rest = list(runner)
    assert first.stop_reason == "tool_use" and first.content[0].input == {"city": "Bern"}
    assert [m.content[0].text for m in rest] == ["Fine."]


def test_count_of_tokens(client, gateway):
    counted = client.messages.count_tokens(model="fake", system="Be brief.", messages=say("tokens=1"))
    assert isinstance(counted, MessageTokensCount)
    r = ask(client, say("tokens=1"), system="Be brief.")
    assert r.usage.input_tokens + r.usage.cache_read_input_tokens == counted.input_tokens
    assert post(gateway, body_of(), COUNT).status_code == 400  # max_tokens has no place there
    assert set(post(gateway, {"model": "fake", "messages": say("a")}, COUNT).json()) == {"input_tokens"}


def test_a_last_message_of_the_assistant_is_continued(client):
    assert ask(client, [*say("tokens=1"), {"role": "assistant", "content": "So "}]).content[0].text == "w0 "


def test_headers_and_fields_of_the_clients(client):
    r = client.beta.messages.create(
        model="fake", max_tokens=9, betas=["context-1m-2025-08-07"], metadata={"user_id": "u"}, thinking={"type": "disabled"}, service_tier="auto",
        system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "tokens=1", "cache_control": {"type": "ephemeral"}}]}])
    assert r.content[0].text == "w0 "


def test_keys(start, keys_file):
    keys_file.write_text(key_table("user", "k"))
    g = start("--keys", str(keys_file))
    for client in (client_of(g, "k"), anthropic.Anthropic(base_url=g.url, auth_token="k", max_retries=0)):
        assert ask(client, say("tokens=1")).content[0].text == "w0 "
    with pytest.raises(anthropic.AuthenticationError) as e:
        ask(client_of(g, "K"), say("tokens=1"))
    assert e.value.body["error"]["type"] == "authentication_error" and e.value.request_id == e.value.body["request_id"]
    assert httpx.get(g.url + "/v1/models", headers={"X-Api-Key": "k"}).status_code == 200
    assert httpx.get(g.url + "/v1/models", headers={"X-Api-Key": "k", "Authorization": "Bearer K"}).status_code == 401
    assert httpx.get(g.url + "/v1/models", headers={"X-Api-Key": ""}).status_code == 401


def test_errors_are_the_clients_own_exceptions(client, gateway):
    with pytest.raises(anthropic.NotFoundError) as e:
        ask(client, say("a"), model="other")
    assert e.value.body["error"]["type"] == "not_found_error" and "other" in e.value.body["error"]["message"]
    for fields, name in (({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"), ({"extra_body": {"colour": "red"}}, "colour"),
                         ({"extra_body": {"temperature": 1.5}}, "temperature"), ({"max_tokens": 0}, "max_tokens")):
        with pytest.raises(anthropic.BadRequestError) as e:
            ask(client, say("a"), **fields)
        assert e.value.body["error"]["type"] == "invalid_request_error" and name in e.value.body["error"]["message"]
    image = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]
    with pytest.raises(anthropic.BadRequestError, match="image"):
        ask(client, say(image))
    for data, status, kind in ((request("GET", ROUTE), 405, "invalid_request_error"), (request("POST", ROUTE, b"{"), 400, "invalid_request_error"),
                               (request("POST", ROUTE, b"x", headers=["Content-Encoding: gzip"]), 415, "invalid_request_error")):
        reply = exchange(gateway, data)
        assert reply.status == status and reply.json()["type"] == "error" and reply.json()["error"]["type"] == kind and reply.json()["request_id"]
    with connect(gateway) as s:
        s.sendall(f"POST {ROUTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n".encode())
        received = s.recv(65536).decode()
    assert " 413 " in received.split("\r\n")[0] and '"request_too_large"' in received


def test_overload(start):
    g = start("--slots", "1", "--overload-status", "503")
    with connect(g) as held:
        held.sendall(request("POST", ROUTE, body_of("hold=1")))
        g.wait_for("reserve")
        for stream in (False, True):
            r = post(g, body_of(stream=stream))
            assert (r.status_code, r.headers["retry-after"]) == (529, "2") and r.json()["error"]["type"] == "overloaded_error"
        with pytest.raises(anthropic.APIStatusError) as e:
            ask(client_of(g), say("a"))
        assert e.value.status_code == 529


def test_a_failure_ends_a_stream_with_an_event(client, gateway):
    events = events_of(post(gateway, body_of("tokens=5 fail_at=3 pace_ms=5", stream=True)).text)
    assert [t for t, _, _ in events if t.startswith("message_")] == ["message_start"]
    kind, data, _ = events[-1]
    assert kind == "error" and data["error"]["type"] == "api_error" and data["error"]["message"]
    with pytest.raises(anthropic.APIStatusError):
        list(ask(client, say("tokens=5 fail_at=3 pace_ms=5"), stream=True))
    with pytest.raises(anthropic.InternalServerError):
        ask(client, say("tokens=5 fail_at=3"))


@pytest.mark.parametrize("fields", [{}, {"tools": [WEATHER, TIME]}, {"tools": [WEATHER, TIME], "tool_choice": {"type": "any"}}])
def test_a_stream_is_continued_behind_any_id(gateway, fields):
    content = (saying(TWO if fields else "Only a text.") if "tool_choice" not in fields else saying(call("get_weather", {"city": "Bern"})))[0]["content"]
    body = body_of(content, stream=True, **fields)
    all_of_it = events_of(post(gateway, body).text)
    places = [i for i, (_, _, place) in enumerate(all_of_it) if place]
    assert places[-1] == len(all_of_it) - 1
    for at in places[:-1]:
        rest = events_of(post(gateway, body, headers={"Last-Event-ID": all_of_it[at][2]}).text)
        assert together(rest) == together(all_of_it[at + 1:]), all_of_it[at]
    assert [t for t, _, _ in events_of(post(gateway, body, headers={"Last-Event-ID": all_of_it[-1][2]}).text)] == ["message_stop"]


def together(events):
    """The events, with the deltas of a block in one: a continued stream may cut the text elsewhere."""
    out = []
    for kind, data, _ in events:
        if kind == "content_block_delta" and out and out[-1][0] == kind:
            out[-1][1] += data["delta"].get("text", data["delta"].get("partial_json"))
        elif kind == "content_block_delta":
            out.append([kind, data["delta"].get("text", data["delta"].get("partial_json"))])
        else:
            out.append([kind, {k: v for k, v in data.items() if k != "usage"}])
    return out


def test_a_place_that_is_none_is_refused(gateway):
    body = body_of(stream=True)
    place = events_of(post(gateway, body).text)[-1][2]
    gone = post(gateway, body, headers={"Last-Event-ID": "99999999" + place})
    assert gone.status_code == 404 and gone.json()["error"]["type"] == "not_found_error"
    for fields, bad in (({"stream": False}, place), ({}, "x"), ({}, place.rsplit(".", 1)[0])):
        refused = post(gateway, {**body, **fields}, headers={"Last-Event-ID": bad})
        assert refused.status_code == 400 and "Last-Event-ID" in refused.json()["error"]["message"]
