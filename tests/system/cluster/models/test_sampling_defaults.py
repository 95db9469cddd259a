"""The sampling defaults of nodes.toml apply in every API, in the page and in `cluster chat`, unless a client sets a value."""

import tomllib

import pytest
from baton_client import Client
from harness import ROOT, running

SAY = [{"role": "user", "content": "Why is the sky blue?"}]
MAX_TOKENS = 12  # tokens


@pytest.fixture(scope="module")
def greedy():
    with running(model=f"max_model_len = 256\n[model.sampling]\ntemperature = 0\nmax_tokens = {MAX_TOKENS}\n") as cluster:
        yield cluster


def chat_of(cluster, **fields):
    done = cluster.post("/v1/chat/completions", {"messages": SAY, **fields})[2]
    return done["choices"][0]["message"]["content"], done["usage"]["completion_tokens"]


def test_a_chat_that_says_nothing_is_drawn_with_the_models_defaults(greedy):
    reply = chat_of(greedy)
    assert reply == chat_of(greedy) == chat_of(greedy, temperature=0, max_tokens=MAX_TOKENS) and reply[1] == MAX_TOKENS
    with Client(greedy.door) as client:
        assert client.chat(SAY).text == reply[0]
        assert client.chat(SAY, max_tokens=4).output_tokens == 4
    done = greedy.command("chat", "--endpoint", greedy.door, "--max-tokens", str(MAX_TOKENS), SAY[0]["content"])
    assert done.returncode == 0 and done.stdout.strip() == reply[0].strip()
    response = greedy.post("/v1/responses", {"input": SAY[0]["content"]})[2]
    assert response["temperature"] == 0 and response["output"][0]["content"][0]["text"] == reply[0]


def test_prompts_that_say_nothing_are_drawn_with_them_too(greedy):
    whole = greedy.post("/v1/completions", {"prompt": "The sky is"})[2]
    reply = whole["choices"][0]["text"]
    assert whole["usage"]["completion_tokens"] == MAX_TOKENS
    assert greedy.post("/generate", {"prompt": "The sky is"})[2]["text"][0].endswith(reply)
    assert greedy.post("/generate", {"inputs": "The sky is"})[2]["generated_text"] == reply
    triton = greedy.post("/v2/models/smollm2/generate", {"text_input": "The sky is", "parameters": {"exclude_input_in_output": True}})[2]
    assert triton["text_output"] == reply


def test_what_a_client_says_wins(greedy):
    drawn = {chat_of(greedy, temperature=1.5, seed=seed, max_tokens=24)[0] for seed in range(3)}
    assert len(drawn) == 3
    assert greedy.post("/v1/completions", {"prompt": "The sky is", "max_tokens": 3})[2]["usage"]["completion_tokens"] == 3


def test_a_default_of_tokens_is_bounded_by_the_context(greedy):
    context = greedy.post("/tokenize", {"prompt": "x"})[2]["max_model_len"]
    done = greedy.post("/v1/completions", {"prompt": [1] * (context - 5)})[2]
    assert done["usage"]["completion_tokens"] <= 5, done


def test_the_plan_shows_them(greedy):
    reply = greedy.command("plan", str(greedy.config))
    assert f"sampling defaults: temperature 0, max_tokens {MAX_TOKENS} (nodes.toml)" in reply.stdout, reply.stdout + reply.stderr


def test_the_quickstart_answers_sensibly():
    """The first thing that a newcomer pastes is not drawn at the API's temperature of 1."""
    sampling = tomllib.loads((ROOT / "examples/quickstart.toml").read_text())["model"]["sampling"]
    assert 0 < sampling["temperature"] <= 0.5
