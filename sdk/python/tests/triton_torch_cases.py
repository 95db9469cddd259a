"""Models of Triton's Python backend that use torch. Run by test_triton_tensors.py, in a Python with torch."""

import numpy
import pytest
import torch
from test_shims import MODELS, Called, read, run, text, triton  # noqa: F401 (read is a fixture)
from torch.utils.dlpack import from_dlpack, to_dlpack

from baton_client import Tensor
from baton_client.inference import Inferred
from baton_worker import Context
from baton_worker import triton as pb_utils

TYPES = [torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.bfloat16]


class Counting(Called):
    """Logits whose most likely token is one more than the last token."""

    def infer_stream(self, model, inputs, **answer):
        ids = inputs[0].numpy()
        logits = numpy.full((1, 16), -8.0, "float16")
        logits[0, (ids[0, -1] + 1) % 16] = 8
        self.answers = {model: [Inferred(outputs=[Tensor.of("logits", logits)])]}
        return super().infer_stream(model, inputs, **answer)


def test_the_usual_loop(monkeypatch):
    handler = triton(str(MODELS / "triton_torch_loop.py"))
    called = Counting()
    monkeypatch.setattr(Context, "client", lambda self: called)
    given = [Tensor.of("input_ids", numpy.array([[2, 3]], "int64")), Tensor.of("top_p", numpy.array([0.9], "float32")), text("model_name", "lm")]
    ((_, piece),) = run(handler, {"inputs": given})
    assert piece.outputs[0].numpy().tolist() == [[2, 3, 4, 5, 6, 7]] and piece.outputs[1].numpy().tolist() == [0]
    assert [(model, answer["outputs"]) for model, _, answer in called.asked] == [("lm", ["logits"])] * 4
    assert piece.parameters == {"steps": 4}


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_of_torch_cross_both_ways(dtype):
    ours = torch.ones([100], dtype=dtype)
    for source in (to_dlpack(ours), ours):
        tensor = pb_utils.Tensor.from_dlpack("x", source)
        for back in (from_dlpack(tensor.to_dlpack()), from_dlpack(tensor), torch.from_dlpack(tensor)):
            assert back.dtype == dtype and torch.equal(back, ours)
            back[0] = 0
            assert ours[0] == 0  # one memory
            back[0] = 1
        again = pb_utils.Tensor.of_wire(tensor.to_wire())
        assert torch.equal(from_dlpack(again.to_dlpack()), ours)
        if dtype != torch.bfloat16:
            assert numpy.array_equal(tensor.as_numpy(), ours.numpy()) and tensor.as_numpy().flags.writeable


def test_a_tensor_that_is_not_contiguous_is_rejected():
    turned = torch.rand([20, 30]).transpose(0, 1)
    with pytest.raises(pb_utils.TritonModelException, match="DLPack tensor is not contiguous. Only contiguous"):
        pb_utils.Tensor.from_dlpack("x", turned)
    with pytest.raises(pb_utils.TritonModelException, match="is not contiguous"):
        pb_utils.Tensor.from_dlpack("x", to_dlpack(turned))
    assert pb_utils.Tensor.from_dlpack("x", torch.rand([1, 5, 1]).transpose(0, 2)).shape() == [1, 5, 1]
    assert pb_utils.Tensor.from_dlpack("x", torch.zeros([3, 0])).shape() == [3, 0]


def test_an_array_outlives_its_tensor():
    back = from_dlpack(pb_utils.Tensor.of_wire(Tensor.of("x", numpy.arange(1000, dtype="int32"))).to_dlpack())
    numpy.zeros(1000, "int32")
    assert back.tolist() == list(range(1000))
    tensor = pb_utils.Tensor.from_dlpack("x", torch.arange(1000))
    torch.zeros(1000)
    assert tensor.as_numpy().tolist() == list(range(1000))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
def test_tensors_on_a_gpu():
    ours = torch.ones([100], dtype=torch.float16, device="cuda")
    tensor = pb_utils.Tensor.from_dlpack("x", to_dlpack(ours))
    assert not tensor.is_cpu() and tensor.__dlpack_device__() == ours.__dlpack_device__() and tensor.shape() == [100]
    with pytest.raises(pb_utils.TritonModelException, match="Tensor is stored in GPU"):
        tensor.as_numpy()
    assert torch.equal(from_dlpack(tensor.to_dlpack()), ours) and torch.equal(from_dlpack(tensor), ours)
    assert tensor.to_wire().numpy().tolist() == [1] * 100
    there = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0).moved(pb_utils.Tensor("x", numpy.ones(3, "float32")))
    assert not there.is_cpu() and there.to_wire().numpy().tolist() == [1, 1, 1]
