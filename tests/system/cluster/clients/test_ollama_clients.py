"""The ollama client of PyPI against a real model, at the address of Ollama's API: answers, counts, durations, a format and embeddings. A stage
and a gateway are killed."""
import json
import time

import httpx
import ollama
import pytest
from harness import free_port, running

MODEL = "smollm2"
PROMPT = "Tell me about a small town by the sea."
MESSAGES = [{"role": "user", "content": PROMPT}]
GREEDY = {"temperature": 0, "num_predict": 100}


@pytest.fixture(scope="module")
def url():
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def cluster(url):
    with running(gateway=f'ollama = "{url.removeprefix("http://")}"') as c:
        yield c


@pytest.fixture(scope="module")
def client(cluster, url):
    return ollama.Client(host=url, timeout=120)


@pytest.fixture(scope="module")
def whole(client):
    return client.chat(MODEL, MESSAGES, options=GREEDY)


def test_an_answer_is_the_chats_with_true_counts(cluster, client, whole):
    chat = cluster.post("/v1/chat/completions", {"model": MODEL, "messages": MESSAGES, "max_tokens": 100, "temperature": 0})[2]
    choice, usage = chat["choices"][0], chat["usage"]
    assert whole.message.content == choice["message"]["content"] and whole.done_reason == choice["finish_reason"]
    assert (whole.prompt_eval_count, whole.eval_count) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert client.generate(MODEL, PROMPT, options=GREEDY).response == whole.message.content
    assert client.generate(f"{MODEL}:latest", PROMPT, options=GREEDY).response == whole.message.content


def test_durations_are_those_of_the_work(client):
    began = time.monotonic_ns()
    r = client.chat(MODEL, MESSAGES, options=GREEDY)
    took = time.monotonic_ns() - began
    assert r.total_duration == r.load_duration + r.prompt_eval_duration + r.eval_duration
    assert took / 2 < r.total_duration < took
    assert r.prompt_eval_duration > 0 and r.eval_duration > r.total_duration / 2  # a hundred tokens, after a short prompt


def test_a_format_is_enforced(client):
    schema = {"type": "object", "properties": {"town": {"type": "string", "maxLength": 20}}, "required": ["town"], "additionalProperties": False}
    answer = json.loads(client.chat(MODEL, MESSAGES, format=schema, options={"temperature": 0}).message.content)
    assert list(answer) == ["town"]


def test_models_and_embeddings(cluster, client):
    (listed,) = client.list().models
    assert listed.model == f"{MODEL}:latest" and listed.details.family == "llama" and client.ps().models[0].model == listed.model
    shown = client.show(MODEL)
    assert set(shown.capabilities) == {"completion", "tools"} and shown.modelinfo["general.parameter_count"] > 1e8
    status, _, openai = cluster.post("/v1/embeddings", {"input": ["a town"]})
    assert status == 200
    r = client.embed(MODEL, "a town")
    assert list(r.embeddings[0]) == openai["data"][0]["embedding"] and r.prompt_eval_count == openai["usage"]["prompt_tokens"]


def test_the_beginning_of_an_answer_is_continued(client, whole):
    text = whole.message.content
    begun = text[: text.index(" ", 40)]  # between two words: their tokens are the same
    more = client.chat(MODEL, [*MESSAGES, {"role": "assistant", "content": begun}], options={"temperature": 0, "num_predict": 8}).message.content
    assert text.startswith(begun + more)


def test_a_stream_outlives_a_killed_stage(cluster, client, whole):
    former = cluster.pids()
    text, ends = "", []
    for part in client.chat(MODEL, MESSAGES, options=GREEDY, stream=True):
        if not text:
            cluster.kill("shard-1")
        text += part.message.content
        ends += [part] if part.done else []
    assert text == whole.message.content and [(p.done_reason, p.eval_count) for p in ends] == [(whole.done_reason, whole.eval_count)]
    cluster.wait_standing(("shard-1", former["shard-1"]))


def read(cluster, url, killed, last_id=None):
    """(text, last id, whether the answer has ended) of a stream; `killed` is killed after its first piece."""
    text, place, ended = "", last_id, False
    body = {"model": MODEL, "messages": MESSAGES, "options": GREEDY}
    with httpx.stream("POST", url + "/api/chat", json=body, headers={"Last-Event-ID": last_id} if last_id else {}, timeout=60) as answer:
        assert answer.status_code == 200, answer.read()
        try:
            for line in answer.iter_lines():
                data = json.loads(line)
                text, place, ended = text + data["message"]["content"], data.get("id", place), data["done"]
                if killed and text:
                    cluster.kill(killed)
                    killed = None
        except (httpx.HTTPError, json.JSONDecodeError):
            assert not ended
    return text, place, ended


def test_a_stream_is_continued_after_its_gateway_was_killed(cluster, url, whole):
    former = cluster.pids()
    text, place, ended = read(cluster, url, "gateway")
    assert text and place and not ended
    cluster.wait_standing(("gateway", former["gateway"]))
    for _ in range(20):  # until the head has found the new gateway
        try:
            more, _, ended = read(cluster, url, None, place)
            break
        except (AssertionError, httpx.HTTPError):
            time.sleep(0.5)
    assert ended and text + more == whole.message.content
