"""Worker models through the APIs of KServe v2 and Triton, over HTTP and gRPC, with tritonclient: tensors whole, streamed, as JSON members.
Also invalid tensors, and failures of their worker."""
import asyncio
import json
import queue
import sys

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import aio as grpc_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.http import aio as http_aio
from tritonclient.utils import InferenceServerException

from test_worker_models import ROOT, Models, wait_for

HANDLER = ROOT / "tests" / "system" / "cluster" / "workers" / "handlers" / "tensors.py"
SHIMMED = ROOT / "sdk" / "python" / "tests" / "models"
KINDS = {"BYTES": np.object_, "FP32": np.float32, "INT32": np.int32, "FP16": np.float16, "INT8": np.int8, "UINT16": np.uint16, "BOOL": np.bool_,
         "INT64": np.int64, "FP64": np.float64}


def declared(name, *inputs, outputs=(), **more):
    row = lambda t: dict(zip(("name", "datatype", "shape", "optional"), t))  # noqa: E731
    return name + " " + json.dumps({"inputs": [row(t) for t in inputs], "outputs": [row(t) for t in outputs], **more})


TENSORS = declared("tensors", ("IN", "FP32", [-1], True), ("NAMES", "BYTES", [-1], True), ("DO", "BYTES", [1], True),
                   outputs=(("OUT", "FP32", [-1]), ("TEXT", "BYTES", [-1]), ("SAID", "BYTES", [1])), platform="python")
BATCHED = declared("batched", ("IN", "FP32", [2]), ("DO", "BYTES", [1], True), outputs=(("OUT", "FP32", [2]),), max_batch_size=4)
SQUARE = declared("square", ("IN", "INT32", [1]), outputs=(("OUT", "INT32", [1]),), decoupled=True, platform="python")


def worker(*words, module="baton_worker"):
    return [sys.executable, "-m", module, *map(str, words)]


class Doors(Models):
    @property
    def http(self):
        return f"{self.gateway.host}:{self.gateway.port}"

    @property
    def grpc(self):
        return self.gateway.grpc["kserve"]

    def post(self, path, body, **fields):
        return httpx.post(self.gateway.url + "/v2/models/" + path, json=body, timeout=30, **fields)


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    from conftest import Gateway
    door = f"ipc://{tmp_path_factory.mktemp('doors')}/w"
    tables = ("tensors 1 4 0 60000 20", "batched 1 1 0 60000 20", "square 1 4 0 60000 20", "free 1 1 0 60000 20")
    flags = [flag for t in tables for flag in ("--workers", t)] + [flag for t in (TENSORS, BATCHED, SQUARE) for flag in ("--declared", t)]
    g = Gateway("--zmq", "tcp://127.0.0.1:*", "--kserve-grpc", "127.0.0.1:0", "--worker-door", door, *flags)
    assert g.is_ready, g.message
    d = Doors(g, door)
    try:
        d.begin(5000, "tensors", worker(HANDLER))
        d.begin(5001, "batched", worker(HANDLER))
        d.begin(5002, "square", worker(SHIMMED / "triton_decoupled.py", module="baton_worker.triton"))
        d.begin(5003, "free", worker(HANDLER))
        yield d
    finally:
        d.stop()
    assert g.stop() == 0


@pytest.fixture(params=["http", "grpc"])
def over(request, doors):
    """A Triton client and its module."""
    module = triton_http if request.param == "http" else triton_grpc
    with module.InferenceServerClient(getattr(doors, request.param)) as client:
        client.module = module
        yield client


@pytest.fixture
def client(doors):
    with triton_http.InferenceServerClient(doors.http) as c:
        yield c


def tensor(module, name, values, datatype="FP32", shape=None, **how):
    array = np.array(values, dtype=KINDS[datatype])
    array = array.reshape(shape) if shape is not None else array
    t = module.InferInput(name, list(array.shape), datatype)
    t.set_data_from_numpy(array, **how)
    return t


def do(module, *words):
    return tensor(module, "DO", [" ".join(map(str, words)).encode()], "BYTES")


def wrong(client, *inputs, model="tensors", **fields):
    """-> (status, message)"""
    with pytest.raises(InferenceServerException) as e:
        client.infer(model, list(inputs), **fields)
    return e.value.status(), e.value.message()


def as_words(over, http_status, grpc_code):
    return http_status if over.module is triton_http else "StatusCode." + grpc_code


def events_of(reply):
    assert reply.headers["content-type"].startswith("text/event-stream")
    return [json.loads(e.removeprefix("data: ")) for e in reply.text.split("\n\n") if e]


# -- metadata of the models --


def as_dict(message):
    from google.protobuf.json_format import MessageToDict
    return message if isinstance(message, (dict, list)) else MessageToDict(message, preserving_proto_field_name=True)


def test_what_clients_ask_of_a_worker_model(over):
    assert over.is_model_ready("tensors") and over.is_model_ready("tensors", "1")
    received = as_dict(over.get_model_metadata("tensors"))
    assert (received["name"], received["versions"], received["platform"]) == ("tensors", ["1"], "python")
    assert [(t["name"], t["datatype"], [int(n) for n in t["shape"]]) for t in received["inputs"]] == [("IN", "FP32", [-1]), ("NAMES", "BYTES", [-1]), ("DO", "BYTES", [1])]
    assert [t["name"] for t in received["outputs"]] == ["OUT", "TEXT", "SAID"]
    batched = as_dict(over.get_model_metadata("batched"))
    assert [int(n) for n in batched["inputs"][0]["shape"]] == [-1, 2]
    config = as_dict(over.get_model_config("batched"))
    config = config.get("config", config)
    assert config["max_batch_size"] == 4 and config["backend"] == "baton_worker" and config["input"][0]["data_type"] == "TYPE_FP32"
    assert [int(n) for n in config["input"][0]["dims"]] == [2] and config["input"][1]["optional"] is True
    square = as_dict(over.get_model_config("square"))
    square = square.get("config", square)
    assert square["model_transaction_policy"]["decoupled"] is True
    assert square["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 20
    free = as_dict(over.get_model_metadata("free"))
    assert not free.get("inputs") and free["platform"] == "baton_worker"
    index = as_dict(over.get_model_repository_index())
    index = {m["name"]: m for m in (index if isinstance(index, list) else index["models"])}
    assert index["tensors"]["state"] == "READY" and index["tensors"]["version"] == "1" and "fake" in index


def test_comments_keep_a_quiet_stream_open(start, tmp_path):
    door, until = f"ipc://{tmp_path}/w", tmp_path / "go"
    g = start("--sse-ping-ms", "50", "--worker-door", door, "--workers", "tensors 1 1 0 60000 9", "--declared", TENSORS)
    d = Doors(g, door)
    try:
        d.begin(5000, "tensors", worker(HANDLER))
        with httpx.stream("POST", f"{g.url}/v2/models/tensors/generate_stream", json={"DO": f"stream 2 {until}"}, timeout=30) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            assert json.loads(first.removeprefix("data: "))["OUT"] == 0
            waited = [next(lines) for _ in range(4)]
            assert set(waited) == {"", ": waiting"}
            until.touch()
            rest = [line for line in lines if line.startswith("data: ")]
        assert [json.loads(line.removeprefix("data: "))["OUT"] for line in rest] == [1]
    finally:
        d.stop()


def test_a_body_of_bytes_alone_is_the_one_input(start, tmp_path):
    door = f"ipc://{tmp_path}/w"
    tables = ("raw 1 1 0 60000 9", "text 1 1 0 60000 9", "several 1 1 0 60000 9")
    all_declared = (declared("raw", ("IN", "FP32", [-1]), max_batch_size=4), declared("text", ("NAMES", "BYTES", [1])),
                    declared("several", ("IN", "FP32", [-1], True), ("NAMES", "BYTES", [-1], True)))
    g = start("--worker-door", door, *(f for t in tables for f in ("--workers", t)), *(f for t in all_declared for f in ("--declared", t)))
    d = Doors(g, door)

    def received(model, body):
        fields = {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"}
        return httpx.post(f"{g.url}/v2/models/{model}/infer", content=body, headers=fields, timeout=30)

    def read(answer):
        assert answer.status_code == 200, answer.text
        return triton_http.InferenceServerClient.parse_response_body(answer.content, header_length=int(answer.headers["inference-header-content-length"]))

    try:
        for place, model in enumerate(("raw", "text", "several"), 5000):
            d.begin(place, model, worker(HANDLER))
        values = read(received("raw", np.array([1, 2, 3], "float32").tobytes())).as_numpy("OUT")
        assert values.shape == (1, 3) and values.tolist() == [[2, 4, 6]]  # a batch of one
        assert read(received("text", "Ä".encode())).as_numpy("TEXT") is not None
        for model, body, why in (("raw", b"12345", "5 bytes"), ("several", b"", "models with one input")):
            refused = received(model, body)
            assert refused.status_code == 400 and why in refused.json()["error"]
    finally:
        d.stop()


def test_a_configuration_tells_the_queue_as_it_is(start, tmp_path):
    queue_of = "priority_levels=3 preferred_batch_size=2 preferred_batch_size=4 allow_timeout_override=1 delay_of_level=502"
    g = start("--kserve-grpc", "127.0.0.1:0", "--worker-door", f"ipc://{tmp_path}/w", "--workers", f"queued 2 4 30 60000 20 {queue_of}", "--workers", "plain 1 1 0 60000 9")
    d = Doors(g, "")
    with triton_grpc.InferenceServerClient(d.grpc) as over_grpc, triton_http.InferenceServerClient(d.http) as over_http:
        config = over_grpc.get_model_config("queued").config
        batching = config.dynamic_batching
        assert list(batching.preferred_batch_size) == [2, 4] and batching.max_queue_delay_microseconds == 30_000
        assert (batching.priority_levels, batching.default_priority_level, batching.preserve_ordering) == (3, 3, False)
        assert (batching.default_queue_policy.allow_timeout_override, batching.default_queue_policy.max_queue_size) == (True, 20)
        (level, policy), = batching.priority_queue_policy.items()
        assert (level, policy.timeout_action, policy.default_timeout_microseconds) == (2, 1, 50_000)
        assert config.instance_group[0].count == 2 and config.version_policy.latest.num_versions == 1
        received = over_http.get_model_config("queued")
        assert received["dynamic_batching"]["priority_queue_policy"]["2"]["timeout_action"] == "DELAY" and received["dynamic_batching"]["preferred_batch_size"] == [2, 4]
        assert not over_grpc.get_model_config("plain").config.HasField("dynamic_batching") and "dynamic_batching" not in over_http.get_model_config("plain")


def test_a_missing_model_is_unknown(over):
    assert wrong(over, model="nobody")[0] == wrong(over, model_version="2")[0] == as_words(over, "404", "NOT_FOUND")
    assert "version 2" in wrong(over, model_version="2")[1]
    with pytest.raises(InferenceServerException):
        over.get_model_metadata("tensors", "2")


# -- infer --


@pytest.mark.parametrize("binary", [True, False])
def test_tensors_go_there_and_come_back_over_http(client, binary):
    inputs = [tensor(triton_http, "IN", [1, 2.5, -3], binary_data=binary), tensor(triton_http, "NAMES", [b"ab", "c\u00e9".encode(), b""], "BYTES", binary_data=binary)]
    outputs = [triton_http.InferRequestedOutput(name, binary_data=binary) for name in ("OUT", "TEXT", "SAID")]
    received = client.infer("tensors", inputs, outputs=outputs, request_id="42", parameters={"depth": 3, "name": "x", "on": True})
    assert received.as_numpy("OUT").tolist() == [2, 5, -6] and received.as_numpy("OUT").dtype == np.float32
    assert [bytes(t) if binary else t.encode() for t in received.as_numpy("TEXT")] == [b"AB", b"C\xc3\xa9", b""]
    answered = json.loads(received.as_numpy("SAID")[0])
    assert answered["parameters"] == {"depth": 3, "name": "x", "on": True} and answered["id"] == "42" and answered["outputs"] == ["OUT", "TEXT", "SAID"]
    response = received.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("42", "tensors", "1")
    assert response["parameters"] == {"rows": 3, "how": "well"}


def test_tensors_go_there_and_come_back_over_grpc(doors):
    with triton_grpc.InferenceServerClient(doors.grpc) as c:
        received = c.infer("tensors", [tensor(triton_grpc, "IN", [1, 2.5]), tensor(triton_grpc, "NAMES", [b"ab", b"\xff"], "BYTES")], request_id="42",
                       parameters={"depth": 3, "name": "x", "on": True}, model_version="1")
        assert received.as_numpy("OUT").tolist() == [2, 5] and received.as_numpy("TEXT").tolist() == [b"AB", b"\xff"]
        assert json.loads(received.as_numpy("SAID")[0])["parameters"] == {"depth": 3, "name": "x", "on": True}
        response = received.get_response()
        assert response.id == "42" and response.model_version == "1" and response.parameters["rows"].int64_param == 2
        only = c.infer("tensors", [tensor(triton_grpc, "IN", [1])], outputs=[triton_grpc.InferRequestedOutput("OUT")])
        assert only.as_numpy("SAID") is None and only.as_numpy("OUT").tolist() == [2]


def test_values_in_the_fields_of_their_types(doors):
    r = service_pb2.ModelInferRequest(model_name="free")
    r.inputs.add(name="A", datatype="INT8", shape=[2]).contents.int_contents.extend([-128, 127])
    r.inputs.add(name="B", datatype="UINT16", shape=[1]).contents.uint_contents.append(65535)
    r.inputs.add(name="C", datatype="FP64", shape=[]).contents.fp64_contents.append(0.1)
    r.inputs.add(name="D", datatype="BOOL", shape=[1, 2]).contents.bool_contents.extend([True, False])
    r.inputs.add(name="DO", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"echo")
    with grpc.insecure_channel(doors.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        received = stub.ModelInfer(r, timeout=20)
        assert [(t.name, t.datatype, list(t.shape)) for t in received.outputs] == [("A", "INT8", [2]), ("B", "UINT16", [1]), ("C", "FP64", []), ("D", "BOOL", [1, 2])]
        assert list(received.raw_output_contents) == [b"\x80\x7f", b"\xff\xff", np.float64(0.1).tobytes(), b"\x01\x00"]
        r.inputs[0].contents.int_contents[0] = 128
        with pytest.raises(grpc.RpcError) as e:
            stub.ModelInfer(r, timeout=20)
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "'A'" in e.value.details()


def test_every_datatype_over_http(doors, client):
    values = {"BOOL": [True, False], "INT8": [-128, 127], "UINT16": [0, 65535], "INT64": [-2**63, 2**63 - 1], "FP32": [0.1, -1e30], "FP64": [0.1, 1e300]}
    for binary in (True, False):
        inputs = [tensor(triton_http, name, v, name, binary_data=binary) for name, v in values.items()]
        received = client.infer("free", [*inputs, do(triton_http, "echo")], outputs=[triton_http.InferRequestedOutput(n, binary_data=binary) for n in values])
        for name, v in values.items():
            assert received.as_numpy(name).tobytes() == np.array(v, dtype=KINDS[name]).tobytes(), (name, binary)
    halves = tensor(triton_http, "H", [0.5, 1.5], "FP16")
    received = client.infer("free", [halves, do(triton_http, "echo")])  # binary both ways is the client's default
    assert received.as_numpy("H").tolist() == [0.5, 1.5]
    plain = doors.post("free/infer", {"inputs": [{"name": "H", "datatype": "FP16", "shape": [1], "data": [1]}]})
    assert plain.status_code == 400 and "FP16" in plain.json()["error"]


def test_the_asynchronous_clients(doors):
    async def ask(module, address):
        async with module.InferenceServerClient(address) as c:
            received = await asyncio.gather(*(c.infer("tensors", [tensor(module, "IN", [i])]) for i in range(8)))
            return [r.as_numpy("OUT").tolist() for r in received]
    for module, address in ((http_aio, doors.http), (grpc_aio, doors.grpc)):
        assert asyncio.run(ask(module, address)) == [[2 * i] for i in range(8)]


def test_a_batch_in_front_of_declared_shapes(over):
    received = over.infer("batched", [tensor(over.module, "IN", range(6), shape=[3, 2])])
    assert received.as_numpy("OUT").tolist() == [[0, 2], [4, 6], [8, 10]]
    bad = as_words(over, "400", "INVALID_ARGUMENT")
    for shape in ([2], [1, 3], [5, 2]):
        status, message = wrong(over, tensor(over.module, "IN", range(int(np.prod(shape))), shape=shape), model="batched")
        assert status == bad and "'IN'" in message, shape
    several = tensor(over.module, "DO", [b"echo"] * 2, "BYTES", shape=[2, 1])
    assert "batch of" in wrong(over, tensor(over.module, "IN", [1, 2], shape=[1, 2]), several, model="batched")[1]


def test_what_is_declared_is_checked_by_name(over):
    bad = as_words(over, "400", "INVALID_ARGUMENT")
    one = tensor(over.module, "IN", [1])
    for inputs, fields, names in (
        ([tensor(over.module, "OTHER", [1])], {}, "OTHER"),
        ([tensor(over.module, "IN", [1], "INT32")], {}, "INT32"),
        ([tensor(over.module, "IN", [1], shape=[1, 1])], {}, "[1,1]"),
        ([one, tensor(over.module, "IN", [2])], {}, "twice"),
        ([one], {"outputs": [over.module.InferRequestedOutput("NOTHING")]}, "NOTHING"),
        ([one], {"sequence_id": 7}, "sequence_id"),
    ):
        status, message = wrong(over, *inputs, **fields)
        assert status == bad and names in message, message
    status, message = wrong(over, model="square")
    assert status == bad and "'IN' is required" in message


def test_bodies_that_no_client_sends(doors):
    def received(body, headers=None, model="tensors"):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(f"{doors.gateway.url}/v2/models/{model}/infer", content=content, headers=headers or {}, timeout=30)

    one = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2]}
    assert received({"inputs": [one]}).status_code == 200
    for change, word in (({"data": [1]}, "fewer"), ({"data": [1, 2, 3]}, "more"), ({"data": ["a", "b"]}, "FP32"), ({"shape": [-1]}, "negative"),
                         ({"shape": [2**62, 2**62]}, "shape"), ({"shape": [2**31]}, "larger"), ({"data": None}, "binary_data_size"), ({"colour": 1}, "colour"),
                         ({"parameters": {"binary_data_size": 8}}, "one of"), ({"data": [1e39, 0]}, "FP32")):
        answer = received({"inputs": [{**one, **change}]})
        assert answer.status_code == 400 and word in answer.json()["error"], (change, answer.text)
    assert received({"inputs": [{"name": "x", "datatype": "FP31", "shape": [1], "data": [1]}]}, model="free").status_code == 400
    binary = {"name": "NAMES", "datatype": "BYTES", "shape": [1]}
    for size, raw in ((5, b"\x01\0\0\0a"), (5, b"\x02\0\0\0a"), (4, b"\0\0\0\0"), (9, b"\x01\0\0\0a"), (3, b"abc"), (5, b"\0\0\0\0a")):
        text = json.dumps({"inputs": [{**binary, "parameters": {"binary_data_size": size}}]}).encode()
        answer = received(text + raw, {"Inference-Header-Content-Length": str(len(text)), "Content-Type": "application/octet-stream"})
        assert answer.status_code == (200 if raw in (b"\x01\0\0\0a", b"\0\0\0\0") and size == len(raw) else 400), (size, raw, answer.text)
    assert received({"inputs": [one], "parameters": {"a": [1, 2], "b": {"c": 1}}}).status_code == 200  # a handler's own matter
    assert received(b"{").status_code == received({"inputs": 1}).status_code == received({}).status_code == 400


def test_headers_reach_the_handler_and_keys_do_not(doors):
    received = doors.post("tensors/infer", {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]},
                      headers={"X-Mine": "yes", "Authorization": "Bearer secret", "Cookie": "a=b"})
    headers = json.loads(next(o for o in received.json()["outputs"] if o["name"] == "SAID")["data"][0])["headers"]
    assert headers["x-mine"] == "yes" and not {"authorization", "cookie", "content-length"} & headers.keys()


# -- a handler that fails, and one with unusual answers --


def test_what_a_handler_raises_is_its_clients_error(over):
    status, message = wrong(over, do(over.module, "raise"))
    assert status == as_words(over, "500", "INTERNAL") and "as it was asked to" in message
    status, message = wrong(over, do(over.module, "refuse"))
    assert status == as_words(over, "400", "INVALID_ARGUMENT") and message == "not this one"
    assert "/v1/workers/tensors" in wrong(over, do(over.module, "body"))[1]
    assert "'OUT'" in wrong(over, do(over.module, "torn"))[1]


def test_what_json_has_no_words_for_comes_in_bytes(client):
    for name, output in (("nan", "OUT"), ("bytes", "TEXT")):
        plain = [triton_http.InferRequestedOutput(output, binary_data=False)]
        status, message = wrong(client, do(triton_http, name), outputs=plain)
        assert status == "400" and "binary" in message
        assert client.infer("tensors", [do(triton_http, name)]).as_numpy(output) is not None


# -- several responses --


class Stream:
    """tritonclient's stream; its results go into a queue."""

    def __init__(self, address, **fields):
        self.client, self.replies = triton_grpc.InferenceServerClient(address), queue.Queue()
        self.client.start_stream(callback=lambda result, error: self.replies.put((result, error)), **fields)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream(cancel_requests=True)
        self.client.close()

    def ask(self, model, *inputs, **fields):
        self.client.async_stream_infer(model, list(inputs), **fields)

    def next(self):
        return self.replies.get(timeout=20)

    def until_end(self):
        results = []
        while not results or not results[-1].get_response().parameters["triton_final_response"].bool_param:
            result, error = self.next()
            assert error is None, error
            results.append(result)
        return results


def test_a_decoupled_model_streams_over_grpc(doors):
    with Stream(doors.grpc) as s:
        s.ask("square", tensor(triton_grpc, "IN", [4], "INT32"), enable_empty_final_response=True, request_id="a")
        results = s.until_end()
        assert [r.as_numpy("OUT").tolist() for r in results[:-1]] == [[0], [1], [2], [3]]
        assert all(r.get_response().id == "a" for r in results) and not results[-1].get_response().outputs
        s.ask("square", tensor(triton_grpc, "IN", [2], "INT32"))  # the end is a separate piece, which was not requested
        finals = [s.next()[0].get_response().parameters["triton_final_response"].bool_param for _ in range(2)]
        assert finals == [False, False]
        s.ask("tensors", tensor(triton_grpc, "IN", [1]), enable_empty_final_response=True)  # one response, which is the last
        (one,) = s.until_end()
        assert one.as_numpy("OUT").tolist() == [2]


def test_an_asynchronous_stream(doors):
    async def ask():
        async with grpc_aio.InferenceServerClient(doors.grpc) as c:
            async def requests():
                yield {"model_name": "square", "inputs": [tensor(grpc_aio, "IN", [3], "INT32")]}
            received = [pair async for pair in c.stream_infer(requests())]  # which ends when all is said and done
            assert all(error is None for _, error in received)
            return [result.as_numpy("OUT").tolist() for result, _ in received]
    assert asyncio.run(ask()) == [[0], [1], [2]]


def test_requests_of_one_stream_go_on_beside_those_that_fail(doors):
    with Stream(doors.grpc) as s:
        s.ask("square", tensor(triton_grpc, "IN", [3], "INT32"), request_id="good", enable_empty_final_response=True)
        s.ask("square", tensor(triton_grpc, "IN", [3], "FP32"), request_id="wrong")
        s.ask("tensors", do(triton_grpc, "late_error"), request_id="late")
        good, failures, begun = [], [], 0
        while len(good) < 4 or len(failures) < 2:
            result, error = s.next()
            if error:
                failures.append(error.message())
            elif result.get_response().id == "good":
                good.append(result)
            else:
                begun += 1
        assert begun == 1 and any("datatype" in f for f in failures) and any("too late" in f for f in failures)


def test_more_than_one_response_is_refused_where_one_is_told(doors, over):
    status, message = wrong(over, tensor(over.module, "IN", [3], "INT32"), model="square")
    assert status == as_words(over, "400", "INVALID_ARGUMENT") and "more than one response" in message
    received = over.infer("square", [tensor(over.module, "IN", [1], "INT32")])  # one is one
    assert received.as_numpy("OUT").tolist() == [0]


# -- generate --


def test_members_become_tensors_and_tensors_members(doors):
    received = doors.post("tensors/generate", {"IN": [1, 2], "NAMES": "ab", "id": "7", "depth": 3, "parameters": {"on": True}})
    assert received.status_code == 200, received.text
    body = received.json()
    assert (body["OUT"], body["TEXT"], body["id"], body["model_name"], body["model_version"]) == ([2, 4], "AB", "7", "tensors", "1")
    assert json.loads(body["SAID"])["parameters"] == {"depth": 3, "on": True}
    nested = doors.post("batched/generate", {"IN": [[1, 2]]})
    assert nested.json()["OUT"] == [2, 4]
    for path, body, word in (("tensors", {"IN": ["a"]}, "IN"), ("tensors", {"IN": 1, "other": [1]}, "other"), ("batched", {"IN": [1, 2, 3]}, "IN"),
                             ("square", {}, "required"), ("square", {"IN": 3}, "generate_stream")):
        refused = doors.post(f"{path}/generate", body)
        assert refused.status_code == 400 and word in refused.json()["error"], refused.text
    undeclared = doors.post("free/generate", {"IN": 1})
    assert undeclared.status_code == 400 and "workers.inputs" in undeclared.json()["error"]


def test_generate_stream_has_an_event_for_each_response(doors):
    received = events_of(doors.post("square/generate_stream", {"IN": 3, "id": "x"}))
    assert [e["OUT"] for e in received] == [0, 1, 2] and all(e["id"] == "x" for e in received)
    assert [e["OUT"] for e in events_of(doors.post("tensors/generate_stream", {"IN": 3}))] == [6]
    broken = events_of(doors.post("tensors/generate_stream", {"DO": "late_error"}))
    assert broken[0]["OUT"] == 0 and "too late" in broken[1]["error"]
    assert doors.post("tensors/generate_stream", {"DO": "raise"}).status_code == 500  # nothing was sent yet


# -- clients that leave, workers that end --


def test_who_leaves_ends_the_handlers_stream(doors, tmp_path):
    with Stream(doors.grpc) as s:
        s.ask("tensors", do(triton_grpc, "endless", tmp_path / "grpc"))
        assert s.next()[1] is None
    wait_for((tmp_path / "grpc").exists)
    with httpx.stream("POST", f"{doors.gateway.url}/v2/models/tensors/generate_stream", json={"DO": f"endless {tmp_path / 'http'}"}, timeout=30) as r:
        next(r.iter_lines())
    wait_for((tmp_path / "http").exists)
    refused = doors.post("tensors/infer", {"inputs": [{"name": "DO", "datatype": "BYTES", "shape": [1], "data": [f"endless {tmp_path / 'many'}"]}]})
    assert refused.status_code == 400
    wait_for((tmp_path / "many").exists)  # it is not asked to go on
    assert client_of(doors).infer("tensors", [tensor(triton_http, "IN", [1])]).as_numpy("OUT").tolist() == [2]


def client_of(doors):
    return triton_http.InferenceServerClient(doors.http)


def test_a_deadline_of_the_client_ends_it(doors, tmp_path):
    with triton_grpc.InferenceServerClient(doors.grpc) as c:
        with pytest.raises(InferenceServerException, match="Deadline"):
            c.infer("tensors", [do(triton_grpc, "stream", 2, tmp_path / "late")], client_timeout=0.5)
    (tmp_path / "late").touch()


def test_a_worker_that_is_killed(doors, tmp_path):
    with Stream(doors.grpc) as s:
        s.ask("tensors", do(triton_grpc, "stream", 2, tmp_path / "never"), request_id="cut")
        assert s.next()[0].as_numpy("OUT").tolist() == [0]
        doors.processes[5000].kill()
        assert s.next()[1] is not None
    doors.begin(5000, "tensors", worker(HANDLER))
    with client_of(doors) as c:
        assert c.infer("tensors", [do(triton_http, "who")]).as_numpy("OUT").tolist() == [doors.processes[5000].pid]


# -- numbers --


def test_statistics_and_metrics_count_worker_models(doors):
    with triton_grpc.InferenceServerClient(doors.grpc) as c:
        before = c.get_inference_statistics("batched").model_stats[0]
        c.infer("batched", [tensor(triton_grpc, "IN", [1, 2], shape=[1, 2])])
        wrong(c, tensor(triton_grpc, "IN", [1, 2], shape=[1, 2]), tensor(triton_grpc, "DO", [b"raise"], "BYTES", shape=[1, 1]), model="batched")
        after = c.get_inference_statistics("batched").model_stats[0]
        assert after.inference_stats.success.count == before.inference_stats.success.count + 1
        assert after.inference_stats.fail.count == before.inference_stats.fail.count + 1
        assert after.execution_count == before.execution_count + 2 and after.inference_stats.compute_infer.ns > 0
        counts = lambda stats: {b.batch_size: b.compute_infer.count for b in stats.batch_stats}  # noqa: E731
        assert counts(after).get(1, 0) == counts(before).get(1, 0) + 1  # the one that went well
        assert all(b.compute_infer.ns > 0 and b.compute_input.ns == 0 for b in after.batch_stats)
        assert {m.name for m in c.get_inference_statistics().model_stats} >= {"tensors", "batched", "square", "free", "fake"}
    text = httpx.get(doors.gateway.url + "/metrics").text
    assert f'nv_inference_request_success{{model="batched",version="1"}} {int(after.inference_stats.success.count)}' in text
    assert 'nv_inference_pending_request_count{model="batched",version="1"} 0' in text
    assert text.count("# TYPE nv_inference_exec_count") == 1


def test_what_a_model_of_the_python_backend_counts(start, tmp_path):
    door = f"ipc://{tmp_path}/w"
    g = start("--zmq", "tcp://127.0.0.1:*", "--worker-door", door, "--workers", "counts 2 1 0 60000 9", "--declared", declared("counts", ("IN", "FP32", [-1])))
    d = Doors(g, door)

    def received():
        families = list(text_string_to_metric_families(httpx.get(g.url + "/metrics").text))
        assert len({f.name for f in families}) == len(families)
        return {s.labels.get("sign", s.name): (f.type, s.value) for f in families if f.name in ("elements_served", "largest_element") for s in f.samples}

    def spread():
        return {s.labels.get("le", s.name): s.value for f in text_string_to_metric_families(httpx.get(g.url + "/metrics").text)
                if (f.name, f.type) == ("absolute_sum", "histogram") for s in f.samples if s.labels["model"] == "counts"}

    def ask(*values):
        with triton_http.InferenceServerClient(d.http) as c:
            return c.infer("counts", [tensor(triton_http, "IN", values)])

    try:
        d.begin(5000, "counts", worker(SHIMMED / "triton_metrics.py", module="baton_worker.triton"))
        wait_for(lambda: received() == {"plus": ("counter", 0), "minus": ("counter", 0), "largest_element": ("gauge", 0)})
        ask(1, 2, -3)
        wait_for(lambda: received() == {"plus": ("counter", 2), "minus": ("counter", 1), "largest_element": ("gauge", 2)})
        with pytest.raises(InferenceServerException, match="the counter 'elements_served' cannot go down by 1"):
            ask()
        d.processes[5000].terminate()  # it sends its last counts before it ends, and they stay
        assert d.processes[5000].wait(30) == 0
        d.begin(5001, "counts", worker(SHIMMED / "triton_metrics.py", module="baton_worker.triton"))
        ask(5)
        wait_for(lambda: received() == {"plus": ("counter", 3), "minus": ("counter", 1), "largest_element": ("gauge", 5)})
        wait_for(lambda: spread() == {"1": 0, "4": 0, "+Inf": 2, "absolute_sum_count": 2, "absolute_sum_sum": 11})  # 6 of the previous process
    finally:
        d.stop()


def test_keys_and_draining(start, keys_file, tmp_path):
    door = f"ipc://{tmp_path}/w"
    g = start("--zmq", "tcp://127.0.0.1:*", "--kserve-grpc", "127.0.0.1:0", "--keys", str(keys_file), "--worker-door", door, "--workers", "tensors 1 1 0 60000 9")
    d = Doors(g, door)
    try:
        d.begin(5000, "tensors", worker(HANDLER))
        body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert d.post("tensors/infer", body).status_code == 401
        assert d.post("tensors/infer", body, headers={"Authorization": "Bearer k"}).status_code == 200
        with triton_grpc.InferenceServerClient(d.grpc) as c:
            one = tensor(triton_grpc, "IN", [1])
            assert wrong(c, one)[0] == "StatusCode.UNAUTHENTICATED"
            assert c.infer("tensors", [one], headers={"authorization": "Bearer k"}).as_numpy("OUT").tolist() == [2]
            g.order("drain")
            assert d.post("tensors/infer", body, headers={"Authorization": "Bearer k"}).status_code == 503
            with pytest.raises(InferenceServerException) as e:
                c.infer("tensors", [one], headers={"authorization": "Bearer k"})
            assert e.value.status() == "StatusCode.UNAVAILABLE"
    finally:
        d.stop()
