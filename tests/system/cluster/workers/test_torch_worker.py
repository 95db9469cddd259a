"""A model of PyTorch that a cluster serves, where a Python of this machine has torch (`./check gpu` installs one): over the SDK, and over KServe's HTTP."""
import http.client
import json
import struct
import subprocess
import sys

import pytest
from harness import ROOT, running
from test_workers import HANDLERS, SHIMMED, WithWorkers, table

sys.path.insert(0, str(ROOT / "sdk" / "python" / "tests"))

from baton_client import BatonError, Client, Tensor  # noqa: E402
from baton_client.tensors import pack_elements  # noqa: E402
from torch_python import environment, python_with_torch  # noqa: E402

MAKES = """
import sys
import torch


class AddSub(torch.nn.Module):
    def forward(self, INPUT0: torch.Tensor, INPUT1: torch.Tensor):
        return INPUT0 + INPUT1, INPUT0 - INPUT1


torch.jit.script(AddSub()).save(sys.argv[1])
"""
CONFIG = """
max_batch_size: 8
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 2 ] }]
output [{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ 2 ] }]
"""
TENSOR = '{{ name = "{}", datatype = "FP32", shape = [2] }}'


def floats(name, rows):
    flat = [x for row in rows for x in row]
    return Tensor(name, "FP32", [len(rows), 2], struct.pack(f"<{len(flat)}f", *flat))


def test_a_torchscript_model_is_served(tmp_path):
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    file = tmp_path / "add_sub" / "1" / "model.pt"
    file.parent.mkdir(parents=True)
    (tmp_path / "add_sub" / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "make.py").write_text(MAKES)  # torch reads the source of what it compiles
    subprocess.run([python, tmp_path / "make.py", file], env=environment(), check=True, timeout=300)
    command = ["env", f"PYTHONPATH={environment()['PYTHONPATH']}", python, "-m", "baton_worker.torchscript", str(file)]
    table = (f'[[workers]]\nname = "add_sub"\ncommand = {json.dumps(command)}\nbatch_size = 4\nmax_batch_size = 8\nplatform = "pytorch_libtorch"\n'
             f'inputs = [{TENSOR.format("INPUT0")}, {TENSOR.format("INPUT1")}]\n')
    with running(WithWorkers, workers=table) as c, Client(c.door, timeout=60) as client:
        c.wait_workers("add_sub", seconds=120)  # torch is read in
        reply = client.infer("add_sub", [floats("INPUT0", [[1, 2], [3, 4]]), floats("INPUT1", [[1, 1], [2, 2]])])
        assert {t.name: struct.unpack("<4f", t.data) for t in reply.outputs} == {"OUTPUT__0": (2, 3, 5, 6), "OUTPUT__1": (0, 1, 1, 2)}
        with pytest.raises(BatonError, match="INPUT1"):
            client.infer("add_sub", [floats("INPUT0", [[1, 2]])])
        inputs = [{"name": f"INPUT{n}", "datatype": "FP32", "shape": [1, 2], "data": [n + 1, 5]} for n in (0, 1)]
        connection = http.client.HTTPConnection("127.0.0.1", c.http_port, timeout=60)
        connection.request("POST", "/v2/models/add_sub/infer", json.dumps({"inputs": inputs}), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert {o["name"]: o["data"] for o in answer["outputs"]} == {"OUTPUT__0": [3, 10], "OUTPUT__1": [-1, 0]}


def test_a_loop_of_torch_asks_another_model_by_dlpack():
    """As users of Triton's Python backend write it: exec(), from_dlpack(output.to_dlpack()), softmax, top-p, multinomial."""
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    command = ["env", f"PYTHONPATH={environment()['PYTHONPATH']}", python, "-m", "baton_worker.triton", str(SHIMMED / "triton_torch_loop.py")]
    tables = table("lm", HANDLERS / "next_token.py") + f'[[workers]]\nname = "loop"\ncommand = {json.dumps(command)}\n'
    with running(WithWorkers, workers=tables) as c, Client(c.door, timeout=60) as client:
        c.wait_workers("lm")
        c.wait_workers("loop", seconds=120)
        inputs = [Tensor("input_ids", "INT64", [1, 2], struct.pack("<2q", 2, 3)), Tensor("top_p", "FP32", [1], struct.pack("<f", 0.9)),
                  Tensor("model_name", "BYTES", [1], pack_elements(["lm"]))]
        reply = client.infer("loop", inputs)
        ids = {t.name: t for t in reply.outputs}["output_ids"]
        assert (list(ids.shape), struct.unpack("<6q", ids.data)) == ([1, 6], (2, 3, 4, 5, 6, 7)) and reply.parameters == {"steps": 4}
