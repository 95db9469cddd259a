"""Unmodified TorchServe handlers and models of Triton's Python backend, through the worker's loop."""

import argparse
import json
import sys
from pathlib import Path

import pytest
from test_worker import FakeLink, ends

from baton_client import Tensor, inference
from baton_client.errors import BatonError
from baton_client.inference import Infer, Inferred
from baton_worker import Context, pbtxt, torchserve
from baton_worker.link import Batch
from baton_worker.serve import run_batch

MODELS = Path(__file__).parent / "models"


@pytest.fixture(autouse=True)
def read(monkeypatch):
    monkeypatch.setattr(inference, "inferred", lambda request, piece: (request, piece))
    yield
    for name in [n for n in sys.modules if n == "ts" or n.startswith("ts.")]:
        del sys.modules[name]


def context(*options):
    return Context(model="m", version="1", name="worker-m-0", batch_size=2, door="", options=list(options))


def made(make, *options):
    handler = make(context(*options))
    handler.initialize(context(*options))
    return handler


def run(handler, *asked):
    link = FakeLink()
    run_batch(handler, link, Batch(0, [Infer(request=i + 1, **fields) for i, fields in enumerate(asked)]))
    ends(link.pieces)
    return link.pieces


def test_a_torchserve_class_handler():
    handler = made(torchserve.make, str(MODELS / "ts_class_handler.py"))
    text = {"body": b"one two three", "content_type": "text/plain", "headers": [("Accept", "x")]}
    doc = {"body": b'{"text": "one"}', "content_type": "application/json"}
    first, second = (piece for _, piece in run(handler, text, doc))
    assert json.loads(first.body) == {"model": "m", "words": 3, "accept": "x"}
    assert json.loads(second.body) == {"model": "m", "words": 1, "accept": None}
    assert first.headers == [("X-Words", "3")] and first.content_type == "application/json" and first.status == 200


def test_a_torchserve_handler_that_sends_intermediate_responses():
    handler = made(torchserve.make, str(MODELS / "ts_class_handler.py"))
    pieces = run(handler, {"body": b"stream it"}, {"body": b"too"})
    assert [(r, p.body) for r, p in pieces[:4]] == [(1, b"0 "), (2, b"0 "), (1, b"1 "), (2, b"1 ")]
    assert [p.is_last for _, p in pieces] == [False] * 4 + [True] * 2


def test_what_a_torchserve_handler_refuses_has_its_status():
    handler = made(torchserve.make, str(MODELS / "ts_class_handler.py"))
    ((_, piece),) = run(handler, {"body": b"refuse"})
    assert piece.status == 513 and json.loads(piece.body)["message"] == "I will not count this"


def test_a_torchserve_function_handler():
    handler = made(torchserve.make, str(MODELS / "ts_function_handler.py"))
    ((_, piece),) = run(handler, {"body": b"hello", "content_type": "text/plain"})
    assert (piece.body, piece.content_type) == (b"HELLO!!", "text/x-shout")


@pytest.mark.parametrize("file, why", [(__file__, "has 0 classes"), ("nothing.py", "is no file")])
def test_a_file_without_a_torchserve_handler_is_refused(file, why):
    with pytest.raises(ValueError, match=why):
        torchserve.make(context(file))


def triton(*options):
    pytest.importorskip("numpy")
    from baton_worker import triton as shim

    return made(shim.make, *options)


def floats(name, *values):
    import numpy

    return Tensor.of(name, numpy.array(values, "float32"))


def test_a_triton_model():
    handler = triton(str(MODELS / "triton_model.py"), "--config", str(MODELS / "config.pbtxt"))
    both = {"inputs": [floats("INPUT0", 1, 2, 3, 4), floats("INPUT1", 4, 3, 2, 1)]}
    pieces = run(handler, both, {"inputs": [floats("INPUT0", 1)]}, {**both, "outputs": ["OUTPUT1"]})
    first, second, third = (p for _, p in pieces)
    assert [(t.name, t.datatype, t.numpy().tolist()) for t in first.outputs] == [
        ("OUTPUT0", "FP32", [5, 5, 5, 5]),
        ("OUTPUT1", "FP32", [-3, -1, 1, 3]),
    ]
    assert second.failure.name == "invalid_request" and second.failure.message == "INPUT1 is missing"
    assert [t.name for t in third.outputs] == ["OUTPUT1"]


def test_a_decoupled_triton_model():
    numpy = pytest.importorskip("numpy")
    handler = triton(str(MODELS / "triton_decoupled.py"))
    pieces = run(handler, *({"inputs": [Tensor.of("IN", numpy.array([n], "int32"))]} for n in (3, 0)))
    assert [p.outputs[0].numpy()[0] for r, p in pieces if r == 1 and p.outputs] == [0, 1, 2]
    assert [len(p.outputs) for r, p in pieces if r == 2] == [0]


def test_a_triton_model_that_answers_nothing_is_an_error():
    handler = triton(str(MODELS / "triton_model.py"), "--config", str(MODELS / "config.pbtxt"))
    handler._model = type("M", (), {"execute": lambda self, requests: None})()
    ((_, piece),) = run(handler, {"inputs": [floats("INPUT0", 1)]})
    assert "gave no responses" in piece.failure.message


def test_a_triton_model_may_send_some_responses_and_return_others():
    handler = triton(str(MODELS / "triton_model.py"), "--config", str(MODELS / "config.pbtxt"))
    from baton_worker import triton as shim

    def execute(self, requests):
        requests[0].get_response_sender().send(flags=shim.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return [None, shim.InferenceResponse(error=shim.TritonError("no"))]

    handler._model = type("M", (), {"execute": execute})()
    (_, first), (_, second) = run(handler, {"inputs": [floats("INPUT0", 1)]}, {"inputs": [floats("INPUT0", 1)]})
    assert first.failure is None and second.failure.message == "no"


class Called:
    """Fakes of other models, by their answers: pieces, the last of which may be an exception."""

    def __init__(self, **answers):
        self.answers, self.asked, self.closed = answers, [], []

    def infer_stream(self, model, inputs, **answer):
        self.asked.append((model, inputs, answer))
        return self.pieces(model)

    def pieces(self, model):
        try:
            for piece in self.answers[model]:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed.append(model)


def calling(monkeypatch, file, **answers):
    handler = triton(str(MODELS / file))
    called = Called(**answers)
    monkeypatch.setattr(Context, "client", lambda self: called)
    return handler, called


def text(name, *values):
    return Tensor.of(name, list(values))


def test_a_triton_model_calls_another(monkeypatch):
    handler, called = calling(monkeypatch, "triton_bls.py", tensors=[Inferred(outputs=[floats("OUT", 2, 4), text("SAID", "x")])])
    ((_, piece),) = run(handler, {"inputs": [text("DO", "double"), floats("IN", 1, 2)], "request_id": "r"})
    assert [t.name for t in piece.outputs] == ["OUT", "SAID"] and piece.outputs[0].numpy().tolist() == [2, 4]
    ((model, inputs, answer),) = called.asked
    assert (model, [t.name for t in inputs], answer["outputs"], answer["request_id"]) == ("tensors", ["IN"], ["OUT", "SAID"], "r")
    assert answer["parameters"] == {"colour": "red", "timeout": 1500} and answer["version"] == ""


def test_a_triton_model_calls_decoupled_ones(monkeypatch):
    import numpy

    counted = [Inferred(outputs=[Tensor.of("OUT", numpy.array([n], "int32"))], is_last=False) for n in range(3)] + [Inferred()]
    handler, called = calling(monkeypatch, "triton_bls.py", square=counted, tensors=counted)
    ((_, piece),) = run(handler, {"inputs": [text("DO", "count"), floats("IN", 3)]})
    assert piece.outputs[0].numpy().tolist() == [0, 1, 2]
    ((_, piece),) = run(handler, {"inputs": [text("DO", "leave"), floats("IN", 3)]})
    assert piece.outputs[0].numpy().tolist() == [0] and called.closed == ["square", "tensors"]
    ((_, piece),) = run(handler, {"inputs": [text("DO", "double"), floats("IN", 3)]})
    assert "more than one response: exec(decoupled=True)" in piece.failure.message and called.closed[2:] == ["tensors"]


def test_calls_of_async_models_are_under_way_together(monkeypatch):
    import numpy

    answers = {"tensors": [Inferred(outputs=[floats("OUT", 7)])], "square": [Inferred(outputs=[Tensor.of("OUT", numpy.array([5], "int32"))])]}
    handler, called = calling(monkeypatch, "triton_bls_async.py", **answers)
    ((_, piece),) = run(handler, {"inputs": [floats("IN", 1)]})
    assert [(t.name, t.numpy().tolist()) for t in piece.outputs] == [("OUT0", [7]), ("OUT1", [7]), ("TOLD", [5])]
    assert [model for model, _, _ in called.asked] == ["tensors", "tensors", "square"]


@pytest.mark.parametrize(
    "pieces, is_not_found, why",
    [
        ([BatonError(7, "model_not_found", "no such")], True, "model_not_found: no such"),
        ([Inferred(outputs=[Tensor("OUT", "INT8", [1], b"1")], is_last=False), BatonError(56, "worker_lost", "gone", retryable=True)], False, "worker_lost: gone"),
        ([Inferred(body=b"text")], False, "it is a body, not tensors"),
        ([Inferred(outputs=[Tensor("OUT", "FP8", [1], b"1")])], False, "no numpy type for FP8"),
    ],
)
def test_a_called_models_failure_is_an_error_of_its_response(monkeypatch, pieces, is_not_found, why):
    handler, called = calling(monkeypatch, "triton_bls.py", other=pieces)
    ((_, piece),) = run(handler, {"inputs": [text("DO", "fail"), text("IN", "other")]})
    answer = piece.outputs[0].numpy()[0].decode()
    assert answer.startswith(f"True {is_not_found} ") and why in answer and called.closed == ["other"]


def test_a_call_without_a_gateway_is_an_error_of_its_response():
    handler = triton(str(MODELS / "triton_bls.py"))
    ((_, piece),) = run(handler, {"inputs": [text("DO", "fail"), text("IN", "other")]})
    assert "gateway.zmq is empty" in piece.outputs[0].numpy()[0].decode()


def test_what_calls_cannot_say_is_refused():
    triton(str(MODELS / "triton_bls.py"))
    from baton_worker import triton as shim

    for wrong in ({"correlation_id": 3}, {"flags": shim.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START}, {"parameters": "{}"},
                  {"inputs": [None]}, {"requested_output_names": [""]}):
        with pytest.raises(shim.TritonModelException):
            shim.InferenceRequest(**{"model_name": "other", "inputs": [], "requested_output_names": [], **wrong})


COMPLETES = """
import json
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(BATCH)
        config.set_dynamic_batching()
        config.set_model_transaction_policy({"decoupled": False})
        return config

    def initialize(self, args):
        self.config = args["model_config"]

    def execute(self, requests):
        said = [json.dumps([json.loads(self.config), r.timeout()]) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", numpy.array([s], dtype=object))]) for s in said]
"""


def test_a_triton_model_completes_its_config(tmp_path):
    file = tmp_path / "m" / "1" / "model.py"
    file.parent.mkdir(parents=True)
    file.write_text(COMPLETES.replace("BATCH", "4"))
    (tmp_path / "m" / "config.pbtxt").write_text('max_batch_size: 2 input [{ name: "IN" data_type: TYPE_FP32 }]')
    handler = triton(str(file))
    ((_, piece), (_, late)) = run(handler, {}, {"parameters_json": '{"timeout": 1500}'})
    config, timeout = json.loads(piece.outputs[0].numpy()[0])
    assert config["input"] == [{"name": "IN", "data_type": "TYPE_FP32", "dims": [2]}] and config["output"][0]["name"] == "OUT"
    assert (config["max_batch_size"], config["dynamic_batching"], timeout) == (4, {}, 0)
    assert json.loads(late.outputs[0].numpy()[0])[1] == 1500
    for text, model, why in (('max_batch_size: 8', COMPLETES, "max_batch_size 8, auto_complete_config 4"),
                             ('input [{ name: "IN" data_type: TYPE_INT8 }]', COMPLETES, "input 'IN': config.pbtxt says data_type"),
                             ("", COMPLETES.replace('"dims": [2]', '"shape": [2]'), "an input of auto_complete_config has shape"),
                             ("sequence_batching {}", COMPLETES, "says sequence_batching"),
                             ("", COMPLETES.replace("return config", "return None"), "returns the model config")):
        file.write_text(model.replace("BATCH", "4"))
        (tmp_path / "m" / "config.pbtxt").write_text(text)
        with pytest.raises(ValueError, match=why):
            triton(str(file))


def test_config_pbtxt_is_read_as_triton_gives_it():
    config = pbtxt.parse((MODELS / "config.pbtxt").read_text())
    assert [i["name"] for i in config["input"]] == ["INPUT0", "INPUT1"] and config["output"][1]["dims"] == [4]
    assert config["instance_group"] == [{"kind": "KIND_CPU"}]
    results_of = pbtxt.parse("""parameters: { key: "k" value: { string_value: "a \\"b\\"" } } x: -1.5e3, y: 0x10; z { decoupled: true }""")
    assert results_of == {"parameters": {"k": {"string_value": 'a "b"'}}, "x": -1500.0, "y": 16, "z": {"decoupled": True}}
    for broken in ("a", "a:", "a: {", "a: [1", ": 1", "a: }", "a: {}}", 'a: "', "a {" * 40):
        with pytest.raises(ValueError):
            pbtxt.parse(broken)


def test_the_example_of_a_generation_loop():
    from baton_worker.__main__ import make

    handler = made(make, str(Path(__file__).resolve().parents[3] / "examples" / "workers" / "top_p.py"))

    def results_of(*asked):
        pieces = run(handler, *({"body": json.dumps(a).encode()} for a in asked))
        return ["".join(p.body.decode() for r, p in pieces if r == i + 1) for i in range(len(asked))]

    likeliest = {"prompt": "the wheel ", "max_tokens": 12, "top_p": 0.01}
    alone = results_of(likeliest)
    drawn = {"prompt": "the ", "max_tokens": 40, "top_p": 0.9, "seed": 7}
    assert len(alone[0]) == 12 and results_of(likeliest) == alone
    assert results_of(drawn, likeliest) == results_of(drawn) + alone  # the rest of the batch has no effect
    assert results_of({**drawn, "seed": 8}) != results_of(drawn) == results_of(drawn)
    refused = run(handler, {"body": b'{"top_p": 0}'}, {"body": json.dumps(likeliest).encode()}, {"body": b"["})
    assert [p.failure.name for r, p in refused if r != 2] == ["unprocessable"] * 2


def test_handlers_get_their_gpu(monkeypatch):
    from baton_worker import triton

    for key in ("MODEL", "VERSION", "NAME"):
        monkeypatch.setenv(f"BATON_WORKER_{key}", "m")
    monkeypatch.setenv("BATON_WORKER_BATCH_SIZE", "1")
    monkeypatch.delenv("BATON_WORKER_GPU_ID", raising=False)
    assert Context.of_environment().gpu_id is None
    monkeypatch.setenv("BATON_WORKER_GPU_ID", "3")
    on_gpu = Context.of_environment()
    assert on_gpu.gpu_id == 3

    options = argparse.Namespace(manifest={"model": {}}, model_yaml_config=None, model_dir="/m")
    assert torchserve.TorchContext(on_gpu, options).system_properties["gpu_id"] == 3
    assert torchserve.TorchContext(context(), options).system_properties["gpu_id"] is None

    class Model:
        def initialize(self, args):
            self.given = args["model_instance_kind"], args["model_instance_device_id"]

    def results_of(config, where):
        model = Model()
        triton.TritonHandler(model, config, Path("m/1")).initialize(where)
        return model.given

    assert results_of({}, on_gpu) == ("GPU", "3")
    assert results_of({}, context()) == results_of({"instance_group": [{"kind": "KIND_MODEL"}, {"kind": "KIND_CPU"}]}, context()) == ("CPU", "0")
    assert results_of({"instance_group": [{"kind": "KIND_MODEL"}]}, context()) == ("MODEL", "0")
