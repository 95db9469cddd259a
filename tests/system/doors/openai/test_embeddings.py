"""OpenAI's embeddings through each API: the official client, both formats, several inputs, refusals, quotas. The fake head's embeddings are 1, 1/2, 1/3 ..."""

import base64
import struct

import httpx
import openai
import pytest
from conftest import key_table

PATH = "/v1/embeddings"


@pytest.fixture
def client(gateway):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=30)


def fractions(count):
    return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}f", *(1 / i for i in range(1, count + 1)))))


def test_both_formats_are_the_same_floats(client):
    default = client.embeddings.create(model="fake", input="tokens=5")  # the client asks for base64 and unpacks it
    numbers = client.embeddings.create(model="fake", input="tokens=5", encoding_format="float")
    assert default.object == "list" and default.data[0].object == "embedding"
    assert list(default.data[0].embedding) == fractions(5)
    assert [struct.unpack("<f", struct.pack("<f", v))[0] for v in numbers.data[0].embedding] == fractions(5)
    text = client.embeddings.create(model="fake", input="tokens=5", encoding_format="base64").data[0].embedding
    raw = base64.b64decode(text) if isinstance(text, str) else struct.pack("<5f", *text)
    assert list(struct.unpack("<5f", raw)) == fractions(5)
    assert default.usage.prompt_tokens == default.usage.total_tokens == len("tokens=5")


def test_several_inputs_keep_their_order(client, gateway):
    inputs = [f"tokens={n}" for n in (3, 1, 7, 2)]
    r = client.embeddings.create(model="fake", input=inputs, user="somebody")
    assert [d.index for d in r.data] == [0, 1, 2, 3]
    assert [len(d.embedding) for d in r.data] == [3, 1, 7, 2]
    assert r.usage.prompt_tokens == sum(map(len, inputs))
    ids = [[ord(c) for c in text] for text in inputs]
    assert [list(d.embedding) for d in client.embeddings.create(model="fake", input=ids).data] == [list(d.embedding) for d in r.data]
    assert list(client.embeddings.create(model="fake", input=ids[0]).data[0].embedding) == fractions(3)
    unnamed = httpx.post(gateway.url + PATH, json={"input": inputs[0]}).json()
    assert unnamed["model"] == "fake"


@pytest.mark.parametrize("fields, param", [
    ({"dimensions": 64}, "dimensions"), ({"encoding_format": "hex"}, "encoding_format"), ({"input": []}, "input"), ({"input": ["a", 5]}, "input"),
    ({"input": ["x"] * 257}, "input"), ({"stream": True}, "stream"), ({"resumable": True}, "resumable"), ({"n": 2}, "n"), ({"input": [300]}, "input")])
def test_refusals_have_their_names(client, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(**{"model": "fake", "input": "tokens=1", **{k: v for k, v in fields.items() if k == "input"}},
                                 extra_body={k: v for k, v in fields.items() if k != "input"})
    assert refused.value.param == param


def test_one_that_fails_fails_the_call(client):
    with pytest.raises(openai.InternalServerError, match="told to fail"):
        client.embeddings.create(model="fake", input=["tokens=1", "fail_at=1", "tokens=2"])
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="none", input="tokens=1")
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="fake", input=["tokens=1", "refuse=context_length_exceeded"])
    assert refused.value.code == "context_length_exceeded"


def test_a_client_that_leaves_has_its_tickets_cancelled(start):
    gateway = start()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(gateway.url + PATH, json={"input": ["hold=1", "hold=1"]}, timeout=0.5)
    assert {gateway.wait_for("cancel")["why"] for _ in range(2)} == {1}


def test_metrics_count_prompt_tokens(gateway):
    def counted():
        lines = httpx.get(gateway.url + "/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("baton_prompt_tokens_total"))

    before = counted()
    assert httpx.post(gateway.url + PATH, json={"input": ["tokens=1", "tokens=2"]}).status_code == 200
    assert counted() == before + 2 * len("tokens=1")


def test_a_quota_counts_prompt_tokens(start, keys_file):
    keys_file.write_text(key_table("user", "k", tokens_per_minute=12))
    gateway = start("--keys", str(keys_file))
    answers = [httpx.post(gateway.url + PATH, json={"input": "tokens=1"}, headers={"Authorization": "Bearer k"}) for _ in range(3)]
    assert [a.status_code for a in answers] == [200, 200, 429]  # 8 each, as they come
    assert answers[2].json()["error"]["param"] == "tokens_per_minute"
    assert httpx.post(gateway.url + PATH, json={"input": "tokens=1"}).status_code == 401
