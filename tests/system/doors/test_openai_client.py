"""The official openai client and curl, as users have them."""

import json
import subprocess

import openai
import pytest


def client_of(gateway, key="none"):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0, timeout=30)


@pytest.fixture
def client(gateway):
    return client_of(gateway)


def say(content):
    return [{"role": "user", "content": content}]


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
