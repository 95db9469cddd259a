"""The API of text-generation-inference, with Hugging Face's own client as users have it, and with bodies that no client sends."""

import json

import httpx
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import GenerationError, HfHubHTTPError, OverloadedError, ValidationError

ROUTES = ["/", "/generate", "/generate_stream"]


@pytest.fixture
def client(gateway):
    return InferenceClient(model=gateway.url, timeout=30)


def say(client, prompt, **fields):
    """The answer alone: TGI's root path returns the prompt as well by default."""
    return client.text_generation(prompt, **{"return_full_text": False, **fields})


def post(gateway, path, parameters=None, inputs="tokens=3", **fields):
    body = {"inputs": inputs, **({} if parameters is None else {"parameters": parameters}), **fields}
    return httpx.post(gateway.url + path, json=body, timeout=30)


def events_of(reply):
    assert reply.headers["content-type"].startswith("text/event-stream")
    return [json.loads(e.removeprefix("data:")) for e in reply.text.split("\n\n") if e]


def test_text(client):
    assert client.text_generation("tokens=3", return_full_text=False) == "w0 w1 w2 "
    assert client.text_generation("tokens=3") == "tokens=3w0 w1 w2 "


def test_details(client):
    r = say(client, "tokens=2", details=True, top_n_tokens=2, do_sample=True, seed=42)
    assert r.generated_text == "w0 w1 "
    d = r.details
    assert d.finish_reason == "eos_token" and d.generated_tokens == 2 and d.seed == 42 and d.prefill == []
    assert [t.text for t in d.tokens] == ["w0 ", "w1 "]
    assert all(t.logprob == -0.5 and not t.special for t in d.tokens)
    assert [len(t) for t in d.top_tokens] == [2, 2]
    assert say(client, "tokens=9", details=True, max_new_tokens=2).details.finish_reason == "length"
    assert say(client, "tokens=9", details=True, max_new_tokens=2).details.seed is None  # greedy
    assert say(client, "tokens=2 stop=##", details=True, stop=["##"]).details.finish_reason == "stop_sequence"


def test_details_of_the_prompt(client):
    d = say(client, "tokens=1", details=True, decoder_input_details=True).details
    assert [t.text for t in d.prefill] == [*"tokens=1"] and [t.id for t in d.prefill] == [*b"tokens=1"]
    assert [t.logprob for t in d.prefill] == [None] + [-i / 4 for i in range(1, 8)] and len(d.tokens) == 1


def test_best_of_several(client):
    r = say(client, "tokens=2", best_of=3, do_sample=True, details=True)
    assert r.generated_text == "w0 w1 "
    assert [s.generated_text for s in r.details.best_of_sequences] == ["w0 w1 "] * 2
    assert len({r.details.seed, *(s.seed for s in r.details.best_of_sequences)}) == 3
    for fields in ({"best_of": 2}, {"best_of": 2, "do_sample": True, "stream": True}):
        with pytest.raises(ValidationError, match="best_of"):
            say(client, "tokens=2", **fields)


def test_stream(client):
    assert list(say(client, "tokens=3 pace_ms=5", stream=True)) == ["w0 ", "w1 ", "w2 ", ""]
    events = list(say(client, "tokens=3", stream=True, details=True, stop=["##"]))
    assert [e.index for e in events] == [1, 2, 3]
    assert [e.token.text for e in events] == ["w0 ", "w1 ", "w2 "]
    assert [e.generated_text for e in events] == [None, None, "w0 w1 w2 "]
    assert events[-1].details.finish_reason == "eos_token"
    assert events[-1].details.generated_tokens == 3 and events[-1].details.input_length == len("tokens=3")


def test_truncate_keeps_the_last_tokens(client):
    last = "tokens=2"  # a token for each character, with this head
    r = say(client, "tokens=5 " + last, truncate=len(last), stream=True, details=True)
    assert list(r)[-1].details.input_length == len(last)


@pytest.mark.parametrize("grammar", [
    {"type": "json", "value": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    {"type": "json", "value": '{"type":"object"}'},
    {"type": "regex", "value": "[a-z]+"},
    {"type": "json_schema", "value": {"name": "n", "schema": {"type": "object"}}},
])
def test_grammars_pass(client, grammar):
    assert say(client, "tokens=1", grammar=grammar) == "w0 "


def test_every_parameter_of_the_client_passes(client):
    assert say(
        client, "tokens=1", best_of=1, decoder_input_details=False, details=False, do_sample=True, frequency_penalty=0.5,
        max_new_tokens=5, repetition_penalty=1.5, return_full_text=False, seed=7, stop=["x"], temperature=0.5, top_k=5,
        top_p=0.5, truncate=100, typical_p=0.5, watermark=True) == "w0 "


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fields, name", [
    ({"temperature": 0}, "temperature"), ({"top_p": 3}, "top_p"), ({"top_k": 0}, "top_k"), ({"typical_p": -1}, "typical_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"), ({"max_new_tokens": 0}, "max_new_tokens"), ({"truncate": 0}, "truncate"),
    ({"best_of": 99}, "best_of"), ({"adapter_id": "a"}, "adapter_id"),
    ({"grammar": {"type": "regex", "value": "(?=a)"}}, "parameters.grammar"), ({"stop": [""]}, "stop"),
])
def test_wrong_values_are_the_clients_own_validation_errors(client, fields, name, stream):
    with pytest.raises(ValidationError, match=name):
        list(say(client, "tokens=1", stream=stream, **fields))


def test_errors_are_the_clients_own(client, start, keys_file):
    for stream in (False, True):
        with pytest.raises(OverloadedError, match="Model is overloaded"):
            list(say(client, "refuse=overloaded", stream=stream))
        with pytest.raises(GenerationError):
            list(say(client, "tokens=9 fail_at=4", stream=stream))
    texts = []
    with pytest.raises(GenerationError):
        for text in say(client, "tokens=9 fail_at=4 pace_ms=5", stream=True):
            texts.append(text)
    assert texts == ["w0 ", "w1 ", "w2 "]
    g = start("--keys", str(keys_file))
    assert say(InferenceClient(model=g.url, token="k"), "tokens=1") == "w0 "
    with pytest.raises(HfHubHTTPError) as e:
        say(InferenceClient(model=g.url, token="wrong"), "tokens=1")
    assert e.value.response.status_code == 401


@pytest.mark.parametrize("order, status, error_type", [
    ("refuse=context_length_exceeded", 422, "validation"), ("refuse=overloaded", 429, "overloaded"),
    ("refuse=no_job_ticket", 429, "overloaded"), ("refuse=deadline_exceeded", 500, "incomplete_generation"),
    ("tokens=2 fail_at=1", 424, "generation"),
])
@pytest.mark.parametrize("path", ROUTES)
def test_a_refusal_before_the_first_token_has_its_http_status(gateway, path, order, status, error_type):
    r = post(gateway, path, inputs=order)
    assert (r.status_code, r.json()["error_type"]) == (status, error_type)
    assert ("retry-after" in r.headers) == (status == 429 or "deadline" in order)


def test_info_and_health(gateway):
    client = InferenceClient(model=gateway.url, provider="hf-inference")  # the client needs it for these two calls
    info = client.get_endpoint_info()
    assert info["model_id"] == "fake" and info["max_total_tokens"] == 4096 and info["version"] == "baton-test"
    assert client.health_check()


def test_chats_of_the_client_pass(client):
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    answer = [{"role": "user", "content": "tokens=2"}]
    assert client.chat_completion(answer, model="fake", response_format=schema).choices[0].message.content == "w0 w1 "
    assert "".join(c.choices[0].delta.content or "" for c in client.chat_completion(answer, model="fake", stream=True)) == "w0 w1 "


PLACEHOLDERS = ["dummy", "tgi"]  # of huggingface_hub; of text-generation and of LiteLLM's huggingface/tgi


def test_chats_of_the_client_need_no_model(start):
    g = start()
    client = InferenceClient(model=g.url, timeout=30)  # which says "dummy"
    answer = [{"role": "user", "content": "tokens=2"}]
    whole = client.chat_completion(answer)
    assert whole.choices[0].message.content == "w0 w1 " and whole.model == "fake"
    assert "".join(c.choices[0].delta.content or "" for c in client.chat_completion(answer, stream=True)) == "w0 w1 "
    assert InferenceClient(base_url=g.url).chat.completions.create(messages=answer).model == "fake"


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "tokens=2"}]}), ("/v1/completions", {"prompt": ["tokens=2", "tokens=1"]}),
    ("/", {"inputs": "tokens=2"}), ("/generate", {"inputs": "tokens=2"}), ("/generate_stream", {"inputs": "tokens=2"}), ("/tokenize", {"inputs": "ab"})])
def test_names_that_clients_of_tgi_say_stand_for_the_one_model(start, path, body):
    one, several = start("--alias", "other"), start("--pipeline", "fake", "--pipeline", "second")
    replicas, none = start("--pipeline", "fake", "--pipeline", "fake"), start("--no-placeholder-models")
    for name in PLACEHOLDERS:
        ask = lambda g, n=name: httpx.post(g.url + path, json={"model": n, **body}, timeout=30)  # noqa: E731
        assert ask(one).status_code == ask(replicas).status_code == ask(one, "other").status_code == 200
        for g in (several, none):
            r = ask(g)
            assert r.status_code == 404 and f"'{name}' does not exist" in r.text and "'fake'" in r.text
        for unknown in ("nope", "Dummy", "dummy ", "tgi/fake"):
            assert ask(one, unknown).status_code == 404


def test_a_model_that_has_such_a_name_is_meant(start):
    g = start("--pipeline", "tgi", "--pipeline", "dummy")
    for name in PLACEHOLDERS:
        r = httpx.post(g.url + "/v1/completions", json={"model": name, "prompt": "tokens=1"})
        assert r.status_code == 200 and r.json()["model"] == name
    at_alias = httpx.post(start("--alias", "dummy").url + "/v1/completions", json={"model": "dummy", "prompt": "tokens=1"})
    assert at_alias.status_code == 200 and at_alias.json()["model"] == "dummy"


def test_other_apis_do_not_know_such_names(start):
    g = start("--torchserve-inference", "127.0.0.1:0")
    for path, body in (("/v1/responses", {"input": "a"}), ("/v1/embeddings", {"input": "a"}), ("/detokenize", {"tokens": [97]}), ("/tokenize", {"prompt": "a"})):
        assert httpx.post(g.url + path, json={"model": "tgi", **body}).status_code == 404, path
    assert httpx.get(g.url + "/v1/models/tgi").status_code == 404 and httpx.get(g.url + "/v2/models/tgi").status_code == 404


def test_root_is_the_page_and_a_list(gateway):
    assert "<html" in httpx.get(gateway.url + "/").text
    assert post(gateway, "/").json() == [{"generated_text": "tokens=3w0 w1 w2 "}]
    assert post(gateway, "/generate").json() == {"generated_text": "w0 w1 w2 "}
    assert events_of(post(gateway, "/", stream=True))[-1]["generated_text"] == "tokens=3w0 w1 w2 "
    assert events_of(post(gateway, "/generate_stream"))[-1]["generated_text"] == "w0 w1 w2 "
    r = httpx.delete(gateway.url + "/")
    assert r.status_code == 405 and r.headers["allow"] == "GET, HEAD, POST, OPTIONS"


def test_headers_tell_how_long_it_took(gateway):
    r = post(gateway, "/generate", {"details": True}, inputs="tokens=4 pace_ms=20")
    received = {k: int(v) for k, v in r.headers.items() if k in ("x-total-time", "x-validation-time", "x-queue-time", "x-inference-time",
                                                          "x-time-per-token", "x-prompt-tokens", "x-generated-tokens")}
    assert len(received) == 7
    assert received["x-generated-tokens"] == 4 and received["x-prompt-tokens"] == len("tokens=4 pace_ms=20")
    assert received["x-total-time"] >= received["x-inference-time"] >= 4 * received["x-time-per-token"] > 0  # of 60 ms, as far as the grant was heard in time
    assert r.headers["x-compute-characters"] == str(len("tokens=4 pace_ms=20"))
    assert float(r.headers["x-compute-time"]) * 1000 >= received["x-total-time"]
    stream = post(gateway, "/generate_stream")
    assert stream.headers["x-compute-type"] == "baton" and stream.headers["x-compute-characters"] == "8"


def test_tokenize_of_both(gateway):
    tgi = httpx.post(gateway.url + "/tokenize", json={"inputs": "ab"})
    assert tgi.json() == [{"id": 97, "text": "a", "start": 0, "stop": 1}, {"id": 98, "text": "b", "start": 1, "stop": 2}]
    assert httpx.post(gateway.url + "/tokenize", json={"prompt": "ab"}).json()["tokens"] == [97, 98]
    assert httpx.post(gateway.url + "/tokenize", json={"inputs": ""}).json()["error_type"] == "validation"
    assert httpx.post(gateway.url + "/tokenize", json={"prompt": 1}).json()["error"]["param"] == "prompt"


def test_a_stream_cannot_be_gone_on_with(gateway):
    r = httpx.post(gateway.url + "/generate_stream", json={"inputs": "tokens=3"}, headers={"Last-Event-ID": "1-0:1"})
    assert r.status_code == 422 and "Last-Event-ID" not in r.headers and "/v1" in r.json()["error"]


ABSURD = ["1e308", "-1e308", "-1", "0", "-0.0", "1e-44", "1e-300", "1e39", "0.5", "NaN", "Infinity", "9223372036854775808", "18446744073709551616", "1e400", '"string"', "true",
          "[]", "{}", "[1e308]", '{"a":1e308}']
NO_JSON = {"NaN", "Infinity", "1e400"}
TAKEN = {
    "temperature": {"0.5"}, "top_p": {"0.5"}, "typical_p": {"0.5"}, "repetition_penalty": {"0.5"},
    "frequency_penalty": {"-1", "0", "-0.0", "1e-44", "1e-300", "0.5"}, "seed": {"0", "9223372036854775808"}, "stop": {'"string"', "[]"}, "do_sample": {"true"}, "details": {"true"},
    "return_full_text": {"true"}, "watermark": {"true"}, "top_n_tokens": {"0"},
}
FIELDS = [*TAKEN, "top_k", "truncate", "max_new_tokens", "best_of", "decoder_input_details", "adapter_id", "grammar", "no_such_thing"]


@pytest.mark.parametrize("path", ROUTES)
def test_absurd_values_are_refused_by_field(gateway, path):
    wrong = []
    with httpx.Client(base_url=gateway.url, timeout=30) as c:
        for field in FIELDS:
            for value in ABSURD:
                r = c.post(path, content='{"inputs":"tokens=1","parameters":{"%s":%s}}' % (field, value))
                if value in TAKEN.get(field, ()):
                    is_right = r.status_code == 200
                else:
                    named = value in NO_JSON or field in r.json()["error"]
                    is_right = r.status_code == 422 and r.json()["error_type"] == "validation" and named
                if not is_right:
                    wrong.append(f"{field}={value}: {r.status_code} {r.text[:200]}")
        for body in ("", "[]", "{}", '"a"', '{"inputs":1}', '{"inputs":null}', '{"inputs":[]}', '{"inputs":"a","parameters":1}',
                     '{"inputs":"a","parameters":' + "[" * 5000 + "]" * 5000 + "}", '{"inputs":"\\ud800"}', '{"inputs":"a","inputs":1}'):
            r = c.post(path, content=body)
            if r.status_code != 422 or r.json()["error_type"] != "validation":
                wrong.append(f"{body[:40]}: {r.status_code} {r.text[:200]}")
    assert wrong == []
