"""Triton's API with a real model: the same tokens as the other APIs, schemas, and a stage killed during a stream."""
import json

import httpx
import numpy as np
import pytest
import tritonclient.http as triton

PROMPT = "Once upon a time, in a small town by the sea,"
MODEL = "/v2/models/smollm2/"


@pytest.fixture
def client(shared):
    with triton.InferenceServerClient(shared.url.removeprefix("http://"), connection_timeout=120, network_timeout=120) as c:
        yield c


def infer(client, text, **parameters):
    t = triton.InferInput("text_input", [1], "BYTES")
    t.set_data_from_numpy(np.array([text.encode()], dtype=np.object_))
    alone = triton.InferInput("exclude_input_in_output", [1], "BOOL")
    alone.set_data_from_numpy(np.array([True]))
    return client.infer("smollm2", [t, alone], parameters=parameters).as_numpy("text_output")[0].decode()


def stream(cluster, **fields):
    """Yields the events of generate_stream as they arrive."""
    with httpx.stream("POST", cluster.url + MODEL + "generate_stream", json={"text_input": PROMPT, "stream": True, **fields}, timeout=120) as r:
        assert r.status_code == 200
        for line in r.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def test_the_text_is_that_of_a_completion(client, shared):
    assert client.is_model_ready("smollm2")
    asked = {"max_tokens": 24, "temperature": 0}
    output = shared.post("/v1/completions", {"model": "smollm2", "prompt": PROMPT, **asked})[2]["choices"][0]["text"]
    assert infer(client, PROMPT, **asked) == output
    assert infer(client, PROMPT, **{k: str(v) for k, v in asked.items()}) == output
    status, _, whole = shared.post(MODEL + "generate", {"text_input": PROMPT, "parameters": asked})
    assert status == 200 and whole["text_output"] == PROMPT + output
    events = list(stream(shared, return_num_output_tokens=True, return_finish_reason=True, **asked))
    assert "".join(e["text_output"] for e in events) == output and sum(e["num_output_tokens"] for e in events) == 24
    assert [e["finish_reason"] for e in events] == ["None"] * (len(events) - 1) + ["length"]
    seeded = {"max_tokens": 16, "temperature": 1.2, "seed": 9}
    assert infer(client, PROMPT, **seeded) == infer(client, PROMPT, **seeded) != infer(client, PROMPT, **{**seeded, "seed": 10})


def test_answers_under_a_schema(client, shared):
    schema = {"type": "object", "required": ["name"], "additionalProperties": False, "properties": {"name": {"type": "string", "maxLength": 12}}}
    answer = infer(client, "A person as JSON: ", max_tokens=60, structured_outputs=json.dumps({"json": schema}))
    assert set(json.loads(answer)) == {"name"}


def test_a_prompt_that_does_not_fit_is_rejected(shared):
    status, _, output = shared.post(MODEL + "generate", {"text_input": PROMPT * 2000})
    assert status == 400 and "context" in output["error"]


def test_a_killed_stage_changes_no_stream(fresh):
    asked = {"max_tokens": 120, "temperature": 1.0, "seed": 5}
    undisturbed = "".join(e["text_output"] for e in stream(fresh, **asked))
    for shard in ("shard-0", "shard-1"):
        events = stream(fresh, **asked)
        text = "".join(next(events)["text_output"] for _ in range(20))
        fresh.kill(shard)
        assert text + "".join(e["text_output"] for e in events) == undisturbed
        fresh.wait_standing()
