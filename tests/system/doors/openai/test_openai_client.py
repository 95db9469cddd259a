"""The official openai client and curl, as users have them."""

import json
import subprocess

import openai
import pydantic
import pytest
from fake_answers import say
from openai.types.chat import ParsedChatCompletionMessage


def client_of(gateway, key="none"):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0, timeout=30)


@pytest.fixture
def client(gateway):
    return client_of(gateway)


def test_chat_whole(client):
    r = client.chat.completions.create(model="fake", messages=say("tokens=3"))
    assert r.object == "chat.completion"
    assert r.id.startswith("chatcmpl-")
    assert r.choices[0].message.content == "w0 w1 w2 "
    assert r.choices[0].message.role == "assistant"
    assert r.choices[0].finish_reason == "stop"
    assert r.usage.completion_tokens == 3
    assert r.usage.total_tokens == r.usage.prompt_tokens + 3


def test_chat_stream(client):
    chunks = list(client.chat.completions.create(
        model="fake", messages=say("tokens=4 pace_ms=5"), stream=True,
        stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "w0 w1 w2 w3 "
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] == "stop" and reasons[:-1] == [None] * (len(reasons) - 1)
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4
    assert all(c.usage is None for c in chunks[:-1])


def test_max_tokens_is_length(client):
    r = client.chat.completions.create(model="fake", messages=say("tokens=9"), max_tokens=2)
    assert r.choices[0].finish_reason == "length"
    assert r.choices[0].message.content == "w0 w1 "


def test_several_choices(client):
    r = client.chat.completions.create(model="fake", messages=say("tokens=2"), n=3)
    assert [c.index for c in r.choices] == [0, 1, 2]
    assert {c.message.content for c in r.choices} == {"w0 w1 "}
    assert r.usage.completion_tokens == 6


def test_a_usage_in_every_chunk(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(client.chat.completions.create(model="fake", messages=say("tokens=3 pace_ms=5"), stream=True, stream_options=options))
    seen = [c.usage.completion_tokens for c in chunks]
    assert seen[0] == 0 and seen == sorted(seen) and seen[-1] == 3 and all(c.usage.prompt_tokens == chunks[-1].usage.prompt_tokens > 0 for c in chunks)
    assert all(c.usage.total_tokens == c.usage.prompt_tokens + c.usage.completion_tokens for c in chunks)
    texts = list(client.completions.create(model="fake", prompt="tokens=3 pace_ms=5", stream=True, stream_options=options))
    assert [c.usage.completion_tokens for c in texts][-1] == 3 and all(c.usage for c in texts)
    alone = client.chat.completions.create(model="fake", messages=say("tokens=2"), stream=True, stream_options={"continuous_usage_stats": True})
    assert all(c.usage is None for c in alone)  # as vLLM: there is none at the end either


class Word(pydantic.BaseModel):
    word: str


def test_messages_of_the_client_itself_are_taken_back(client):
    """parse() and model_dump() add names and nulls to an answer that were not in it."""
    whole = client.chat.completions.create(model="fake", messages=say("tokens=2")).choices[0].message
    parsed = client.chat.completions.parse(model="fake", messages=say('text={"word":"x"} tokens=1'), response_format=Word).choices[0].message
    assert parsed.parsed == Word(word="x")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}}}
    called = ParsedChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})
    for message in (whole, parsed, called):
        for answer in (message, message.model_dump(), message.to_dict(), message.model_dump(exclude_unset=True), json.loads(message.model_dump_json())):
            answers = [{"role": "tool", "tool_call_id": "c", "content": "1"}] if message is called else []
            r = client.chat.completions.create(model="fake", messages=[*say("a"), answer, *answers, *say("tokens=2")])
            assert r.choices[0].message.content == "w0 w1 "
    event = client.chat.completions.create(model="fake", messages=say("tokens=1"), stream=True)
    delta = next(c for c in event if c.choices and c.choices[0].delta.content).choices[0].delta
    answer = {**delta.model_dump(), "role": "assistant"}
    assert client.chat.completions.create(model="fake", messages=[*say("a"), answer, *say("tokens=1")]).choices[0].message.content == "w0 "
    response = client.responses.create(model="fake", input="tokens=1")
    back = [o.model_dump() for o in response.output]
    again = client.responses.create(model="fake", input=[*say("a"), *back, *say("tokens=2")])
    assert again.output_text == "w0 w1 "


@pytest.mark.parametrize("more", [
    {"type": "text"}, {"reasoning_content": "hm"}, {"reasoning": "hm"}, {"cache_control": {"type": "ephemeral"}}, {"id": "msg_1"}, {"phase": "final"},
    {"refusal": None}, {"annotations": []}, {"annotations": [{"type": "url_citation"}]}, {"audio": None}, {"function_call": None}, {"name": None},
    {"tool_calls": None}, {"provider_specific_fields": {"x": 1}}, {"of_no_one": None},
])
def test_what_cannot_change_an_answer_is_read_over(client, more):
    parts = [{"type": "text", "text": "b", **{k: v for k, v in more.items() if k in ("cache_control", "id", "phase", "annotations")}}]
    for content in ("b", parts):
        messages = [*say("a"), {"role": "assistant", "content": content, **more}, {"role": "user", "content": "tokens=1", **more}]
        assert client.chat.completions.create(model="fake", messages=messages).choices[0].message.content == "w0 "


def test_the_newer_of_two_limits_counts(client):
    chat = client.chat.completions.create(model="fake", messages=say("tokens=9"), max_tokens=2, max_completion_tokens=3)
    assert chat.usage.completion_tokens == 3 and chat.choices[0].finish_reason == "length"
    text = client.completions.create(model="fake", prompt="tokens=9", max_tokens=2, extra_body={"max_completion_tokens": 3})
    assert text.usage.completion_tokens == 3
    assert client.completions.create(model="fake", prompt="tokens=20", max_tokens=-1).usage.completion_tokens == 20  # no limit, to llama.cpp


def test_logprobs(client):
    r = client.chat.completions.create(model="fake", messages=say("tokens=2"), logprobs=True,
                                       top_logprobs=2)
    entries = r.choices[0].logprobs.content
    assert [e.token for e in entries] == ["w0 ", "w1 "]
    assert bytes(entries[0].bytes) == b"w0 "
    assert len(entries[0].top_logprobs) == 2


def test_completions(client):
    r = client.completions.create(model="fake", prompt="tokens=2", logprobs=1)
    assert r.object == "text_completion" and r.choices[0].text == "w0 w1 "
    assert r.choices[0].logprobs.text_offset == [0, 3]
    stream = client.completions.create(model="fake", prompt="tokens=3", stream=True)
    assert "".join(c.choices[0].text for c in stream if c.choices) == "w0 w1 w2 "


def test_unicode_both_ways(client):
    text = "text=\u00e9\U0001f600\"\\ tokens=2"
    r = client.chat.completions.create(model="fake", messages=say(text), stream=True)
    got = "".join(c.choices[0].delta.content or "" for c in r)
    assert got == "\u00e9\U0001f600\"\\" * 2


def test_models(client):
    assert [m.id for m in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").id == "fake"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")


@pytest.mark.parametrize("fields, error, param", [
    ({"temperature": 3}, openai.BadRequestError, "temperature"),
    ({"n": 0}, openai.BadRequestError, "n"),
    ({"tools": [{"type": "function", "function": {"name": "f f"}}]}, openai.BadRequestError, "tools[0].function.name"),
    ({"functions": [{"name": "f"}]}, openai.BadRequestError, "functions"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}}}}}, openai.BadRequestError, "response_format"),
    ({"extra_body": {"guided_regex": "(?=a)"}}, openai.BadRequestError, "guided_regex"),
    ({"model": "other"}, openai.NotFoundError, "model"),
])
def test_bad_requests_are_typed_errors(client, fields, error, param):
    with pytest.raises(error) as e:
        client.chat.completions.create(**{"model": "fake", "messages": say("x"), **fields})
    assert e.value.param == param
    assert e.value.body["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("code, status", [("context_length_exceeded", 400), ("overloaded", 503),
                                          ("queue_timeout", 408)])
def test_a_refusal_before_the_first_chunk_has_its_http_status(client, stream, code, status):
    with pytest.raises(openai.APIStatusError) as e:
        client.chat.completions.create(model="fake", messages=say(f"refuse={code}"), stream=stream)
    assert e.value.status_code == status
    assert e.value.code == code
    assert ("retry-after" in e.value.response.headers) == (status != 400)


def test_a_stream_that_fails_ends_with_an_error(client):
    stream = client.chat.completions.create(model="fake", messages=say("tokens=9 fail_at=4"),
                                            stream=True)
    got = []
    with pytest.raises(openai.APIError) as e:
        for c in stream:
            got.append(c.choices[0].delta.content or "")
    assert "".join(got) == "w0 w1 w2 "
    assert e.value.code == "internal"


def test_a_failure_without_stream_is_a_500(client):
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="fake", messages=say("tokens=9 fail_at=4"))


def test_text_that_came_twice_is_delivered_once_and_what_was_lost_comes_again(client):
    r = client.chat.completions.create(model="fake", messages=say("tokens=5 twice_at=2"))
    assert r.choices[0].message.content == "w0 w1 w2 w3 w4 "
    for pace in (0, 2):
        r = client.chat.completions.create(model="fake", messages=say(f"tokens=5 gap_at=2 gaps=2 pace_ms={pace}"), n=2)
        assert [c.message.content for c in r.choices] == ["w0 w1 w2 w3 w4 "] * 2
    with pytest.raises(openai.APIStatusError) as e:
        client.chat.completions.create(model="fake", messages=say("tokens=5 gap_at=2 gaps=100"))
    assert e.value.code == "link_down"


def test_curl_line_of_the_readme(gateway):
    body = '{"model":"fake","stream":true,"messages":[{"role":"user","content":"tokens=2"}]}'
    out = subprocess.run(["curl", "-sN", gateway.url + "/v1/chat/completions", "-d", body],
                         capture_output=True, text=True, check=True, timeout=30).stdout
    events = [e for e in out.split("\n\n") if e]
    assert events[-1] == "data: [DONE]"
    ids = [e.split("\n")[0] for e in events[:-1]]
    ticket = ids[0].removeprefix("id: ").split(":")[0]
    assert ids == [f"id: {ticket}:{i}" for i in ("0", "1", "2", "2!")]
    data = [json.loads(e.split("\n")[1].removeprefix("data: ")) for e in events[:-1]]
    assert data[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert data[-1]["choices"][0]["finish_reason"] == "stop"


def test_tokenize_and_detokenize(gateway):
    import httpx
    r = httpx.post(gateway.url + "/tokenize", json={"prompt": "ab", "return_token_strs": True})
    assert r.json() == {"count": 2, "max_model_len": 4096, "tokens": [97, 98],
                        "token_strs": ["a", "b"]}
    r = httpx.post(gateway.url + "/detokenize", json={"tokens": [97, 98]})
    assert r.json() == {"prompt": "ab"}
    r = httpx.post(gateway.url + "/detokenize", json={"tokens": [500]})
    assert r.status_code == 400 and r.json()["error"]["param"] == "tokens"


def test_api_key(start, keys_file):
    g = start("--keys", str(keys_file))
    assert client_of(g, "k").models.list().data[0].id == "fake"
    with pytest.raises(openai.AuthenticationError) as e:
        client_of(g, "wrong").models.list()
    assert e.value.code == "unauthorized"
