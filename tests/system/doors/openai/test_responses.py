"""The Responses API with the official openai client: whole, streamed, stored, in the background, continued."""

import json
import time

import httpx
import openai
import pydantic
import pytest
from fake_answers import call, prompt_for

from conftest import key_table

ROUTE = "/v1/responses"
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def client_of(gateway, key="none"):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0, timeout=30)


@pytest.fixture
def client(gateway):
    return client_of(gateway)


def until(client, response_id, *states, seconds=20):
    end = time.monotonic() + seconds
    while (r := client.responses.retrieve(response_id)).status not in states:
        assert time.monotonic() < end, r.status
        time.sleep(0.02)
    return r


def test_whole(client):
    r = client.responses.create(model="fake", input="tokens=3", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5)
    assert r.object == "response" and r.status == "completed" and r.id.startswith("resp_")
    assert r.output_text == "w0 w1 w2 " and r.output[0].role == "assistant"
    assert (r.instructions, r.metadata, r.temperature, r.model, r.error) == ("Be brief.", {"a": "b"}, 0.5, "fake", None)
    assert r.usage.output_tokens == 3 and r.usage.total_tokens == r.usage.input_tokens + 3
    assert client.responses.retrieve(r.id).to_dict() == r.to_dict()


def test_length_is_incomplete(client):
    r = client.responses.create(model="fake", input="tokens=9", max_output_tokens=2)
    assert r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens" and r.output_text == "w0 w1 "


def test_stream(client):
    events = list(client.responses.create(model="fake", input="tokens=4 pace_ms=5", stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    types = [e.type for e in events]
    assert types[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert types[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "w0 w1 w2 w3 "
    last = events[-1].response
    assert last.output_text == "w0 w1 w2 w3 " and last.usage.output_tokens == 4
    with client.responses.stream(model="fake", input="tokens=3") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "w0 w1 w2 "
    # A stored response replays the same events, from any number on.
    for after in (0, 3, len(events) - 2, len(events) - 1):
        again = list(client.responses.retrieve(last.id, stream=True, starting_after=after))
        assert [e.to_dict() for e in again] == [e.to_dict() for e in events[after + 1:]]


def test_calls_of_functions(client):
    text = "I look.\n" + call("get_weather", {"city": "Z\u00fcrich"})
    r = client.responses.create(model="fake", input=prompt_for(text), tools=[WEATHER])
    message, asked = r.output
    assert message.content[0].text == "I look." and asked.type == "function_call" and asked.name == "get_weather"
    assert json.loads(asked.arguments) == {"city": "Z\u00fcrich"}
    assert r.tools[0].name == "get_weather" and r.tool_choice == "auto"
    events = list(client.responses.create(model="fake", input=prompt_for(text), tools=[WEATHER], tool_choice={"type": "function", "name": "get_weather"}, stream=True))
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    parts = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    assert len(done) == 1 and done[0].arguments == parts and json.loads(parts) == {"city": "Z\u00fcrich"}
    # The response goes back unchanged with the result, or by its id.
    result = {"type": "function_call_output", "call_id": asked.call_id, "output": "12 \u00b0C tokens=1"}
    back = client.responses.create(model="fake", input=[{"role": "user", "content": "weather?"}, *r.output, result], tools=[WEATHER])
    assert back.output_text == "w0 "
    assert client.responses.create(model="fake", input=[result], previous_response_id=r.id, tools=[WEATHER]).status == "completed"


def test_structured(client, gateway):
    class City(pydantic.BaseModel):
        name: str
        people: int

    r = client.responses.parse(model="fake", input=prompt_for('{"name": "Bern", "people": 134506}'), text_format=City)
    assert r.output_parsed == City(name="Bern", people=134506)
    assert r.text.format.type == "json_schema"


def test_a_conversation_goes_on_by_id(client):
    first = client.responses.create(model="fake", input="tokens=2", instructions="x" * 100)
    second = client.responses.create(model="fake", input="tokens=3", previous_response_id=first.id)
    assert second.previous_response_id == first.id and second.output_text == "w0 w1 w2 "
    third = client.responses.create(model="fake", input="tokens=1", previous_response_id=second.id)
    alone = client.responses.create(model="fake", input=[{"role": "user", "content": "tokens=2"}, {"role": "assistant", "content": "w0 w1 "},
                                                         {"role": "user", "content": "tokens=3"}, {"role": "assistant", "content": "w0 w1 w2 "},
                                                         {"role": "user", "content": "tokens=1"}])
    assert third.usage.input_tokens == alone.usage.input_tokens  # and the first one's instructions are not among them
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(model="fake", input="a", previous_response_id="resp_none")
    assert e.value.param == "previous_response_id"


def test_background(start):
    g = start()
    client = client_of(g)
    r = client.responses.create(model="fake", input="tokens=6 pace_ms=20", background=True)
    assert r.status in ("queued", "in_progress") and r.background
    done = until(client, r.id, "completed")
    assert done.output_text == "w0 w1 w2 w3 w4 w5 "
    assert client.responses.cancel(r.id).status == "completed"  # it is over
    long = client.responses.create(model="fake", input="tokens=900 pace_ms=20", background=True)
    until(client, long.id, "in_progress")
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(model="fake", input="a", previous_response_id=long.id)
    assert e.value.param == "previous_response_id"
    cancelled = client.responses.cancel(long.id)
    assert cancelled.status == "cancelled" and client.responses.cancel(long.id).status == "cancelled"
    assert g.wait_for("cancel")["ticket"]
    gone = client.responses.create(model="fake", input="tokens=900 pace_ms=20", background=True)
    client.responses.delete(gone.id)
    assert g.wait_for("cancel")["ticket"]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(gone.id)


def test_a_stream_in_the_background_outlives_its_client(start):
    g = start()
    client = client_of(g)
    seen = []
    for event in client.responses.create(model="fake", input="tokens=40 pace_ms=20", background=True, stream=True):
        seen.append(event)
        if event.type == "response.output_text.delta" and len(seen) > 8:
            break  # the connection is closed
    response_id = seen[0].response.id
    client.close()
    client = client_of(g)
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number))
    assert [e.sequence_number for e in seen + rest] == list(range(len(seen) + len(rest)))
    text = "".join(e.delta for e in seen + rest if e.type == "response.output_text.delta")
    assert text == "".join(f"w{i} " for i in range(40)) == rest[-1].response.output_text
    assert not any(e["event"] == "cancel" for e in g.seen)


def test_a_client_that_leaves_ends_a_response_that_is_not_in_the_background(start):
    g = start()
    with httpx.stream("POST", g.url + ROUTE, json={"input": "tokens=900 pace_ms=20", "stream": True}, timeout=30) as r:
        next(r.iter_lines())
    assert g.wait_for("cancel")["ticket"]


def test_a_failure_in_the_background_is_its_status(client):
    r = client.responses.create(model="fake", input="tokens=9 fail_at=4 pace_ms=5", background=True)
    failed = until(client, r.id, "failed")
    assert failed.error.code == "internal" and failed.output_text == "w0 w1 w2 "
    assert list(client.responses.retrieve(r.id, stream=True))[-1].type == "response.failed"
    refused = client.responses.create(model="fake", input="refuse=context_length_exceeded", background=True)
    assert until(client, refused.id, "failed").error.code == "context_length_exceeded"


def test_a_failure_before_a_client_is_its_error(client):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as e:
            client.responses.create(model="fake", input="refuse=context_length_exceeded", stream=stream)
        assert e.value.code == "context_length_exceeded"
    events = list(client.responses.create(model="fake", input="tokens=9 fail_at=4 pace_ms=5", stream=True))
    assert events[-1].type == "response.failed" and events[-1].response.error.code == "internal"


def test_store_false_keeps_nothing(client):
    r = client.responses.create(model="fake", input="tokens=1", store=False)
    assert r.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(r.id)
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(model="fake", input="a", store=False, background=True)
    assert e.value.param == "background"


def test_a_response_belongs_to_its_key(start, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text(key_table("ann", "a") + key_table("bob", "b"))
    g = start("--keys", str(keys))
    ann, bob = client_of(g, "a"), client_of(g, "b")
    r = ann.responses.create(model="fake", input="tokens=1")
    running = ann.responses.create(model="fake", input="tokens=500 pace_ms=20", background=True)
    for ask in (bob.responses.retrieve, bob.responses.cancel, bob.responses.delete):
        for response_id in (r.id, running.id):
            with pytest.raises(openai.NotFoundError):
                ask(response_id)
    with pytest.raises(openai.BadRequestError):
        bob.responses.create(model="fake", input="a", previous_response_id=r.id)
    assert ann.responses.retrieve(r.id).output_text == "w0 "
    assert ann.responses.cancel(running.id).status == "cancelled"


def test_stored_responses_are_bounded_in_number_and_time(start):
    g = start("--responses", "3", "--background", "1", "--responses-kept-ms", "1500")
    client = client_of(g)
    all_ = [client.responses.create(model="fake", input="tokens=1").id for _ in range(5)]
    for gone in all_[:2]:
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(gone)
    assert [client.responses.retrieve(i).id for i in all_[2:]] == all_[2:]
    running = client.responses.create(model="fake", input="hold=1", background=True)
    with pytest.raises(openai.InternalServerError) as e:
        client.responses.create(model="fake", input="hold=1", background=True)
    assert e.value.code == "overloaded" and e.value.status_code == 503
    assert g.wait_for("cancel")["ticket"]  # of the one that was refused
    end = time.monotonic() + 20
    while True:
        try:
            client.responses.retrieve(all_[-1])
        except openai.NotFoundError:
            break
        assert time.monotonic() < end
        time.sleep(0.1)
    assert client.responses.retrieve(running.id).status == "queued"
    client.responses.cancel(running.id)


def test_background_responses_do_not_delay_a_stopping_gateway(start):
    g = start()
    client_of(g).responses.create(model="fake", input="hold=1", background=True)
    before = time.monotonic()
    assert g.stop() == 0
    assert time.monotonic() - before < 15


def test_where_gateways_share_an_address_nothing_is_stored(start):
    g = start("--shares-http")
    client = client_of(g)
    r = client.responses.create(model="fake", input="tokens=1")
    assert r.output_text == "w0 " and r.store is False
    for fields, param in [({"store": True}, "store"), ({"background": True}, "background"), ({"previous_response_id": "resp_1"}, "previous_response_id")]:
        with pytest.raises(openai.BadRequestError) as e:
            client.responses.create(model="fake", input="a", **fields)
        assert e.value.param == param


@pytest.mark.parametrize("fields, param", [
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
    ({"truncation": "auto"}, "truncation"),
    ({"include": ["message.output_text.logprobs"]}, "include"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}}}, "text.format"),
    ({"extra_headers": {"Last-Event-ID": "3"}}, "Last-Event-ID"),
])
def test_what_is_not_there_is_refused_by_name(client, fields, param):
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**{"model": "fake", "input": "a", **fields})
    assert e.value.param == param


def test_questions_to_responses(client, gateway):
    r = client.responses.create(model="fake", input="tokens=1")
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(r.id)  # it did not run in the background
    url = f"{gateway.url}{ROUTE}/{r.id}"
    for query in ("", "?stream=true"):  # of a header no body follows
        with httpx.Client() as one:
            assert one.head(url + query).status_code == 200 and one.get(url).json()["id"] == r.id
    assert httpx.delete(url).json() == {"id": r.id, "object": "response", "deleted": True}
    assert httpx.delete(url).status_code == 404 and httpx.get(url).json()["error"]["code"] == "not_found"
    assert httpx.get(url + "?colour=red").json()["error"]["param"] == "colour"
    assert httpx.put(url).status_code == 405 and httpx.get(url + "/cancel").status_code == 405
    assert httpx.get(f"{gateway.url}{ROUTE}/").status_code == 404
