"""TGI's own client of PyPI, `text-generation`, which wants an older huggingface_hub than the other tests have: it runs in a venv of its own."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from text_generation_client import calls  # noqa: E402


def test_generate_and_generate_stream(gateway):
    whole, streamed, both = calls(gateway.url, {"call": "generate", "prompt": "tokens=3"}, {"call": "generate_stream", "prompt": "tokens=3 pace_ms=5", "stop_sequences": ["##"]},
                                  {"call": "async", "prompt": "tokens=2", "max_new_tokens": 1})
    assert whole["answer"]["generated_text"] == "w0 w1 w2 " and whole["answer"]["details"]["finish_reason"] == "eos_token"
    assert [t["text"] for t in whole["answer"]["details"]["tokens"]] == ["w0 ", "w1 ", "w2 "]
    pieces = streamed["answer"]
    assert [p["token"]["text"] for p in pieces] == ["w0 ", "w1 ", "w2 "]
    assert [p["generated_text"] for p in pieces] == [None, None, "w0 w1 w2 "] and pieces[-1]["details"]["generated_tokens"] == 3
    assert both["answer"][0]["generated_text"] == "w0 " and both["answer"][1][-1]["details"]["finish_reason"] == "length"


def test_every_parameter_of_the_client_passes(gateway):
    sampled = {"max_new_tokens": 4, "best_of": 2, "do_sample": True, "repetition_penalty": 1.1, "frequency_penalty": 0.1, "return_full_text": True,
               "stop_sequences": ["##"], "temperature": 0.7, "top_k": 4, "top_p": 0.9, "truncate": 50, "typical_p": 0.9, "watermark": True,
               "top_n_tokens": 2}
    grammar = {"type": "json", "value": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    several, formed = calls(gateway.url, {"call": "generate", "prompt": "tokens=2", **sampled},
                            {"call": "generate", "prompt": "tokens=2", "seed": 7, "do_sample": True, "grammar": grammar})
    answer = several["answer"]
    assert answer["generated_text"] == "tokens=2w0 w1 " and len(answer["details"]["best_of_sequences"]) == 1
    assert [len(t) for t in answer["details"]["top_tokens"]] == [2, 2]
    assert formed["answer"]["details"]["seed"] == 7


@pytest.mark.parametrize("call", ["generate", "generate_stream"])
def test_errors_are_the_clients_own(gateway, call):
    wanted = {"refuse=context_length_exceeded": "ValidationError", "refuse=overloaded": "OverloadedError", "tokens=9 fail_at=1": "GenerationError",
              "refuse=deadline_exceeded": "IncompleteGenerationError"}
    assert [reply["error"] for reply in calls(gateway.url, *({"call": call, "prompt": p} for p in wanted))] == list(wanted.values())


def test_a_stream_that_fails_is_an_error_behind_what_came(gateway):
    reply, = calls(gateway.url, {"call": "generate_stream", "prompt": "tokens=9 fail_at=4 pace_ms=5"})
    assert reply["error"] == "GenerationError" and [p["token"]["text"] for p in reply["came"]] == ["w0 ", "w1 ", "w2 "]


def test_its_chats_name_the_model_tgi(start):
    chat = {"call": "chat", "messages": [{"role": "user", "content": "tokens=2"}]}
    for flags in ((), ("--pipeline", "tgi")):
        whole, streamed = calls(start(*flags).url, chat, {**chat, "stream": True})
        assert whole["answer"]["choices"][0]["message"]["content"] == "w0 w1 "
        assert streamed["error"] == "AttributeError"  # each piece has to name a role and tool_calls, which OpenAI's do not: the client fails at them
    reply, = calls(start("--pipeline", "a", "--pipeline", "b").url, chat)
    assert reply["error"] == "NotFoundError" and "'tgi' does not exist" in reply["message"]


def test_a_key_goes_as_a_header(start, keys_file):
    g = start("--keys", str(keys_file))
    assert calls(g.url, {"call": "generate", "prompt": "tokens=1"}, key="k")[0]["answer"]["generated_text"] == "w0 "
    assert calls(g.url, {"call": "generate", "prompt": "tokens=1"}, key="wrong")[0]["error"] == "UnknownError"
