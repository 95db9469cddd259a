"""Embeddings of the default model: similar texts are nearer; the bits are the same in any batch and after any kill."""
import threading

import openai
import pytest
from streams import begin_stories, texts

NEAR = ("A cat sleeps on the warm sofa.", "A kitten is napping on the soft couch.")
FAR = "The central bank raised its interest rate by a quarter of a percent."
LONG = " ".join(f"Sentence {i} of a long text is about the number {i * i}." for i in range(60))  # several chunks


def client_of(cluster):
    return openai.OpenAI(base_url=cluster.url + "/v1", api_key="none", max_retries=0, timeout=120)


def embed(client, texts, **fields):
    r = client.embeddings.create(model="smollm2", input=texts, **fields)
    return [list(d.embedding) for d in r.data]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_near_texts_are_nearer(shared):
    client = client_of(shared)
    one, other, far = embed(client, [*NEAR, FAR])
    assert all(abs(cosine(v, v) - 1) < 1e-5 for v in (one, other, far)) and len(one) == 576
    assert cosine(one, other) > max(cosine(one, far), cosine(other, far)) + 0.02
    numbers = embed(client, [*NEAR, FAR], encoding_format="float")
    assert max(abs(x - y) for v, w in zip(numbers, (one, other, far)) for x, y in zip(v, w)) < 1e-7


def test_the_bits_are_the_same_in_any_company(shared):
    client = client_of(shared)
    alone = [embed(client, text)[0] for text in (*NEAR, FAR, LONG)]
    stories = begin_stories(shared, count=4, tokens=48)
    assert embed(client, [*NEAR, FAR, LONG]) == alone
    assert embed(client, [LONG])[0] == alone[3]  # what is in the prefix cache by now is not skipped
    texts(stories)
    ids = [t for t in shared.post("/tokenize", {"prompt": FAR})[2]["tokens"]]
    assert embed(client, ids)[0] == alone[2]
    r = client.embeddings.create(model="smollm2", input=[FAR, FAR])
    assert r.usage.prompt_tokens == 2 * len(ids)


def test_refusals(shared):
    client = client_of(shared)
    with pytest.raises(openai.BadRequestError) as refused:
        embed(client, LONG * 40)
    assert refused.value.code == "context_length_exceeded" and refused.value.param == "input"
    with pytest.raises(openai.BadRequestError) as refused:
        embed(client, ["a", ""])
    assert refused.value.param == "input"


@pytest.mark.parametrize("victim", ["shard-0", "shard-1", "head"])
def test_a_kill_changes_no_bit(fresh, victim):
    client = client_of(fresh)
    inputs = [LONG + f" And that was number {i}." for i in range(6)]
    undisturbed = embed(client, inputs)
    found = []
    asking = threading.Thread(target=lambda: found.extend(embed(client, inputs)))
    stories = begin_stories(fresh, count=2, tokens=64)
    asking.start()
    asking.join(0.4)
    was_under_way = asking.is_alive()
    fresh.kill(victim)
    asking.join(120)
    assert was_under_way and found == undisturbed
    texts(stories)
    fresh.wait_standing()
