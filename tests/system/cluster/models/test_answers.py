"""Answers of a real cluster through a curl line and the official clients, compared with the reference's text."""
import itertools
import json
import os
import subprocess
import sys
import time

import openai
import pytest
from baton_client import Client
from harness import ROOT
from streams import Stream


def test_the_readme_curl_line_streams_english(shared):
    """Without max_tokens an answer may be long, so curl reads its beginning and disconnects. Sampling may also make it short."""
    body = '{"model":"smollm2","stream":true,"messages":[{"role":"user","content":"Why is the sky blue?"}]}'
    curl = ["curl", "-sN", "--max-time", "60", f"{shared.url}/v1/chat/completions", "-d", body]
    with subprocess.Popen(curl, stdout=subprocess.PIPE, text=True) as reader:
        lines = (line for line in reader.stdout if line.startswith("data: {"))
        events = [json.loads(line[6:]) for line in itertools.islice(lines, 20)]
        reader.terminate()
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
    assert len(events) == 20 or events[-1]["choices"][0]["finish_reason"] == "stop"
    assert sum(c.isascii() for c in text) > 0.9 * len(text) > 0


def test_greedy_answers_are_the_references(shared):
    """Two prompts on which all recorded engines (transformers float32, llama.cpp at five precisions) agree."""
    fruits = Stream(shared, "List three fruits.", max_tokens=32).check()
    assert fruits.finish in ("stop", "length")
    assert "1." in fruits.text
    assert fruits.usage["completion_tokens"] <= 32


def test_the_official_openai_client_streams_and_completes(shared):
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0)
    assert [m.id for m in client.models.list().data] == ["smollm2"]
    ask = {"model": "smollm2", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16, "temperature": 0}
    whole = client.chat.completions.create(**ask)
    pieces = [c for c in client.chat.completions.create(**ask, stream=True)]
    assert "".join(c.choices[0].delta.content or "" for c in pieces if c.choices) == whole.choices[0].message.content
    assert whole.usage.prompt_tokens > 20
    completion = client.completions.create(model="smollm2", prompt="The sky is", max_tokens=8, temperature=0, logprobs=2)
    assert len(completion.choices[0].logprobs.tokens) == completion.usage.completion_tokens
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(**{**ask, "model": "gpt-9"})
    assert unknown.value.body["code"] == "model_not_found"


def test_a_beginning_that_was_read_before_is_found_and_gives_the_same_text(shared):
    """The prefix cache is used only for the same salt, and never changes a bit of the answer."""
    story = "Once there was a lighthouse keeper who counted the ships that passed in the night. " * 12
    ask = {"model": "smollm2", "prompt": story + "One evening", "max_tokens": 24, "temperature": 0, "cache_salt": os.urandom(8).hex()}
    cold, warm = (shared.post("/v1/completions", ask)[2] for _ in range(2))
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    found = warm["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert warm["usage"]["prompt_tokens"] - 64 <= found < warm["usage"]["prompt_tokens"]
    assert warm["choices"][0]["text"] == cold["choices"][0]["text"]
    other = shared.post("/v1/completions", {**ask, "cache_salt": "another"})[2]
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert other["choices"][0]["text"] == cold["choices"][0]["text"]
    client = openai.OpenAI(base_url=shared.url + "/v1", api_key="x", max_retries=0)
    again = client.completions.create(**{k: v for k, v in ask.items() if k != "cache_salt"}, extra_body={"cache_salt": ask["cache_salt"]})
    assert again.usage.prompt_tokens_details.cached_tokens == found


STORY = "The harbour was quiet before dawn, and the boats lay still. " * 20 + "Then the old keeper"


def test_a_prompt_is_as_likely_as_it_was_when_it_was_drawn(shared):
    """Rows that score give the same bits as rows that draw. The text has several chunks, and the prefix cache has it the second time."""
    client = openai.OpenAI(base_url=f"{shared.url}/v1", api_key="none")
    ask = {"model": "smollm2", "temperature": 0, "logprobs": 3}
    drawn = client.completions.create(prompt=STORY, max_tokens=40, extra_body={"ignore_eos": True}, **ask)
    text, reply = STORY + drawn.choices[0].text, drawn.choices[0].logprobs
    for _ in range(2):
        scored = client.completions.create(prompt=text, echo=True, max_tokens=0, **ask)
        assert scored.choices[0].text == text and scored.usage.completion_tokens == 0
        own = scored.choices[0].logprobs
        assert own.tokens[-40:] == reply.tokens and own.token_logprobs[-40:] == reply.token_logprobs and own.top_logprobs[-40:] == reply.top_logprobs
        assert own.token_logprobs[0] is None and "".join(own.tokens) == text
        assert scored.usage.prompt_tokens_details.cached_tokens == 0


def ids_of_stream(pieces, is_chat):
    """-> (the prompt's ids, the answer's ids, its text) as vLLM's clients collect them"""
    prompt, answer, text = None, [], ""
    for piece in pieces:
        for choice in piece.choices:
            holder = piece if is_chat else choice
            if (given := getattr(holder, "prompt_token_ids", None)) is not None:
                assert prompt is None
                prompt = given
            answer += getattr(choice, "token_ids", None) or []
            text += (choice.delta.content if is_chat else choice.text) or ""
    return prompt, answer, text


def test_ids_come_with_the_answer(shared):
    """vLLM's return_token_ids, whole and streamed: the ids of /tokenize, and those that /detokenize makes the answer of. The prefix cache is used."""
    client = openai.OpenAI(base_url=f"{shared.url}/v1", api_key="none", max_retries=0)
    messages = [{"role": "user", "content": "Name two colours. " * 20}]
    ask = {"model": "smollm2", "temperature": 0, "max_tokens": 24, "extra_body": {"return_token_ids": True}}
    tokenize = lambda **body: shared.post("/tokenize", {"model": "smollm2", **body})[2]["tokens"]
    end = ("<|im_end|>", "<|endoftext|>")  # a token of the answer, and none of its text
    plain = lambda ids: shared.post("/detokenize", {"model": "smollm2", "tokens": ids})[2]["prompt"].removesuffix(end[0]).removesuffix(end[1])
    chat = client.chat.completions.create(messages=messages, **ask)
    assert chat.prompt_token_ids == tokenize(messages=messages)
    assert len(chat.choices[0].token_ids) == chat.usage.completion_tokens
    assert plain(chat.choices[0].token_ids) == chat.choices[0].message.content
    assert ids_of_stream(client.chat.completions.create(messages=messages, stream=True, **ask), True) == (
        chat.prompt_token_ids, chat.choices[0].token_ids, chat.choices[0].message.content)
    assert client.chat.completions.create(messages=messages, **ask).usage.prompt_tokens_details.cached_tokens > 0
    prompts = ["The sky is", "Two and two are"]
    whole = client.completions.create(prompt=prompts, n=2, **ask)
    assert [c.prompt_token_ids for c in whole.choices] == [tokenize(prompt=p) for p in prompts for _ in range(2)]
    assert all(plain(c.token_ids) == c.text for c in whole.choices)
    one = client.completions.create(prompt=prompts[0], **ask)
    assert ids_of_stream(client.completions.create(prompt=prompts[0], stream=True, **ask), False) == (
        one.choices[0].prompt_token_ids, one.choices[0].token_ids, one.choices[0].text)
    scored = client.completions.create(prompt=prompts[0], echo=True, logprobs=1, **ask).choices[0]
    assert scored.prompt_token_ids + scored.token_ids == one.choices[0].prompt_token_ids + one.choices[0].token_ids
    assert scored.logprobs.token_logprobs[0] is None and scored.logprobs.token_logprobs[1] < 0
    named = client.completions.create(prompt=prompts[0], logprobs=1, **{**ask, "extra_body": {"return_tokens_as_token_ids": True}}).choices[0]
    assert named.logprobs.tokens == [f"token_id:{i}" for i in one.choices[0].token_ids]
    bare = shared.post("/v1/completions", {"model": "smollm2", "prompt": "x", "max_tokens": 2})[2]
    assert "token_ids" not in bare["choices"][0] and "prompt_token_ids" not in bare["choices"][0]


def test_a_killed_head_changes_no_ids(fresh):
    client = openai.OpenAI(base_url=f"{fresh.url}/v1", api_key="none", max_retries=0)
    ask = {"model": "smollm2", "prompt": STORY, "temperature": 0, "max_tokens": 200, "stream": True, "extra_body": {"return_token_ids": True, "ignore_eos": True}}
    undisturbed = ids_of_stream(client.completions.create(**ask), False)

    def disturbed(pieces):
        for number, piece in enumerate(pieces):
            if number == 20:
                fresh.kill("head")
            yield piece

    assert ids_of_stream(disturbed(client.completions.create(**ask)), False) == undisturbed
    assert len(undisturbed[1]) == 200


def test_guesses_never_change_the_text(shared):
    """Prompt lookup: an answer that repeats its prompt, with and without speculation, alone and among others."""
    code = "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return area(width, height) * depth\n\n"
    ask = {"model": "smollm2", "prompt": code * 3, "max_tokens": 64, "temperature": 0}
    counted = "vllm:spec_decode_num_accepted_tokens_total"
    before = shared.metric(counted)
    plain = shared.post("/v1/completions", {**ask, "num_speculative_tokens": 0})[2]["choices"][0]
    guessed = shared.post("/v1/completions", {**ask, "num_speculative_tokens": 5})[2]["choices"][0]
    assert guessed["text"] == plain["text"]
    deadline = time.monotonic() + 10
    while shared.metric(counted) - before <= 5:
        assert time.monotonic() < deadline, "hardly a guess was right"
        time.sleep(0.1)
    warm = {**ask, "temperature": 1.0, "seed": 11, "presence_penalty": 0.5, "n": 3}
    texts = [[c["text"] for c in sorted(shared.post("/v1/completions", {**warm, "num_speculative_tokens": k})[2]["choices"],
                                        key=lambda c: c["index"])] for k in (0, 4)]
    assert texts[0] == texts[1]


def test_choices_differ_by_seed_and_repeat_with_it(shared):
    ask = {"model": "smollm2", "prompt": "Once upon a time", "max_tokens": 24, "temperature": 1.0, "seed": 7, "n": 3}
    first = shared.post("/v1/completions", ask)[2]["choices"]
    again = shared.post("/v1/completions", ask)[2]["choices"]
    texts = [c["text"] for c in sorted(first, key=lambda c: c["index"])]
    assert texts == [c["text"] for c in sorted(again, key=lambda c: c["index"])]
    assert len(set(texts)) == 3


def test_a_stop_string_ends_the_text_before_it(shared):
    ask = {"model": "smollm2", "prompt": "1, 2, 3, 4,", "max_tokens": 40, "temperature": 0}
    whole = shared.post("/v1/completions", ask)[2]["choices"][0]["text"]
    stop = whole[9:14]
    cut = shared.post("/v1/completions", {**ask, "stop": [stop]})[2]["choices"][0]
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == whole[: whole.index(stop)]


def test_tokenize_and_detokenize_are_inverse(shared):
    text = "Naïve café — 東京 🚀 1234567"
    _, _, ids = shared.post("/tokenize", {"model": "smollm2", "prompt": text})
    assert ids["count"] == len(ids["tokens"]) > 5
    assert shared.post("/detokenize", {"model": "smollm2", "tokens": ids["tokens"]})[2]["prompt"] == text


def test_min_tokens_holds_back_stop_strings_in_every_api(shared):
    body = {"prompt": "The capital of France is", "min_tokens": 16, "stop": ["P"], "temperature": 0, "max_tokens": 24}
    free = shared.post("/v1/completions", {"model": "smollm2", **{**body, "stop": None}})[2]["choices"][0]["text"]
    assert "P" in free, "the question has no stop string in its answer"
    done = shared.post("/v1/completions", {"model": "smollm2", **body})[2]
    assert done["usage"]["completion_tokens"] >= 16 and free.startswith(done["choices"][0]["text"])
    whole = done["choices"][0]["text"]
    assert shared.post("/generate", body)[2]["text"][0].endswith(whole)
    triton = {"text_input": body["prompt"], "parameters": {**{k: body[k] for k in ("min_tokens", "temperature", "max_tokens")}, "stop": ["P"],
                                                           "exclude_input_in_output": True}}
    assert shared.post("/v2/models/smollm2/generate", triton)[2]["text_output"] == whole
    with Client(shared.door) as client:
        assert client.generate(body["prompt"], min_tokens=16, stop=["P"], temperature=0, max_tokens=24).text == whole


RAW = "<|im_start|>user\nhi<|im_end|>"
RAW_IDS = [1, 4093, 198, 6004, 2]  # of `tokenizers`, and of llama.cpp with parse_special


def test_special_tokens_of_a_raw_prompt_are_these_tokens(shared):
    assert shared.post("/tokenize", {"model": "smollm2", "prompt": RAW})[2]["tokens"] == RAW_IDS
    assert [t["id"] for t in shared.post("/tokenize", {"inputs": RAW})[2]] == RAW_IDS
    asked = {"model": "smollm2", "temperature": 0, "max_tokens": 4}
    by_ids = shared.post("/v1/completions", {"prompt": RAW_IDS, **asked})[2]
    by_text = shared.post("/v1/completions", {"prompt": RAW, **asked})[2]
    assert by_text["usage"]["prompt_tokens"] == len(RAW_IDS) and by_text["choices"][0]["text"] == by_ids["choices"][0]["text"]
    whole = by_ids["choices"][0]["text"]
    assert shared.post("/generate", {"prompt": RAW, "temperature": 0, "max_tokens": 4})[2]["text"][0].endswith(whole)
    details = shared.post("/generate", {"inputs": RAW, "parameters": {"max_new_tokens": 4, "details": True, "decoder_input_details": True}})[2]["details"]
    assert [t["id"] for t in details["prefill"]] == RAW_IDS
    triton = shared.post("/v2/models/smollm2/generate", {"text_input": RAW, "parameters": {"temperature": 0, "max_tokens": 4, "exclude_input_in_output": True}})
    assert triton[2]["text_output"] == whole
    with Client(shared.door) as client:
        assert client.tokenize(RAW).ids == RAW_IDS
    # A client that applies the template itself gets the chat's answer, with its end.
    messages = [{"role": "user", "content": "Say hello."}]
    ids = shared.post("/tokenize", {"model": "smollm2", "messages": messages})[2]["tokens"]
    written = shared.post("/detokenize", {"model": "smollm2", "tokens": ids})[2]["prompt"]
    chat = shared.post("/v1/chat/completions", {"messages": messages, **asked, "max_tokens": 64})[2]["choices"][0]
    reply = shared.post("/v1/completions", {"prompt": written, **asked, "max_tokens": 64})[2]["choices"][0]
    assert reply["text"] == chat["message"]["content"] and reply["finish_reason"] == chat["finish_reason"] == "stop"


def test_numbers_at_the_ends_of_floats_are_drawn_with_or_refused_by_name(shared):
    """The sampler flushes denormals. The gateway once accepted such a number, which was then 0."""
    fields = ["temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty"]
    for field in fields:
        for value in (1e-44, -1e-44, 1e-300, 5e-324, 1e-38, 1.2e-38, 1e-7, 0.01, -0.0, 1e39, 1e308):
            status, _, body = shared.post("/v1/completions", {"prompt": "The sky is the sky is", "max_tokens": 4, "seed": 1, field: value})
            assert status == 200 or (status == 400 and body["error"]["param"] == field), (field, value, body)
    both = {"temperature": 1e-44, "top_k": 5, "typical_p": 0.5, "prompt": "The sky is", "max_tokens": 4, "seed": 1}
    greedy = {**both, "temperature": 0}
    assert shared.post("/v1/completions", both)[2]["choices"][0]["text"] == shared.post("/v1/completions", greedy)[2]["choices"][0]["text"]


def test_a_seed_of_minus_one_draws_anew_each_time(shared):
    ask = {"prompt": "Once upon a time there was", "max_tokens": 16, "temperature": 1.5, "seed": -1}
    assert len({shared.post("/v1/completions", ask)[2]["choices"][0]["text"] for _ in range(4)}) > 1
    assert len({shared.post("/v1/completions", {**ask, "seed": -2})[2]["choices"][0]["text"] for _ in range(2)}) == 1


def test_a_user_cannot_write_special_tokens(shared):
    _, _, plain = shared.post("/tokenize", {"model": "smollm2", "messages": [{"role": "user", "content": "a<|im_end|>b"}]})
    end_of_turn = 2
    assert plain["tokens"].count(end_of_turn) == 2  # the template's own: after the system and the user turn


def test_a_bad_prompt_does_not_affect_others(shared):
    other = Stream(shared, "Count to thirty.", max_tokens=48)
    for body, status in (({"prompt": "x", "max_tokens": 10**6}, 400), ({"prompt": [10**8]}, 400), ({"prompt": "x " * 9000}, 400)):
        answer = shared.post("/v1/completions", {"model": "smollm2", **body})
        assert answer[0] == status, answer
        assert answer[2]["error"]["code"] in ("context_length_exceeded", "invalid_value")
    other.check()


@pytest.mark.parametrize("example, door", [("openai_chat.py", "url"), ("websocket_chat.py", "url"), ("sdk_chat.py", "door")])
def test_examples_run(shared, example, door):
    subprocess.run([sys.executable, ROOT / "sdk/python/generate_wire.py"], check=True, capture_output=True)
    done = subprocess.run([sys.executable, ROOT / "examples" / example, getattr(shared, door)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python")})
    assert done.returncode == 0, done.stderr
    assert "tokens" in done.stdout
