"""Several prompts in one completion: OpenAI's indices, whole and streamed. If one is refused, all are."""

import json
import time

import httpx
import openai
import pytest

COMPLETIONS = "/v1/completions"


@pytest.fixture
def client(gateway):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=30)


def texts_of(chunks):
    texts, ends = {}, {}
    for c in chunks:
        for choice in c.choices:
            assert choice.index not in ends
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    return texts, ends


PROMPTS = ["tokens=2", "tokens=3 pace_ms=3", "tokens=1 text=x"]
ANSWERS = ["w0 w1 ", "w0 w1 w2 ", "x"]


def test_answers_are_in_the_order_of_prompts(client):
    r = client.completions.create(model="fake", prompt=PROMPTS, n=2)
    assert [c.index for c in r.choices] == list(range(6))
    assert [c.text for c in r.choices] == [a for a in ANSWERS for _ in range(2)]
    assert r.usage.completion_tokens == 2 * (2 + 3 + 1)
    alone = [client.completions.create(model="fake", prompt=p).usage.prompt_tokens for p in PROMPTS]
    assert r.usage.prompt_tokens == sum(alone)


def test_a_stream_says_the_same(client):
    chunks = list(client.completions.create(model="fake", prompt=PROMPTS, n=2, stream=True, echo=True, stream_options={"include_usage": True}))
    texts, ends = texts_of(chunks)
    assert texts == {i: PROMPTS[i // 2] + ANSWERS[i // 2] for i in range(6)}
    assert ends == {i: "stop" for i in range(6)}
    assert chunks[-1].usage.completion_tokens == 12
    assert len({c.id for c in chunks}) == 1


def test_lists_of_ids(client, gateway):
    ids = [httpx.post(gateway.url + "/tokenize", json={"prompt": p}).json()["tokens"] for p in ("tokens=1", "tokens=2")]
    r = client.completions.create(model="fake", prompt=ids)
    assert [c.text for c in r.choices] == ["w0 ", "w0 w1 "]


@pytest.mark.parametrize("stream", [False, True])
def test_one_that_is_refused_refuses_all_and_leaves_nothing_running(start, stream):
    g = start()
    body = {"prompt": ["tokens=5 hold=1", "refuse=context_length_exceeded", "tokens=5 hold=1"], "stream": stream}
    r = httpx.post(g.url + COMPLETIONS, json=body, timeout=30)
    assert r.status_code == 400 and r.json()["error"]["code"] == "context_length_exceeded"
    gone = sorted(g.wait_for("cancel")["ticket"] for _ in range(2))
    assert gone[0] != gone[1]
    end = time.monotonic() + 20
    while httpx.get(g.url + "/load").json()["server_load"] > 0:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("stream", [False, True])
def test_one_that_finds_no_slot_refuses_all(start, stream):
    g = start("--slots", "2")
    r = httpx.post(g.url + COMPLETIONS, json={"prompt": ["hold=1"] * 3, "stream": stream}, timeout=30)
    assert r.status_code == 503 and r.json()["error"]["code"] == "no_job_ticket"
    assert len({g.wait_for("cancel")["ticket"] for _ in range(2)}) == 2


def test_one_that_fails_on_the_way_ends_the_stream(start):
    g = start()
    body = {"prompt": ["tokens=2 pace_ms=5", "tokens=500 pace_ms=20", "tokens=9 pace_ms=10 fail_at=4"], "stream": True}
    with httpx.stream("POST", g.url + COMPLETIONS, json=body, timeout=30) as r:
        assert r.status_code == 200
        lines = [line for line in r.iter_lines() if line]
    assert lines[-1] == "data: [DONE]" and json.loads(lines[-2][6:])["error"]["code"] == "internal"
    assert not any(line.startswith("id:") for line in lines)
    assert g.wait_for("cancel")["ticket"]


def test_a_client_that_leaves_ends_all(start):
    g = start()
    with httpx.stream("POST", g.url + COMPLETIONS, json={"prompt": ["tokens=900 pace_ms=20"] * 3, "stream": True}, timeout=30) as r:
        next(r.iter_lines())
    assert len({g.wait_for("cancel")["ticket"] for _ in range(3)}) == 3


def test_bounds_and_what_needs_one_prompt_are_refused_by_name(client):
    for fields, param in [({"prompt": ["a"] * 257}, "prompt"), ({"prompt": ["a"] * 100, "n": 3}, "prompt"),
                          ({"prompt": ["a", "b"], "extra_body": {"request_id": "x"}}, "request_id"),
                          ({"prompt": ["a", "b"], "stream": True, "extra_body": {"resumable": True}}, "resumable"),
                          ({"prompt": ["a", "b"], "stream": True, "extra_headers": {"Last-Event-ID": "1-0000000000000001:3"}}, "Last-Event-ID")]:
        with pytest.raises(openai.BadRequestError) as e:
            client.completions.create(model="fake", **fields)
        assert e.value.param == param
