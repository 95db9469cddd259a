"""Errors of a model's head use the field names of each API's client: for a token limit beyond the context, and for a prompt."""
import json

import numpy as np
import pytest
import tritonclient.grpc as triton
from harness import free_port, running
from websockets.sync.client import connect

CONTEXT = 64
LONG = "one two three four five six seven eight nine ten " * 20


@pytest.fixture(scope="module")
def doors():
    torchserve, grpc = free_port(), free_port()
    with running(devices=("cpu:0",), model=f"max_model_len = {CONTEXT}",
                 gateway=f'torchserve_inference = "127.0.0.1:{torchserve}"\nkserve_grpc = "127.0.0.1:{grpc}"') as cluster:
        cluster.torchserve, cluster.grpc = f"http://127.0.0.1:{torchserve}", f"127.0.0.1:{grpc}"
        yield cluster


def chat(text):
    return [{"role": "user", "content": text}]


OPENAI = [
    ("/v1/completions", {"prompt": "a", "max_tokens": 100}, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "max_completion_tokens": 100}, "max_completion_tokens"),
    ("/v1/completions", {"prompt": LONG}, "prompt"),
    ("/v1/completions", {"prompt": "a", "min_tokens": 9, "max_completion_tokens": 3}, "min_tokens"),
    ("/v1/chat/completions", {"messages": chat("a"), "max_completion_tokens": 100}, "max_completion_tokens"),
    ("/v1/chat/completions", {"messages": chat(LONG)}, "messages"),
    ("/v1/responses", {"input": "a", "max_output_tokens": 100}, "max_output_tokens"),
    ("/v1/responses", {"input": LONG}, "input"),
    ("/v1/embeddings", {"input": LONG}, "input"),
    ("/generate", {"prompt": "a", "max_tokens": 100}, "max_tokens"),
    ("/generate", {"prompt": LONG}, "prompt"),
]


@pytest.mark.parametrize(("route", "body", "param"), OPENAI, ids=[f"{route} {param}" for route, _, param in OPENAI])
@pytest.mark.parametrize("stream", [False, True])
def test_apis_with_openais_errors(doors, route, body, param, stream):
    if stream and route == "/v1/embeddings":
        return
    status, _, output = doors.post(route, {"model": "smollm2", **body, **({"stream": True} if stream else {})})
    assert status == 400 and output["error"]["param"] == param, output
    if param == "min_tokens":
        assert "'max_completion_tokens'" in output["error"]["message"]


TEXTS = [
    ("tgi", "/generate", {"inputs": "a", "parameters": {"max_new_tokens": 100}}, 422, "'parameters.max_new_tokens'"),
    ("tgi", "/generate_stream", {"inputs": "a", "parameters": {"max_new_tokens": 100}}, 422, "'parameters.max_new_tokens'"),
    ("tgi", "/generate", {"inputs": LONG}, 422, "'inputs'"),
    ("tgi", "/generate", {"inputs": "a", "parameters": {"max_new_tokens": 0}}, 422, "'parameters.max_new_tokens'"),
    ("triton", "/v2/models/smollm2/generate", {"text_input": "a", "parameters": {"max_tokens": 100}}, 400, "'max_tokens'"),
    ("triton", "/v2/models/smollm2/generate", {"text_input": LONG}, 400, "'text_input'"),
    ("triton", "/v2/models/smollm2/generate", {"text_input": "a", "parameters": {"min_length": 9, "max_tokens": 3}}, 400, "'min_length'"),
    ("triton", "/v2/models/smollm2/generate", {"text_input": "a", "parameters": {"end_id": 10**8}}, 400, "'end_id'"),
    ("torchserve", "/predictions/smollm2", {"prompt": "a", "max_new_tokens": 100}, 400, "'max_new_tokens'"),
    ("torchserve", "/predictions/smollm2", {"prompt": LONG, "max_new_tokens": 1}, 400, "the prompt has"),
    ("torchserve", "/v1/models/smollm2:predict", {"instances": ["a", {"data": LONG}]}, 400, "'data'"),
    ("torchserve", "/v1/models/smollm2:predict", {"instances": ["a", {"data": "b", "max_new_tokens": 100}]}, 400, "'max_new_tokens'"),
]


@pytest.mark.parametrize(("api", "route", "body", "status", "name"), TEXTS, ids=[f"{api} {route} {name}" for api, route, _, _, name in TEXTS])
def test_apis_whose_message_has_the_name(doors, api, route, body, status, name):
    import httpx

    answer = httpx.post((doors.torchserve if api == "torchserve" else doors.url) + route, json=body, timeout=60)
    assert answer.status_code == status and name in answer.json()["message" if api == "torchserve" else "error"], answer.text
    for ours in ("'max_tokens'", "'prompt'", "'min_tokens'", "'stop_token_ids'"):
        assert ours in (name,) or ours not in answer.text or ours.strip("'") in json.dumps(body), answer.text


def test_a_call_over_grpc(doors):
    text = triton.InferInput("text_input", [1], "BYTES")
    for words, parameters, name in ((b"a", {"max_tokens": 100}, "'max_tokens'"), (LONG.encode(), {}, "'text_input'"),
                                    (b"a", {"min_length": 9, "max_tokens": 3}, "'min_length'")):
        text.set_data_from_numpy(np.array([words], dtype=np.object_))
        with triton.InferenceServerClient(doors.grpc) as client, pytest.raises(triton.InferenceServerException, match=name):
            client.infer("smollm2", [text], parameters=parameters)


def test_a_start_message_on_a_websocket(doors):
    with connect(doors.url.replace("http", "ws") + "/v1/stream") as socket:
        for fields, param in (({"messages": chat("a"), "max_completion_tokens": 100}, "max_completion_tokens"), ({"messages": chat(LONG)}, "messages"),
                              ({"prompt": "a", "max_tokens": 100}, "max_tokens"), ({"prompt": LONG}, "prompt")):
            socket.send(json.dumps({"type": "start", "id": param, "model": "smollm2", **fields}))
            while (output := json.loads(socket.recv(timeout=30)))["type"] == "granted":
                pass
            assert output["type"] == "error" and output["error"]["param"] == param, output
