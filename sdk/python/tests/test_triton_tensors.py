"""Tensors of Triton's Python backend: DLPack, writable memory, devices; with numpy alone, and with torch (triton_torch_cases.py)."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from test_shims import Inferred, calling, floats, read, run, text, triton  # noqa: F401 (read is a fixture)
from torch_python import environment, python_with_torch

from baton_client import Tensor
from baton_client.tensors import NUMPY_NAMES

numpy = pytest.importorskip("numpy")
from baton_worker import dlpack  # noqa: E402
from baton_worker import triton as pb_utils  # noqa: E402

HERE = Path(__file__).resolve().parent


def test_models_that_use_torch():
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(HERE / "triton_torch_cases.py")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]


@pytest.mark.parametrize("datatype", NUMPY_NAMES)
def test_input_tensors_are_writable_and_convert_by_dlpack(datatype):
    came = Tensor.of("x", numpy.array([[0, 1, 1], [1, 0, 1]], NUMPY_NAMES[datatype]))
    tensor = pb_utils.Tensor.of_wire(came)
    tensor.as_numpy()[0, 0] = 1
    by_numpy = [] if datatype == "BOOL" else [numpy.from_dlpack(tensor)]  # numpy reads no bool before 1.25
    for back in (*by_numpy, pb_utils.Tensor.from_dlpack("x", tensor.to_dlpack()).as_numpy()):
        assert back.tolist() == [[1, 1, 1], [1, 0, 1]] and back.dtype == numpy.dtype(NUMPY_NAMES[datatype])
    other = pb_utils.Tensor.from_dlpack("y", tensor)
    other.as_numpy()[1, 1] = 1
    assert tensor.as_numpy()[1, 1] == 1  # one memory
    assert (other.name(), other.triton_dtype(), other.shape(), other.is_cpu(), other.__dlpack_device__()) == ("y", datatype, [2, 3], True, (1, 0))
    assert other.to_wire().numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    copied = pb_utils.Tensor.from_dlpack("z", tensor.__dlpack__(copy=True))
    tensor.as_numpy()[1, 1] = 0
    assert copied.as_numpy().tolist() == [[1, 1, 1], [1, 1, 1]]


def test_bfloat16_crosses_and_has_no_numpy():
    came = Tensor("x", "BF16", [2, 1], b"\x80\x3f\x00\x40")
    tensor = pb_utils.Tensor.from_dlpack("y", pb_utils.Tensor.of_wire(came).to_dlpack())
    assert (tensor.triton_dtype(), tensor.shape(), tensor.to_wire().data) == ("BF16", [2, 1], came.data)
    described = dlpack._tensor_of(capsule := tensor.to_dlpack())
    assert (described.code, described.bits, described.lanes) == (4, 16, 1) and capsule
    with pytest.raises(pb_utils.TritonModelException, match="BF16 and cannot be converted to NumPy"):
        tensor.as_numpy()
    with pytest.raises(ValueError):
        pb_utils.Tensor.of_wire(Tensor("x", "BF16", [2], b"\x80\x3f"))


def test_tensors_made_from_arrays():
    turned = numpy.arange(6, dtype="int32").reshape(2, 3).T
    tensor = pb_utils.Tensor("x", turned)
    assert tensor.as_numpy().flags.c_contiguous and numpy.from_dlpack(tensor).tolist() == turned.tolist()
    fixed = numpy.frombuffer(b"\0\0\0\1", "u1")
    assert numpy.from_dlpack(pb_utils.Tensor("x", fixed)).tolist() == [0, 0, 0, 1]
    assert pb_utils.Tensor("x", [1.5, 2]).triton_dtype() == "FP64" and pb_utils.Tensor("x", numpy.float32(3)).shape() == []
    assert numpy.from_dlpack(pb_utils.Tensor("x", numpy.zeros((0, 4), "float32"))).shape == (0, 4)


class Odd:
    def __init__(self, device):
        self.device = device

    def __dlpack__(self, stream=None):
        raise AssertionError("nobody asks")

    def __dlpack_device__(self):
        return self.device


def consumed():
    capsule = numpy.zeros(2).__dlpack__()
    pb_utils.Tensor.from_dlpack("x", capsule)
    return capsule


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: pb_utils.Tensor("x", numpy.array(["text"], object)).to_dlpack(), "DLPack does not have support for string tensors."),
        (lambda: pb_utils.Tensor("x", numpy.zeros(2, "complex64")), "no datatype for complex64"),
        (lambda: pb_utils.Tensor.from_dlpack("x", numpy.zeros(2, "complex64")), "no datatype for complex64"),
        (lambda: pb_utils.Tensor("", numpy.zeros(2)), "Tensor name cannot be an empty string."),
        (lambda: pb_utils.Tensor.from_dlpack("", numpy.zeros(2)), "Tensor name cannot be an empty string."),
        (lambda: pb_utils.Tensor.from_dlpack("x", [1, 2]), "a list is not supported: a tensor is a DLPack capsule, or has `__dlpack__`"),
        (lambda: pb_utils.Tensor.from_dlpack("x", numpy.zeros((3, 2)).T), "DLPack tensor is not contiguous. Only contiguous"),
        (lambda: pb_utils.Tensor.from_dlpack("x", Odd((10, 0))), "DLDevice type 10 is not supported"),
        (lambda: pb_utils.Tensor.from_dlpack("x", Odd((2, 0))), "a tensor on a GPU is read by torch or cupy"),
        (lambda: pb_utils.Tensor.from_dlpack("x", consumed()), "the DLPack capsule was read before"),
        (lambda: pb_utils.Tensor.from_dlpack("x", __import__("datetime").datetime_CAPI), "the capsule is not one of DLPack"),
    ],
)
def test_an_invalid_tensor_is_rejected(make, why):
    with pytest.raises(pb_utils.TritonModelException) as refused:
        make()
    assert why in str(refused.value)


class OnGpu:
    """Behaves like torch's CUDA tensors, as far as the code uses them."""

    shape = (2,)

    def __init__(self, array, waited):
        self.array, self.waited = array, waited

    def __dlpack__(self, stream=None):
        return ("capsule", stream)

    def __dlpack_device__(self):
        return 2, 1

    def contiguous(self):
        return self

    def cpu(self):
        return self.array


def test_a_tensor_on_a_gpu_stays_there_until_it_is_sent(monkeypatch):
    waited = []
    torch = types.ModuleType("torch")
    torch.from_dlpack = lambda source: source
    torch.cuda = types.SimpleNamespace(synchronize=waited.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = pb_utils.Tensor.from_dlpack("x", OnGpu(numpy.array([1, 2], "float32"), waited))
    assert (tensor.is_cpu(), tensor.shape(), tensor.__dlpack_device__(), tensor.to_dlpack(), waited) == (False, [2], (2, 1), ("capsule", None), [1])
    with pytest.raises(pb_utils.TritonModelException, match="Tensor is stored in GPU and cannot be converted to NumPy."):
        tensor.as_numpy()
    assert (tensor.triton_dtype(), tensor.to_wire()) == ("FP32", Tensor.of("x", numpy.array([1, 2], "float32")))


def test_outputs_that_no_gpu_takes_are_on_the_cpu(monkeypatch, caplog):
    from baton_worker import triton_calls

    monkeypatch.setattr(triton_calls, "_has_logged_no_gpu", False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    _, called = calling(monkeypatch, "triton_bls.py", other=[Inferred(outputs=[floats("OUT", 2), text("SAID", "x")])])
    for _ in range(2):
        asked = pb_utils.InferenceRequest(
            model_name=b"other",
            requested_output_names=[b"OUT"],
            inputs=[pb_utils.Tensor("IN", numpy.zeros(1))],
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0),
        )
        reply = asked.exec().output_tensors()
        assert [t.is_cpu() for t in reply] == [True, True] and reply[0].as_numpy().tolist() == [2]
    assert [(model, answer["outputs"]) for model, _, answer in called.asked] == [("other", ["OUT"])] * 2
    assert [r.getMessage() for r in caplog.records if "preferred_memory" in r.getMessage()] == [
        "preferred_memory: the model has not imported torch, or torch finds no GPU 0: outputs are on the CPU"
    ]
    with pytest.raises(TypeError):
        pb_utils.PreferredMemory(1)


MODEL = '''
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        config = auto_complete_model_config.as_dict()
        for kind, add in (("input", auto_complete_model_config.add_input), ("output", auto_complete_model_config.add_output)):
            if "X" not in [one["name"] for one in config[kind]]:
                add({"name": "X", "data_type": "TYPE_FP32", "dims": [4]})
        auto_complete_model_config.set_max_batch_size(4)
        return auto_complete_model_config

    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.rows, self.parameters = self.config["max_batch_size"], self.config["parameters"]

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            x += self.rows
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("X", x)], parameters={"model": self.config["name"], "rows": self.rows}))
        return responses
'''


def test_a_model_without_a_config_that_writes_into_what_it_is_given(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    handler = triton(str(tmp_path / "model.py"))
    broken = {"inputs": [Tensor("X", "FP32", [2], b"1")]}
    (_, first), (_, second), (_, third) = run(handler, {"inputs": [floats("X", 1)]}, broken, {"inputs": [floats("X", 2)]})
    assert [p.outputs[0].numpy().tolist() for p in (first, third)] == [[5], [6]] and first.parameters == {"model": "m", "rows": 4}
    assert second.failure.name == "invalid_request"  # alone
    assert run(handler, broken)[0][1].failure.name == "invalid_request"


def test_a_model_imports_what_lies_beside_it_as_in_triton(tmp_path, caplog):
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text("from .near_model import factor\nimport near_versions\n" + MODEL.replace("x += self.rows", "x += factor * near_versions.factor")
                                      + "\n    def is_ready(self):\n        return True\n")
    (version / "near_model.py").write_text("factor = 2\n")
    (tmp_path / "m" / "near_versions.py").write_text("factor = 3\n")
    (tmp_path / "m" / "config.pbtxt").write_text('parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "env.tar.gz" } }')
    ((_, piece),) = run(triton(str(version / "model.py")), {"inputs": [floats("X", 1)]})
    assert piece.outputs[0].numpy().tolist() == [7]
    answer = [r.getMessage() for r in caplog.records]
    assert any("EXECUTION_ENV_PATH is not used" in word for word in answer) and any(word.startswith("is_ready of the model is not asked") for word in answer)


def test_an_answer_that_cannot_be_sent_costs_its_own_request(tmp_path):
    (tmp_path / "model.py").write_text(MODEL.replace('pb_utils.Tensor("X", x)', 'pb_utils.Tensor("X", np.array(["\\udc80" if x[0] > 5 else 5, b"x", 1.5], object))'))
    (_, first), (_, second) = run(triton(str(tmp_path / "model.py")), {"inputs": [floats("X", 1)]}, {"inputs": [floats("X", 2)]})
    assert first.outputs[0].numpy().tolist() == [b"5", b"x", b"1.5"] and second.failure.name == "handler_failed"


def test_what_pb_utils_cannot_do_says_why():
    for call in (lambda: pb_utils.load_model("m"), lambda: pb_utils.unload_model(model_name="m"), lambda: pb_utils.is_model_ready("m", "1")):
        with pytest.raises(pb_utils.TritonModelException, match="a model cannot load others here"):
            call()
    with pytest.raises(pb_utils.TritonModelException, match="cannot be rescheduled"):
        pb_utils.ReceivedRequest.set_release_flags(None, pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
    for missing in ({"model_name": "m", "inputs": []}, {"model_name": "m", "requested_output_names": []}, {"inputs": [], "requested_output_names": []}):
        with pytest.raises(TypeError, match="is missing"):
            pb_utils.InferenceRequest(**missing)
    with pytest.raises(pb_utils.TritonModelException, match="parameters are a dict"):
        pb_utils.InferenceResponse([], parameters=json.dumps({}))


def test_texts_are_packed_and_datatypes_numbered_as_in_triton():
    packed = pb_utils.serialize_byte_tensor(numpy.array([b"ab", "c", 7], dtype=object))
    assert packed == b"\x02\0\0\0ab\x01\0\0\0c\x01\0\0\x007"
    assert pb_utils.deserialize_bytes_tensor(packed).tolist() == [b"ab", b"c", b"7"] and pb_utils.deserialize_bytes_tensor(b"").shape == (0,)
    assert pb_utils.serialize_byte_tensor(numpy.array([], dtype=object)) == () and pb_utils.serialize_byte_tensor(numpy.zeros(1)) is None
    with pytest.raises(pb_utils.TritonModelException):
        pb_utils.deserialize_bytes_tensor(b"\x09\0\0\0a")
    for number in range(1, 14):
        assert pb_utils.numpy_to_triton_type(pb_utils.triton_to_numpy_type(number)) == number
    assert pb_utils.numpy_to_triton_type(numpy.bytes_) == 13 and pb_utils.triton_to_numpy_type(99) is None


RESHAPED = """
max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [ -1, 2 ] reshape { shape: [ 2, -1 ] } }, { name: "ONE" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 2, 2 ] } }]
"""
SHAPE_MODEL = '''
import numpy, triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        def answer(request):
            shapes = [t.shape() for t in request.inputs()]
            seen = pb_utils.Tensor("SHAPES", numpy.array([str(shapes)], dtype=object))
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", numpy.zeros(OUT, "float32")), seen])
        return [answer(one) for one in requests]
'''


def test_reshape_of_a_config_is_between_client_and_model(tmp_path):
    (tmp_path / "config.pbtxt").write_text(RESHAPED)
    (tmp_path / "model.py").write_text(SHAPE_MODEL.replace("OUT, ", "(3, 2, 2), "))
    handler = triton(str(tmp_path / "model.py"), "--config", str(tmp_path / "config.pbtxt"))
    ask = lambda shape: {"inputs": [Tensor.of("IN", numpy.zeros(shape, "float32")), Tensor.of("ONE", numpy.zeros((3, 1), "float32"))]}  # noqa: E731
    (_, right), (_, wrong) = run(handler, ask((3, 5, 2)), ask((3, 5, 3)))
    assert right.outputs[1].numpy().tolist() == [b"[[3, 2, 5], [3]]"] and list(right.outputs[0].shape) == [3, 4]
    assert "the shape [5, 3] of 'IN'" in wrong.failure.message
    (tmp_path / "model.py").write_text(SHAPE_MODEL.replace("OUT, ", "(3, 4), "))
    ((_, other),) = run(triton(str(tmp_path / "model.py"), "--config", str(tmp_path / "config.pbtxt")), ask((3, 5, 2)))
    assert "'OUT'" in other.failure.message
