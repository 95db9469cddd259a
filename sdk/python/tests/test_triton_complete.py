"""The part of config.pbtxt that a model.py completes, asked by a process of its own."""

import subprocess
import sys

import pytest
from baton_worker import pbtxt

pytest.importorskip("numpy")

MODEL = """
import triton_python_backend_utils as pb_utils
print("printed by the model")


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        BODY
        return config
"""


def last_line(tmp_path, body, config=None):
    file = tmp_path / "m" / "1" / "model.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(MODEL.replace("BODY", body.replace("\n", "\n        ")))
    (tmp_path / "m" / "config.pbtxt").write_text(config) if config is not None else None
    done = subprocess.run([sys.executable, "-m", "baton_worker.triton_complete", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_fields_that_the_hook_sets(tmp_path):
    set_all = """config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [2, -1]})
config.add_output({"name": 'O"', "data_type": "TYPE_STRING", "dims": [1], "optional": True})
config.set_max_batch_size(4)
config.set_dynamic_batching()
config.set_model_transaction_policy({"decoupled": True})"""
    status, _, fields = last_line(tmp_path, set_all).partition(" ")
    assert status == "completed"
    assert pbtxt.parse(fields) == {
        "max_batch_size": 4,
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [2, -1]}],
        "output": [{"name": 'O"', "data_type": "TYPE_STRING", "dims": [1], "optional": True}],
        "dynamic_batching": {},
        "model_transaction_policy": {"decoupled": True},
    }


def test_fields_of_config_pbtxt_are_not_repeated(tmp_path):
    config = 'max_batch_size: 4 dynamic_batching { } input { name: "IN" data_type: TYPE_FP32 }'
    body = """assert config.as_dict()["max_batch_size"] == 4
config.set_max_batch_size(4)
config.set_dynamic_batching()
config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [2]})"""
    assert last_line(tmp_path, body, config) == 'completed input { name: "IN" data_type: "TYPE_FP32" dims: 2 }'


def test_a_model_that_fails_and_one_that_lacks_a_package(tmp_path):
    assert last_line(tmp_path, "config.set_max_batch_size(2)", "max_batch_size: 8").startswith("failed ValueError: config.pbtxt says max_batch_size 8")
    assert last_line(tmp_path, "raise KeyError('a\\nb')") == "failed KeyError: 'a\\nb'"
    assert last_line(tmp_path, "import a_package_that_is_absent") == "unable No module named 'a_package_that_is_absent'"
    assert last_line(tmp_path, "return None").startswith("failed ValueError: auto_complete_config returns")
