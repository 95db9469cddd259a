"""Models that call others from within their handlers: a model.py of Triton's Python backend (BLS), a worker in C++, a library behind the C boundary."""
import json
import struct
import subprocess

import pytest
from harness import BUILD, CLUSTER, running
from test_workers import CPP, HANDLERS, SHIMMED, WithWorkers, table, wait_for

from baton_client import BatonError, Client, Tensor
from baton_client.tensors import pack_elements, unpack_elements

QUESTION, MORE = "Once upon a time", {"max_tokens": 8, "temperature": 0}
CALLED = table("tensors", HANDLERS / "tensors.py") + table("square", SHIMMED / "triton_decoupled.py", module="baton_worker.triton", decoupled=True)
CALLING = table("bls", SHIMMED / "triton_bls.py", module="baton_worker.triton")


@pytest.fixture(scope="module")
def cluster():
    tables = (
        CALLED + CALLING + table("bls_async", SHIMMED / "triton_bls_async.py", module="baton_worker.triton")
        + table("relay", CPP / "baton_relay_worker", "smollm2", module=None)
        + table("ask", CPP / "baton_worker_host", CPP / "libbaton_ask_worker.so", module=None)
        + table("first", CPP / "baton_worker_host", BUILD / "tests/system/cluster/libabi1_worker.so", module=None)
    )
    with running(WithWorkers, workers=tables) as c:
        for model in ("tensors", "square", "bls", "bls_async", "relay", "ask", "first"):
            c.wait_workers(model)
        yield c


@pytest.fixture
def client(cluster):
    with Client(cluster.door, timeout=30) as c:
        yield c


def text(name, *values):
    return Tensor(name, "BYTES", [len(values)], pack_elements(values))


def floats(name, *values):
    return Tensor(name, "FP32", [len(values)], struct.pack(f"<{len(values)}f", *values))


def ints(name, value):
    return Tensor(name, "INT32", [1], struct.pack("<i", value))


def outputs(answer):
    """By name; texts as such."""
    kinds = {"FP32": "f", "INT32": "i"}
    reply = {}
    for t in answer.outputs:
        is_text = t.datatype == "BYTES"
        reply[t.name] = [e.decode() for e in unpack_elements(t.data)] if is_text else list(struct.unpack(f"<{len(t.data) // 4}{kinds[t.datatype]}", t.data))
    return reply


def test_exec(client):
    reply = outputs(client.infer("bls", [text("DO", "double"), floats("IN", 1, 2.5)], request_id="r-7"))
    output = json.loads(reply["SAID"][0])
    assert reply["OUT"] == [2, 5]
    assert (output["id"], output["parameters"], output["outputs"]) == ("r-7", {"colour": "red", "timeout": 1500}, ["OUT", "SAID"])


def test_exec_of_a_decoupled_model(client):
    assert outputs(client.infer("bls", [text("DO", "count"), ints("IN", 4)]))["OUT"] == [0, 1, 2, 3]
    assert outputs(client.infer("bls", [text("DO", "count"), ints("IN", 0)]))["OUT"] == []


def test_async_exec(client):
    reply = outputs(client.infer("bls_async", [floats("IN", 3)]))
    assert reply == {"OUT0": [6], "OUT1": [8], "TOLD": [0, 1, 2]}


@pytest.mark.parametrize("asked, says", [
    (("nobody",), "True True model_not_found: "),
    (("tensors", "raise"), "True False handler_failed: RuntimeError: as it was asked to"),
    (("tensors", "refuse"), "True False invalid_request: not this one"),
    (("tensors", "late_error"), "True False handler_failed: RuntimeError: too late"),
    (("tensors", "stream 2"), "True False the model 'tensors' answers with more than one response"),
])
def test_a_failure_of_the_called_model_comes_back_as_its_responses_error(client, asked, says):
    output = outputs(client.infer("bls", [text("DO", "fail"), text("IN", *asked)]))["OUT"][0]
    assert output.startswith(says)


def test_a_responses_iterator_that_is_cancelled_ends_the_called_stream(client, tmp_path):
    ended = tmp_path / "ended"
    assert outputs(client.infer("bls", [text("DO", "leave"), text("IN", f"endless {ended}")]))["OUT"] == [0]
    wait_for(ended.exists)


def test_a_model_py_asks_a_language_model_as_tritons_vllm_backend(client):
    alone = client.generate(QUESTION, **MORE).text
    asked = [text("DO", "generate"), text("text_input", QUESTION), text("sampling_parameters", json.dumps(MORE))]
    assert outputs(client.infer("bls", asked))["OUT"] == [QUESTION + alone]
    streamed = outputs(client.infer("bls", [*asked, Tensor("stream", "BOOL", [1], b"\1")]))["OUT"]
    assert "".join(streamed) == alone and len(streamed) > 1
    with pytest.raises(BatonError, match="colour"):
        client.infer("bls", [*asked[:2], text("sampling_parameters", '{"colour": "red"}')])
    with pytest.raises(BatonError) as late:
        client.infer("smollm2", asked[1:2] + [text("sampling_parameters", '{"max_tokens": 2000}')], parameters={"timeout": 1000})
    assert late.value.name == "deadline_exceeded"


def test_a_worker_in_cpp_asks_a_language_model(cluster, client):
    status, headers, body = cluster.ask("relay", QUESTION.encode(), "text/plain")
    assert (status, headers["Transfer-Encoding"]) == (200, "chunked")
    assert body.decode() == client.generate(QUESTION, max_tokens=32, temperature=0).text


def test_a_library_sees_all_of_its_request_and_asks_others(client):
    whole, end = client.infer_stream("ask", [floats("IN", 4)], outputs=["OUT"], parameters={"model": "tensors"}, request_id="r-8")
    reply = outputs(whole)
    assert reply["OUT"] == [8] and json.loads(reply["SAID"][0])["outputs"] == ["OUT"]  # which the handler makes nothing of
    assert (whole.headers, whole.parameters) == ([("x-request-id", "r-8")], {"rows": 1, "how": "well"})
    assert (end.body, end.outputs) == (b"", [])
    streamed = client.infer_stream("ask", [ints("IN", 3)], parameters={"model": "square"})
    assert [outputs(p)["OUT"] for p in streamed if p.outputs] == [[0], [1], [2]]
    alone = client.generate(QUESTION, **MORE).text
    asked = [text("text_input", QUESTION), text("sampling_parameters", json.dumps(MORE)), Tensor("stream", "BOOL", [1], b"\1")]
    pieces = client.infer_stream("ask", asked, parameters={"model": "smollm2"})
    assert "".join(outputs(p)["text_output"][0] for p in pieces if p.outputs) == alone
    with pytest.raises(BatonError, match="model_not_found"):
        client.infer("ask", [floats("IN", 4)], parameters={"model": "nobody"})


def test_a_library_of_an_earlier_version_is_served(client):
    answer = client.infer("first", body=b"\0 as ever", content_type="a/b")
    assert (answer.body, answer.content_type, answer.parameters, answer.status) == (b"\0 as ever", "a/b", {}, 0)


def test_calls_need_a_key_where_clients_do(tmp_path):
    keys = tmp_path / "keys.toml"
    key = subprocess.run([CLUSTER, "keygen", "--api", "models", keys], capture_output=True, text=True, timeout=30).stdout.strip()
    without = table("keyless", SHIMMED / "triton_bls.py", module="baton_worker.triton")
    with_key = CALLING.replace('"env", ', f'"env", "BATON_API_KEY={key}", ')
    tables = CALLED + without + with_key + table("relay", "env", f"BATON_API_KEY={key}", CPP / "baton_relay_worker", "smollm2", module=None)
    with running(WithWorkers, workers=tables, gateway=f'api_keys = "{keys}"') as c, Client(c.door, api_key=key, timeout=30) as client:
        for model in ("tensors", "square", "bls", "keyless", "relay"):
            c.wait_workers(model)
        asked = [text("DO", "double"), floats("IN", 1)]
        assert outputs(client.infer("bls", asked))["OUT"] == [2]
        with pytest.raises(BatonError, match="unauthorized"):
            client.infer("keyless", asked)
        assert b"".join(p.body for p in client.infer_stream("relay", body=QUESTION.encode()))
