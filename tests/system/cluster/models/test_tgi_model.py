"""TGI's API with a real model: its tokens, finish reasons and marks, also when a stage is killed."""
import concurrent.futures
import json
import re
import sys

import pytest
from harness import ROOT
from huggingface_hub import InferenceClient
from huggingface_hub.errors import ValidationError

sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client.watermark import detect  # noqa: E402

PROMPT = "Once upon a time, in a small town by the sea,"


@pytest.fixture
def client(shared):
    return InferenceClient(model=shared.url, timeout=120)


def say(client, prompt, **fields):
    """The answer alone: TGI's root path returns the prompt as well by default."""
    return client.text_generation(prompt, **{"return_full_text": False, **fields})


def ids_of(cluster, text):
    status, _, tokens = cluster.post("/tokenize", {"inputs": text})
    assert status == 200
    return [t["id"] for t in tokens]


def test_the_tokens_of_an_answer_are_its_text(client, shared):
    ask = {"max_new_tokens": 24, "details": True, "top_n_tokens": 3}
    whole = say(client, PROMPT, **ask)
    tokens = whole.details.tokens
    assert whole.details.finish_reason == "length" and whole.details.generated_tokens == len(tokens) == 24
    assert "".join(t.text for t in tokens) == whole.generated_text
    for token, top in zip(tokens, whole.details.top_tokens):
        assert len(top) == 3 and (top[0]["id"], top[0]["logprob"]) == (token.id, token.logprob)  # it is greedy
    events = list(say(client, PROMPT, stream=True, **ask))
    assert [e.index for e in events] == list(range(1, 25))
    assert [e.token.id for e in events] == [t.id for t in tokens]
    assert events[-1].generated_text == whole.generated_text
    assert [e.generated_text for e in events[:-1]] == [None] * 23
    assert events[-1].details.input_length == len(ids_of(shared, PROMPT))


def test_ends_have_their_reasons(client, shared):
    fruits = "Fruits: apple, banana, cherry,"
    stopped = say(client, fruits, max_new_tokens=60, stop=[","], details=True)
    assert stopped.details.finish_reason == "stop_sequence"
    assert stopped.generated_text.endswith(",") and stopped.generated_text.count(",") == 1  # it is part of the answer
    events = list(say(client, fruits, max_new_tokens=60, stop=[","], stream=True, details=True))
    assert events[-1].generated_text == stopped.generated_text == "".join(e.token.text for e in events if not e.token.special)
    assert len(events) == stopped.details.generated_tokens  # each token once, and no event beside
    ended = say(client, "2 + 2 =", max_new_tokens=400, details=True, grammar={"type": "regex", "value": " [0-9]"})
    assert ended.details.finish_reason == "eos_token" and re.fullmatch(" [0-9]", ended.generated_text)
    assert ended.details.tokens[-1].special and not any(t.special for t in ended.details.tokens[:-1])
    assert ended.details.tokens[-1].text.startswith("<|")
    assert say(client, PROMPT, max_new_tokens=8, return_full_text=True).startswith(PROMPT)
    assert shared.post("/", {"inputs": PROMPT, "parameters": {"max_new_tokens": 8}})[2][0]["generated_text"].startswith(PROMPT)


def test_truncate_and_tokenize(client, shared):
    status, headers, tokens = shared.post("/tokenize", {"inputs": "h\u00e9llo world \U0001f600"})
    text = "h\u00e9llo world \U0001f600"
    assert status == 200 and [t["text"] for t in tokens] == [text[t["start"]:t["stop"]] for t in tokens]
    assert tokens[0]["start"] == 0 and tokens[-1]["stop"] == len(text)
    last = ids_of(shared, PROMPT)[-4:]
    cut = say(client, PROMPT, truncate=4, max_new_tokens=8, details=True, stream=True)
    assert list(cut)[-1].details.input_length == 4
    body = {"model": "smollm2", "prompt": last, "max_tokens": 8, "temperature": 0}
    cut = say(client, PROMPT, truncate=4, max_new_tokens=8)
    assert cut == shared.post("/v1/completions", body)[2]["choices"][0]["text"]
    with pytest.raises(ValidationError, match="context"):
        say(client, PROMPT * 2000, max_new_tokens=8)


def test_a_seed_draws_the_same_and_the_best_of_several_is_the_likeliest(client):
    warm = {"do_sample": True, "temperature": 1.2, "max_new_tokens": 16, "details": True}
    one, again = (say(client, PROMPT, seed=9, **warm) for _ in range(2))
    assert one == again and one.details.seed == 9
    assert say(client, PROMPT, seed=10, **warm).generated_text != one.generated_text
    for narrow in ({"top_k": 1}, {"top_p": 0.0001}):
        assert say(client, PROMPT, seed=9, **{**warm, **narrow}).generated_text == say(client, PROMPT, max_new_tokens=16)
    typical = say(client, PROMPT, seed=9, typical_p=0.2, **warm).generated_text
    assert typical != one.generated_text
    best = say(client, PROMPT, best_of=4, **warm).details
    mean = lambda d: sum(t.logprob for t in d.tokens) / len(d.tokens)
    assert len(best.best_of_sequences) == 3 and all(mean(best) >= mean(other) for other in best.best_of_sequences)


def test_answers_under_a_grammar(client):
    schema = {"type": "object", "required": ["name", "age"], "additionalProperties": False,
              "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}}}
    for grammar in ({"type": "json", "value": schema}, {"type": "json", "value": json.dumps(schema)},
                    {"type": "json_schema", "value": {"name": "person", "schema": schema}}):
        answer = json.loads(say(client, "A person as JSON: ", max_new_tokens=100, grammar=grammar))
        assert set(answer) == {"name", "age"} and 0 <= answer["age"] <= 120


def marked(client, seed, **fields):
    """The token ids of a long sampled answer."""
    answer = say(client, PROMPT, max_new_tokens=200, do_sample=True, seed=seed, details=True, **fields)
    return [t.id for t in answer.details.tokens], answer.generated_text


def test_marked_answers_are_distinguished_from_others(client, shared):
    def scores(seed):
        return detect(marked(client, seed, watermark=True)[0]), detect(marked(client, seed)[0])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(scores, range(8)))
    assert all(with_mark.is_marked for with_mark, _ in found), found
    assert not any(plain.is_marked for _, plain in found), found
    _, text = marked(client, 3, watermark=True)
    assert detect(ids_of(shared, text)).is_marked  # of the text alone
    greedy = say(client, PROMPT, max_new_tokens=100, watermark=True, details=True)
    assert greedy.generated_text != say(client, PROMPT, max_new_tokens=100)


def test_a_killed_stage_changes_no_marked_answer(fresh):
    client = InferenceClient(model=fresh.url, timeout=120)
    undisturbed = marked(client, 5, watermark=True, typical_p=0.9)
    for shard in ("shard-0", "shard-1"):
        stream = say(client, PROMPT, max_new_tokens=200, do_sample=True, seed=5, stream=True, details=True,
                                        watermark=True, typical_p=0.9)
        events = [next(stream) for _ in range(20)]
        fresh.kill(shard)
        events += stream
        assert ([e.token.id for e in events], events[-1].generated_text) == undisturbed
        fresh.wait_standing()
