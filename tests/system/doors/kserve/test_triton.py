"""KServe v2 and Triton over HTTP, with tritonclient as users have it, and with bodies that no client sends."""
import asyncio
import json
import struct
import threading

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.http import aio as triton_aio
from tritonclient.utils import InferenceServerException

from raw import connect, exchange, read_all, request

INFER, GENERATE, STREAM = (f"/v2/models/fake/{verb}" for verb in ("infer", "generate", "generate_stream"))


@pytest.fixture
def client(gateway):
    with triton.InferenceServerClient(f"{gateway.host}:{gateway.port}") as c:
        yield c


def tensor(module, name, value, datatype="BYTES", binary=True):
    values = [v.encode() for v in value] if isinstance(value, list) else [value.encode() if isinstance(value, str) else value]
    kinds = {"BYTES": np.object_, "BOOL": np.bool_, "FP32": np.float32, "INT32": np.int32, "UINT64": np.uint64}
    t = module.InferInput(name, [len(values)], datatype)
    t.set_data_from_numpy(np.array(values, dtype=kinds[datatype]), **({} if binary is None else {"binary_data": binary}))
    return t


def say(client, text, *more, binary=True, **fields):
    return client.infer("fake", [tensor(triton, "text_input", text, binary=binary), *more], **fields)


def text_of(result, name="text_output"):
    return [v if isinstance(v, str) else v.decode() for v in result.as_numpy(name)]  # the client has text of JSON, bytes of bytes


def post(gateway, path, body, **fields):
    return httpx.post(gateway.url + path, **({"content": body} if isinstance(body, (str, bytes)) else {"json": body}), timeout=30, **fields)


def events_of(reply):
    assert reply.headers["content-type"].startswith("text/event-stream")
    return [json.loads(e.removeprefix("data: ")) for e in reply.text.split("\n\n") if e]


def texts_of(events):
    """The end may come in an event of its own, without text."""
    return [e["text_output"] for e in events[:-1]] + [t for e in events[-1:] if (t := e["text_output"])]


def test_the_health_and_metadata_example_of_the_client(client):
    """The checks of Triton's simple_http_health_metadata.py, in its order."""
    assert client.is_server_live(query_params={"test_1": 1, "test_2": 2})
    assert client.is_server_ready() and client.is_model_ready("fake")
    assert client.get_server_metadata()["name"] == "triton"
    assert client.get_model_metadata("fake", query_params={"test_1": 1, "test_2": 2})["name"] == "fake"
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        client.get_model_metadata("wrong_model_name")


def test_what_the_client_asks_of_server_and_model(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("fake") and client.is_model_ready("fake", "1")
    assert not client.is_model_ready("nope") and not client.is_model_ready("fake", "2")
    server = client.get_server_metadata()
    assert server["name"] == "triton" and server["version"] == "baton-test" and "binary_tensor_data" in server["extensions"]
    model = client.get_model_metadata("fake")
    assert model["versions"] == ["1"] and {"name": "text_input", "datatype": "BYTES", "shape": [1]} in model["inputs"]
    config = client.get_model_config("fake")
    assert config["backend"] == "baton" and config["model_transaction_policy"]["decoupled"]
    assert [i["name"] for i in config["input"]] == [i["name"] for i in model["inputs"]]
    assert client.get_model_repository_index() == [{"name": "fake", "version": "1", "state": "READY", "reason": ""}]


@pytest.mark.parametrize("binary", [True, False])
def test_infer(client, binary):
    out = [triton.InferRequestedOutput("text_output", binary_data=binary)]
    assert text_of(say(client, "tokens=3", binary=binary, outputs=out)) == ["tokens=3w0 w1 w2 "]
    assert text_of(say(client, "tokens=3", binary=binary)) == ["tokens=3w0 w1 w2 "]
    short = say(client, "tokens=3", tensor(triton, "exclude_input_in_output", True, "BOOL", binary), binary=binary, request_id="42", model_version="1")
    assert text_of(short) == ["w0 w1 w2 "] and short.get_response()["id"] == "42" and short.get_response()["model_version"] == "1"
    assert short.get_output("text_output")["shape"] == [1]


def test_everything_that_can_be_asked_of_an_answer(client):
    flags = [tensor(triton, f"return_{name}", True, "BOOL") for name in
             ("finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens")]
    r = say(client, "tokens=2", *flags, parameters={"n": 2, "logprobs": 1})
    assert text_of(r) == ["tokens=2w0 w1 "] * 2 and text_of(r, "finish_reason") == ["stop"] * 2
    assert r.as_numpy("cumulative_logprob").tolist() == [-1.0, -1.0] and r.as_numpy("cumulative_logprob").dtype == np.float32
    assert r.as_numpy("num_output_tokens").tolist() == [2, 2] and r.as_numpy("num_input_tokens").tolist() == [len("tokens=2")]
    first = json.loads(text_of(r, "logprobs")[0])
    assert len(first) == 2 and first[0]["7"]["logprob"] == -0.5
    only = say(client, "tokens=2", outputs=[triton.InferRequestedOutput("finish_reason")])
    assert text_of(only, "finish_reason") == ["stop"] and only.as_numpy("text_output") is None


def test_parameters_in_every_way(client):
    as_text = {"max_tokens": "2", "temperature": "0.1", "top_p": "0.95"}
    one = tensor(triton, "sampling_parameters", json.dumps(as_text))
    own = [tensor(triton, "max_tokens", 2, "INT32"), tensor(triton, "temperature", 0.1, "FP32"), tensor(triton, "seed", 2**63, "UINT64"),
           tensor(triton, "stop_words", ["##", "$$"])]
    for r in (say(client, "tokens=9", one), say(client, "tokens=9", parameters=as_text), say(client, "tokens=9", one, parameters=as_text),
              say(client, "tokens=9", *own), say(client, "tokens=9", parameters={"max_tokens": 2})):
        assert text_of(r) == ["tokens=9w0 w1 "]
    assert text_of(say(client, "tokens=20")) == ["tokens=20" + "".join(f"w{i} " for i in range(16))]  # vLLM's own default
    assert text_of(say(client, "tokens=1", timeout=5_000_000)) == ["tokens=1w0 "]


def test_several_at_once(client, gateway):
    waiting = [client.async_infer("fake", [tensor(triton, "text_input", f"tokens={i} pace_ms=1")]) for i in range(1, 9)]
    for i, w in zip(range(1, 9), waiting):
        assert text_of(w.get_result())[0].endswith(f"w{i - 1} ")

    async def ask():
        async with triton_aio.InferenceServerClient(f"{gateway.host}:{gateway.port}") as c:
            r = await c.infer("fake", [tensor(triton_aio, "text_input", "tokens=1")])
            return text_of(r)
    assert asyncio.run(ask()) == ["tokens=1w0 "]


@pytest.mark.parametrize("order, status", [("refuse=context_length_exceeded", "400"), ("refuse=overloaded", "503"), ("refuse=no_job_ticket", "503"),
                                           ("refuse=deadline_exceeded", "503"), ("tokens=2 fail_at=1", "500"), ("tokens=2 fail_at=2", "500")])
def test_errors_are_the_clients_own(client, order, status):
    with pytest.raises(InferenceServerException) as e:
        say(client, order)
    assert e.value.status() == status and e.value.message()


def test_unknown_names_are_the_clients_own_errors(client):
    def refused(word, call, *args, **fields):
        with pytest.raises(InferenceServerException, match=word) as e:
            call(*args, **fields)
        return e.value.status()

    assert refused("unknown model", client.get_model_metadata, "nope") == "404"
    assert refused("version 7", client.get_model_metadata, "fake", "7") == "404"
    assert refused("unknown model", client.infer, "nope", [tensor(triton, "text_input", "a")]) == "404"
    assert refused("image", say, client, "a", tensor(triton, "image", "x")) == "400"
    assert refused("datatype", say, client, "a", tensor(triton, "max_tokens", 1, "UINT64")) == "400"
    assert refused("logits", say, client, "a", outputs=[triton.InferRequestedOutput("logits")]) == "400"
    assert refused("classification", say, client, "a", outputs=[triton.InferRequestedOutput("text_output", class_count=3)]) == "400"
    assert refused("temperature", say, client, "a", parameters={"temperature": 9}) == "400"
    assert refused("colour", say, client, "a", parameters={"colour": "red"}) == "400"
    assert refused("sequence_id", say, client, "a", sequence_id=7) == "400"
    assert refused("priority", say, client, "a", priority=2) == "400"
    assert refused("stream", say, client, "a", tensor(triton, "stream", True, "BOOL")) == "400"
    shared = triton.InferInput("text_input", [1], "BYTES")
    shared.set_shared_memory("region", 8)
    assert refused("shared_memory", client.infer, "fake", [shared]) == "400"
    for call in (client.get_system_shared_memory_status, client.get_trace_settings, client.get_log_settings):
        assert refused("no route", call) == "404"
    assert refused("must not be compressed", say, client, "a", request_compression_algorithm="gzip") == "415"


def test_headers_of_triton_that_change_no_answer(client):
    plain = say(client, "tokens=2")
    for asked in ({"response_compression_algorithm": "gzip"}, {"headers": {"endpoint-load-metrics-format": "json"}}):
        assert text_of(say(client, "tokens=2", **asked)) == text_of(plain)


def test_models_are_neither_loaded_nor_unloaded(client):
    client.load_model("fake")  # it is
    for call, name, fields, status in ((client.load_model, "fake", {"config": "{}"}, "400"), (client.load_model, "nope", {}, "404"),
                                       (client.unload_model, "fake", {}, "503")):
        with pytest.raises(InferenceServerException) as e:
            call(name, **fields)
        assert e.value.status() == status
    assert client.is_model_ready("fake")


def test_statistics_and_metrics_count_what_happened(client, start):
    g = start()
    with triton.InferenceServerClient(f"{g.host}:{g.port}") as c:
        before = c.get_inference_statistics("fake")["model_stats"][0]
        assert before["inference_count"] == 0 and before["last_inference"] == 0
        for _ in range(3):
            say(c, "tokens=2 pace_ms=10")
        with pytest.raises(InferenceServerException):
            say(c, "tokens=2 fail_at=2")
        received = c.get_inference_statistics()["model_stats"][0]
    assert received["inference_count"] == 3 and received["last_inference"] > 1_700_000_000_000
    stats = received["inference_stats"]
    assert stats["success"]["count"] == 3 and stats["fail"]["count"] == 1
    assert stats["compute_input"]["count"] == 3 and abs(stats["compute_input"]["ns"] - 3_000) <= 3  # a text's way to tokens, as the head says
    assert stats["queue"]["ns"] >= 3 * 2_000 - 3 and not received.get("batch_stats")
    assert stats["success"]["ns"] >= 3 * 10_000_000 and stats["success"]["ns"] >= stats["queue"]["ns"] + stats["compute_infer"]["ns"] - 3
    lines = httpx.get(g.url + "/metrics").text.splitlines()
    labels = '{model="fake",version="1"}'
    for line in (f"nv_inference_request_success{labels} 3", f"nv_inference_count{labels} 3", f"nv_inference_pending_request_count{labels} 0",
                 'nv_inference_request_failure{model="fake",reason="BACKEND",version="1"} 1'):
        assert line in lines


def test_metrics_of_the_host(gateway):
    received = {s.name: s.value for f in text_string_to_metric_families(httpx.get(gateway.url + "/metrics").text) for s in f.samples if s.name.startswith("nv_cpu_")}
    assert 0 <= received["nv_cpu_utilization"] <= 1
    assert 0 < received["nv_cpu_memory_used_bytes"] < received["nv_cpu_memory_total_bytes"]


def test_generate_as_curl_has_it(gateway):
    body = {"text_input": "tokens=3", "parameters": {"stream": False, "temperature": 0}}
    r = post(gateway, GENERATE, body)
    assert r.json() == {"model_name": "fake", "model_version": "1", "text_output": "tokens=3w0 w1 w2 "}
    r = post(gateway, GENERATE.replace("/generate", "/versions/1/generate"), {**body, "id": "7", "exclude_input_in_output": True})
    assert r.json() == {"id": "7", "model_name": "fake", "model_version": "1", "text_output": "w0 w1 w2 "}
    trt = {"text_input": "tokens=3", "max_tokens": 2, "bad_words": "", "stop_words": "", "pad_id": 2, "end_id": 2}
    assert post(gateway, GENERATE, trt).json()["text_output"] == "tokens=3w0 w1 "
    every = {f"return_{n}": True for n in ("finish_reason", "num_input_tokens", "num_output_tokens", "cumulative_logprob")}
    received = post(gateway, GENERATE, {"text_input": "tokens=3", "parameters": every}).json()
    assert (received["finish_reason"], received["num_input_tokens"], received["num_output_tokens"], received["cumulative_logprob"]) == ("stop", 8, 3, -1.5)


def test_generate_stream_as_curl_has_it(gateway):
    events = events_of(post(gateway, STREAM, {"text_input": "tokens=3 pace_ms=5", "parameters": {"stream": True, "temperature": 0}}))
    assert texts_of(events) == ["w0 ", "w1 ", "w2 "] and all(e["model_name"] == "fake" for e in events)
    whole = events_of(post(gateway, STREAM, {"text_input": "tokens=3", "stream": False}))
    assert [e["text_output"] for e in whole] == ["tokens=3w0 w1 w2 "]
    broken = events_of(post(gateway, STREAM, {"text_input": "tokens=9 fail_at=4 pace_ms=5", "stream": True}))
    assert [e.get("text_output") for e in broken] == ["w0 ", "w1 ", "w2 ", None] and list(broken[-1]) == ["error"]
    refused = post(gateway, STREAM, {"text_input": "refuse=overloaded", "stream": True})
    assert refused.status_code == 503 and refused.headers["retry-after"] and list(refused.json()) == ["error"]
    for path, body, word in ((GENERATE, {"text_input": "a", "stream": True}, "generate_stream"),
                             (STREAM, {"text_input": "a", "stream": True, "exclude_input_in_output": False}, "exclude_input_in_output")):
        r = post(gateway, path, body)
        assert r.status_code == 400 and word in r.json()["error"]
    r = post(gateway, STREAM, {"text_input": "a"}, headers={"Last-Event-ID": "1-0:1"})
    assert r.status_code == 400 and "/v1" in r.json()["error"]


def test_a_client_that_leaves_a_stream_ends_it(start):
    g = start()
    with connect(g) as s:
        s.sendall(request("POST", STREAM, {"text_input": "tokens=500 pace_ms=20", "parameters": {"max_tokens": 500, "stream": True}}))
        while b"w1 " not in s.recv(4096):
            pass
    assert g.wait_for("cancel")["ticket"]


def test_keys(start, keys_file):
    g = start("--keys", str(keys_file))
    with triton.InferenceServerClient(f"{g.host}:{g.port}") as c:
        assert c.is_server_live() and c.is_server_ready()
        with pytest.raises(InferenceServerException) as e:
            say(c, "tokens=1")
        assert e.value.status() == "401"
        key = {"Authorization": "Bearer k"}
        assert text_of(say(c, "tokens=1", headers=key)) == ["tokens=1w0 "]
        with pytest.raises(InferenceServerException) as e:
            c.unload_model("fake", headers=key)
        assert e.value.status() == "403"


def text_bytes(text):
    return struct.pack("<I", len(text)) + text


def infer_with(inputs, tail=b"", **more):
    head = json.dumps({"inputs": inputs, **more}).encode()
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def one(name="text_input", datatype="BYTES", shape=(1,), **rest):
    return {"name": name, "datatype": datatype, "shape": list(shape), **rest}


TEXT = one(data=["tokens=1"])
HUGE = [0, -1, 2, 65, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30]
NONSENSE = [
    *([one(shape=[n], data=["a"])] for n in HUGE), *([one(shape=[n, n], data=["a"])] for n in HUGE), [one(shape=[1] * 9, data=["a"])],
    [one(shape=[], data=["a"])], [one(shape="1", data=["a"])], [one(shape=[1.5], data=["a"])], [one(shape=[None], data=["a"])],
    *([one(datatype=d, data=["a"])] for d in ("FP16", "INT32", "bytes", "", "BYTES ", "X" * 300)), [one(datatype=1, data=["a"])],
    *([one(data=d)] for d in ([], ["a", "b"], [1], [None], [["a"], ["b"]], {}, None, [[[[]]]])),
    *([one(name=n, data=["a"])] for n in ("image", "", "text_input ", "TEXT_INPUT", "\u0000", "\u00e4" * 100, 7)),
    [TEXT, TEXT], [], [7], [[]], [None], [{}], [one()], [TEXT, one("stream", "BOOL", data=["yes"])], [TEXT, one("max_tokens", "INT32", data=[2**31])],
    [TEXT, one("temperature", "FP32", data=[1e39])], [TEXT, one("seed", "UINT64", data=[-1])], [TEXT, one("stop_words", shape=[65], data=["a"] * 65)],
    [TEXT] * 5000, [one(data=["a"] * 100000)], [one(data=["a"], parameters={"binary_data_size": 1})], [{**TEXT, "colour": 1}],
]


def test_nonsense_is_refused_by_name_and_disturbs_nothing(gateway):
    events_read = []
    stream = threading.Thread(target=lambda: events_read.extend(events_of(post(gateway, STREAM, {
        "text_input": "tokens=100 pace_ms=20", "parameters": {"max_tokens": 100, "stream": True}}))))
    stream.start()
    wrong = []
    with httpx.Client(base_url=gateway.url, timeout=30) as c:
        def refused(content, headers=None, path=INFER):
            r = c.post(path, content=content, headers=headers)
            if r.status_code != 400 or not isinstance(r.json()["error"], str) or len(r.text) > 1000:
                wrong.append(f"{content[:80]} {headers}: {r.status_code} {r.text[:200]}")

        for inputs in NONSENSE:
            refused(json.dumps({"inputs": inputs}))
        for more in ({"outputs": [{"name": "logits"}]}, {"outputs": [{}]}, {"outputs": 7}, {"parameters": 7}, {"id": 7}, {"id": "x" * 257}, {"colour": 1},
                     {"parameters": {f"p{i}": i for i in range(1000)}}, {"parameters": {"binary_data_output": 1}}):
            refused(json.dumps({"inputs": [TEXT], **more}))
        sized = lambda n: [one(parameters={"binary_data_size": n})]
        text = text_bytes(b"tokens=1")
        for n in [*HUGE, len(text) - 1, len(text) + 1, "12", None, [], 1.5]:
            refused(*infer_with(sized(n), text))
        for tail in (b"", b"\xff" * 4, text_bytes(b"\xc3("), b"\0\0\0\0\0", text + b"x", struct.pack("<I", 2**32 - 1) + b"tokens=1"):
            refused(*infer_with(sized(len(tail)), tail))
        refused(*infer_with([TEXT, one("stream", "BOOL", parameters={"binary_data_size": 2})], b"\0\0"))
        body, headers = infer_with(sized(len(text)), text)
        for length in ("-1", "1e3", "x", "0", str(len(body) + 1), "9" * 40, "0x10", "1 2", ""):
            refused(body, {"Inference-Header-Content-Length": length})
        refused(body, {"Inference-Header-Content-Length": str(len(body))})  # bytes within the JSON
        for content in ("", "[]", "{}", "null", '"a"', "{", '{"inputs":{}}', '{"inputs":null}', "[" * 5000, '{"inputs":[{"name":"\\ud800"}]}'):
            refused(content)
            refused(content.replace("inputs", "text_input"), path=GENERATE)
        for body in ({"text_input": ["a", "b"]}, {"text_input": "a", "parameters": []}, {"text_input": "a", "parameters": {"text_input": "b"}},
                     {"text_input": "a", **{f"p{i}": 1 for i in range(100)}}, {"text_input": "a", "sampling_parameters": "["},
                     {"text_input": "a", "sampling_parameters": "{}{}"}, {"text_input": "a", "max_tokens": 1, "sampling_parameters": '{"max_tokens": 2}'}):
            refused(json.dumps(body), path=GENERATE)
        assert c.post(INFER, content=infer_with(sized(len(text)), text)[0], headers=headers).json()["outputs"][0]["data"] == ["tokens=1w0 "]
    assert wrong == []
    stream.join()
    assert texts_of(events_read) == [f"w{i} " for i in range(100)]


ABSURD = ["1e308", "-1e308", "-1", "0", "-0.0", "1e-44", "1e-300", "1e39", "0.5", "NaN", "Infinity", "9223372036854775808", "18446744073709551616", "1e400", '"string"', "true",
          "[]", "{}", "[1e308]", '{"a":1e308}', '"1e308"', '"NaN"', '"0.5"']
NEAR_NOUGHT = {"0", "-0.0", "1e-44", "1e-300"}
TAKEN = {
    "temperature": {*NEAR_NOUGHT, "0.5", '"0.5"'}, "top_p": {"0.5", '"0.5"'}, "min_p": {*NEAR_NOUGHT, "0.5", '"0.5"'}, "typical_p": {"0.5", '"0.5"'}, "top_k": {"-1", "0"},
    "repetition_penalty": {"0.5", '"0.5"'}, "presence_penalty": {*NEAR_NOUGHT, "-1", "0.5", '"0.5"'}, "frequency_penalty": {*NEAR_NOUGHT, "-1", "0.5", '"0.5"'},
    "truncate_prompt_tokens": {"-1"}, "seed": {"-1", "0", "9223372036854775808"}, "min_length": {"0"}, "random_seed": {"-1", "0", "9223372036854775808"}, "logprobs": {"0"}, "min_tokens": {"0"},
    "stop": {'"string"', "[]", '"1e308"', '"NaN"', '"0.5"'}, "ignore_eos": {"true"}, "stop_token_ids": {"[]"}, "logit_bias": {"{}"}, "bad_words": {"[]"},
    "end_id": {"0"}, "pad_id": {"-1", "0", "9223372036854775808"}, "timeout": {"0", "9223372036854775808"}, "stop_words": {'"string"', "[]", '"1e308"', '"NaN"', '"0.5"'},
}


def test_absurd_values_are_refused_by_field(gateway):
    wrong = []
    with httpx.Client(base_url=gateway.url, timeout=30) as c:
        for field in [*TAKEN, "n", "max_tokens", "structured_outputs", "beam_width", "no_such_thing"]:
            for value in ABSURD:
                r = c.post(GENERATE, content='{"text_input":"tokens=1","%s":%s}' % (field, value))
                if value in TAKEN.get(field, ()):
                    is_right = r.status_code == 200
                else:
                    is_right = r.status_code == 400 and (value in ("NaN", "Infinity", "1e400") or field in r.json()["error"])
                if not is_right:
                    wrong.append(f"{field}={value}: {r.status_code} {r.text[:200]}")
    assert wrong == []


def test_a_lying_length_of_the_body_is_no_ones_business_but_the_liars(gateway):
    body, headers = infer_with([one(parameters={"binary_data_size": 1 << 30})], b"x" * 16)
    r = exchange(gateway, request("POST", INFER, body, headers=[f"{k}: {v}" for k, v in headers.items()]))
    assert r.status == 400 and "text_input" in r.json()["error"]
    with connect(gateway) as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" % INFER.encode())
        assert b" 413 " in read_all(s)
