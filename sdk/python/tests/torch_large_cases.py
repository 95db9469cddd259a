"""BaseHandler and the imports for large models, on torch. Run by test_large_models.py, in a Python with torch."""

import json
import logging
import os
import socket
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from baton_worker import torchserve_base
from baton_worker.handler import Unusable
from baton_worker.torchserve_base import BaseHandler
from baton_worker.torchserve_large import TextIteratorStreamerBatch
from baton_worker.torchserve_pipeline import load_stage, split_points

EAGER = """
import torch


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.factor
"""


class Rows(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([row["body"] for row in data], device=self.device)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x * 2


def context_of(tmp_path, config=None, **model):
    return types.SimpleNamespace(
        model_yaml_config=config or {},
        manifest={"model": {"modelName": "small", **model}},
        system_properties={"model_dir": str(tmp_path), "gpu_id": None},
    )


def initialized(*args, **model):
    handler, context = Rows(), context_of(*args, **model)
    handler.initialize(context)
    assert handler.initialized and str(handler.device) == "cpu"
    return handler, context


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch finds a GPU")
def test_a_gpu_that_torch_does_not_find_is_named_in_the_log(tmp_path, caplog):
    torch.jit.script(Twice()).save(str(tmp_path / "small.pt"))
    handler, context = Rows(), context_of(tmp_path, serializedFile="small.pt")
    context.system_properties["gpu_id"] = 1
    handler.initialize(context)
    assert str(handler.device) == "cpu" and "not on GPU 1" in caplog.text


ASKED = [{"body": [1.0, 2.0]}, {"body": [3.0, 4.0]}]
ANSWER = [[2.0, 4.0], [6.0, 8.0]]


def test_an_eager_model_has_the_weights_of_its_state_dictionary(tmp_path):
    (tmp_path / "eager_twice.py").write_text(EAGER)
    torch.save({"factor": torch.tensor([2.0])}, tmp_path / "w.pt")
    (tmp_path / "index_to_name.json").write_text('{"0": "cat"}')
    handler, context = initialized(tmp_path, modelFile="eager_twice.py", serializedFile="w.pt")
    assert handler.handle(ASKED, context) == ANSWER and handler.mapping == {"0": "cat"} and not handler.model.training


def test_a_torchscript_model_is_loaded(tmp_path):
    torch.jit.script(Twice()).save(str(tmp_path / "m.pt"))
    handler, context = initialized(tmp_path, serializedFile="m.pt")
    assert handler.handle(ASKED, context) == ANSWER


def test_an_invalid_model_is_a_permanent_error(tmp_path):
    for model, why in (({}, "no serializedFile"), ({"serializedFile": "m.bin"}, "m.bin"), ({"serializedFile": "m.so"}, "aot_compile: true"), ({"modelFile": "gone.py"}, "gone.py")):
        with pytest.raises(Unusable, match=why):
            Rows().initialize(context_of(tmp_path, **model))


@pytest.mark.parametrize("pt2, is_compiled", [("eager", True), ({"backend": "eager"}, True), ({"compile": {"enable": True, "backend": "eager"}}, True),
                                              ({"compile": {"enable": False, "backend": "eager"}}, False), ({"backend": "no-such"}, False)])
def test_pt2_compiles_if_configured(tmp_path, monkeypatch, pt2, is_compiled):
    (tmp_path / "eager_twice.py").write_text(EAGER)
    torch.save({"factor": torch.tensor([2.0])}, tmp_path / "w.pt")
    asked, compile_model = [], torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **options: asked.append(options) or compile_model(model, **options))
    handler, context = initialized(tmp_path, {"pt2": pt2}, modelFile="eager_twice.py", serializedFile="w.pt")
    assert asked == ([{"backend": "eager"}] if is_compiled else [])
    assert handler.handle(ASKED, context) == ANSWER


def test_pt2_that_is_none_is_for_good(tmp_path):
    torch.jit.script(Twice()).save(str(tmp_path / "m.pt"))
    with pytest.raises(Unusable, match="pt2"):
        Rows().initialize(context_of(tmp_path, {"pt2": 3}, serializedFile="m.pt"))


@pytest.mark.parametrize("file, loads", [("m.so", "torch._export.aot_load"), ("m.pt2", "torch._inductor.aoti_load_package")])
def test_a_compiled_package_is_loaded_and_not_compiled_again(tmp_path, monkeypatch, file, loads):
    asked = []
    monkeypatch.setattr(loads, lambda *of: asked.append(of) or Twice(), raising=False)
    monkeypatch.setattr(torch, "compile", None)
    handler = Rows()
    context = context_of(tmp_path, {"pt2": {"export": {"aot_compile": True}}}, serializedFile=file)
    handler.initialize(context)
    assert asked == [(str(tmp_path / file), "cpu")[: 2 if file == "m.so" else 1]]
    assert handler.handle(ASKED, context) == ANSWER


def test_the_profiler_writes_a_trace(tmp_path, monkeypatch, caplog):
    torch.jit.script(Twice()).save(str(tmp_path / "m.pt"))
    handler, context = initialized(tmp_path, serializedFile="m.pt")
    monkeypatch.setenv("ENABLE_TORCH_PROFILER", "1")
    monkeypatch.setattr(torchserve_base, "PROFILES", str(tmp_path / "profiles"))
    with caplog.at_level(logging.INFO):
        assert handler.handle(ASKED, context) == ANSWER
    assert list((tmp_path / "profiles" / "small").glob("*.json")) and "inference" in caplog.text


class Layers(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.head = torch.nn.Linear(2, 2)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, size) for size in sizes)


def test_stages_are_cut_where_the_parameters_are_even():
    assert split_points(Layers([2] * 4), 2) == ["layers.2"]
    assert split_points(Layers([2] * 4), 4) == ["layers.1", "layers.2", "layers.3"]
    assert split_points(Layers([8, 2, 2, 2]), 2) == ["layers.1"]
    assert split_points(Layers([2, 2, 2, 80]), 2) == ["layers.3"]
    assert split_points(Layers([2] * 3), 1) == []
    with pytest.raises(ValueError, match="4 stages"):
        split_points(Layers([2] * 3), 4)


def test_a_stage_of_the_meta_device_takes_its_weights_of_the_files(tmp_path):
    with torch.device("meta"):
        stage = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    torch.manual_seed(3)
    weights = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)).state_dict()
    torch.save({k: v for k, v in weights.items() if k[0] == "0"}, tmp_path / "a.bin")
    torch.save({k: v for k, v in weights.items() if k[0] == "1"}, tmp_path / "b.bin")
    index = tmp_path / "index.json"
    index.write_text('{"weight_map": {"0.weight": "a.bin", "0.bias": "a.bin", "1.weight": "b.bin", "1.bias": "b.bin"}}')
    load_stage(stage, index)
    assert all(torch.equal(value, weights[name]) for name, value in stage.state_dict().items())
    index.write_text('{"weight_map": {"1.bias": "b.bin"}}')
    with torch.device("meta"):
        other = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="names no file for 0.bias"):
        load_stage(other, index)


def test_a_meta_tensor_missing_in_all_files_is_rejected(tmp_path):
    with torch.device("meta"):
        stage = torch.nn.Module()
        stage.register_buffer("frequencies", torch.ones(2), persistent=False)
    (tmp_path / "index.json").write_text('{"weight_map": {}}')
    with pytest.raises(ValueError, match="frequencies"):
        load_stage(stage, tmp_path / "index.json")
    with torch.device("meta"):
        stage.register_buffer("lifted_tensor_0", torch.ones(()))
    with pytest.raises(ValueError, match="lifted_tensor_0 is a constant .* make the model on the CPU"):
        load_stage(stage, tmp_path / "index.json")


def test_a_batch_is_streamed_row_by_row():
    pytest.importorskip("transformers")
    tokenizer = types.SimpleNamespace(decode=lambda ids, **_: "".join(f"w{int(i)} " for i in ids))
    streamer = TextIteratorStreamerBatch(tokenizer, batch_size=2, skip_prompt=True, timeout=20)
    with pytest.raises(ValueError, match="2 rows"):
        streamer.put(torch.zeros(3, 1))
    streamer.put(torch.tensor([[9, 9], [9, 9]]))  # the prompt
    streamer.put(torch.tensor([1, 3]))
    streamer.put(torch.tensor([2, 4]))
    streamer.end()
    reply = list(streamer)
    assert ["".join(step[row]["text"] for step in reply) for row in (0, 1)] == ["w1 w2 ", "w3 w4 "]


def test_generate_of_hugging_face_asks_the_pipeline():
    pytest.importorskip("transformers")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = Path(__file__).with_name("torch_generate_rank.py")
    ranks = []
    for rank in ("0", "1"):
        environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, str(script)], env={**os.environ, **environment}, stdout=subprocess.PIPE))
    try:
        reply, _ = ranks[0].communicate(timeout=280)
    finally:
        for one in ranks:
            one.kill()
            one.wait()
            one.stdout.close()
    piped, alone = json.loads(reply.splitlines()[-1])
    assert piped == alone and len(alone[0]) == 7
