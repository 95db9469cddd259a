"""TorchServe's imports for large models, our versions. The tests that need torch are in torch_large_cases.py, run by any Python that has
it."""

import importlib
import subprocess
import sys
import threading
import types

import pytest
from test_torchscript import HERE
from torch_python import environment, python_with_torch

from baton_worker import torchserve, torchserve_large
from baton_worker.handler import Unusable
from baton_worker.torchserve_base import BaseHandler, load_label_mapping
from baton_worker.torchserve_large import BaseDeepSpeedHandler, BasePippyHandler, MicroBatching, get_ds_engine
from baton_worker.torchserve_pipeline import get_pipeline_driver


class Steps(BaseHandler):
    def __init__(self):
        super().__init__()
        self.handle = MicroBatching(self, 2)
        self.seen = []

    def preprocess(self, data):
        self.seen.append((self.handle.get_micro_batch_idx(), list(data)))
        return [int(x) for x in data]

    def inference(self, data):
        if 13 in data:
            raise RuntimeError("as it was asked to")
        return [x * x for x in data]

    def postprocess(self, data):
        return [str(x) for x in data]


class Times:
    def __init__(self):
        self.metrics, self.added = self, []

    def add_time(self, name, value, idx, unit):
        self.added.append((name, unit))


def test_parts_of_a_batch_go_through_the_steps_and_come_back_in_order():
    handler, context = Steps(), Times()
    handler.handle.parallelism = {"inference": 3}
    assert handler.handle.parallelism == {"preprocess": 1, "inference": 3, "postprocess": 1}
    assert handler.handle(["1", "2", "3", "4", "5"], context) == ["1", "4", "9", "16", "25"]
    assert sorted(handler.seen) == [(0, ["1", "2"]), (1, ["3", "4"]), (2, ["5"])]
    assert context.added == [("HandlerTime", "ms")] and handler.handle.get_micro_batch_idx() is None
    with pytest.raises(RuntimeError, match="as it was asked to"):
        handler.handle(["1", "2", "3", "13"], context)
    assert handler.handle([], context) == []


def test_steps_run_beside_one_another():
    both = threading.Barrier(2, timeout=20)

    class Meets(Steps):
        def inference(self, data):
            both.wait()  # passes only if two parts run at once
            return data

    handler = Meets()
    handler.handle.parallelism = {"preprocess": 2, "inference": 2}
    assert handler.handle(["1", "2", "3", "4"], Times()) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("settings", [{"inference": 0}, {"predict": 1}, {"inference": "2"}])
def test_a_parallelism_that_is_none_is_refused(settings):
    with pytest.raises(ValueError, match="micro_batching.parallelism"):
        MicroBatching(Steps(), 1, settings)


def test_the_names_that_handlers_import_are_there():
    if torchserve.provide_ts():
        pytest.skip("TorchServe itself is installed")
    for name, members in torchserve_large.modules().items():
        module = importlib.import_module(name)
        for key, value in members.items():
            assert getattr(module, key) is value
    from ts.handler_utils.distributed.pt_pippy import get_pipline_driver

    assert get_pipline_driver is get_pipeline_driver


def context_of(config, directory="model"):
    return types.SimpleNamespace(model_name="m", model_yaml_config=config, system_properties={"model_dir": str(directory)})


def test_deepspeed_is_asked_with_the_files_that_the_config_names(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setitem(sys.modules, "deepspeed", types.SimpleNamespace(init_inference=lambda model, **settings: asked.update(settings, model=model) or "engine"))
    for name in ("a.bin", "b.pt", "c.json"):
        (tmp_path / name).write_text("{}")
    config = {"handler": {"model_path": str(tmp_path)}, "deepspeed": {"config": "c.json", "checkpoint": "checkpoints.json"}}
    assert get_ds_engine("model", context_of(config, tmp_path)) == "engine"
    assert asked == {"model": "model", "config": str(tmp_path / "c.json"), "base_dir": str(tmp_path), "checkpoint": str(tmp_path / "checkpoints.json")}
    assert f'"{tmp_path / "a.bin"}", "{tmp_path / "b.pt"}"' in (tmp_path / "checkpoints.json").read_text()
    for wrong, why in (({**config, "deepspeed": {"config": "gone.json"}}, "gone.json"), ({"handler": config["handler"]}, "no deepspeed")):
        with pytest.raises(ValueError, match=why):
            get_ds_engine("model", context_of(wrong, tmp_path))


def test_a_handler_of_deepspeed_has_the_device_of_its_rank(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    handler = BaseDeepSpeedHandler()
    handler.initialize(None)
    assert handler.device == 3


def test_without_torch_the_install_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for kind in (BaseHandler, BasePippyHandler):
        with pytest.raises(Unusable, match="pip install torch"):
            kind().initialize(context_of({}))


@pytest.mark.parametrize("config, why", [({}, "pippy.input_names"), ({"pippy": {"input_names": ["x"], "model_type": "HF"}}, "handler.model_path"),
                                         ({"pippy": {"input_names": ["x"]}, "handler": {"model_path": "."}}, "pippy.model_type"),
                                         ({"pippy": {"input_names": ["x"], "model_type": "HF"}, "handler": {"model_path": ".", "index_filename": "no.json"}},
                                          "no.json is no file")])
def test_a_pipeline_whose_keys_are_missing_is_refused_by_name(config, why):
    with pytest.raises(ValueError, match=why):
        get_pipeline_driver(None, 2, context_of(config))


def test_names_of_classes(tmp_path):
    file = tmp_path / "index_to_name.json"
    assert load_label_mapping(file) is None
    for text, names in (('{"0": "cat", "1": ["n1", "dog"]}', {"0": "cat", "1": "dog"}), ('{"object_type_names": ["a", "b"]}', {"0": "a", "1": "b"})):
        file.write_text(text)
        assert load_label_mapping(file) == names
    for text in ("[]", '{"0": 1}'):
        file.write_text(text)
        with pytest.raises(Unusable, match="index_to_name.json"):
            load_label_mapping(file)


def test_handlers_on_torch():
    python, why = python_with_torch("sympy")  # of torch.compile
    if python is None:
        pytest.skip(why)
    command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(HERE / "torch_large_cases.py")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]
    print(ended.stdout.splitlines()[-1])
