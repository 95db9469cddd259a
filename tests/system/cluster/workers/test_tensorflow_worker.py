"""A SavedModel of TensorFlow in a model repository, where a Python of this machine has tensorflow (BATON_TENSORFLOW_PYTHON): completed of its signature, and asked by Triton's client."""
import os
import pathlib
import subprocess
import sys
from unittest import mock

import harness
import numpy as np
import pytest
import tritonclient.http as triton_http
from harness import Cluster
from test_model_repository import WithRepository
from worker_models import SDK

sys.path.insert(0, str(SDK / "tests"))

from torch_python import environment, python_with  # noqa: E402

MAKES = """
import sys
import tensorflow


class AddSub(tensorflow.Module):
    @tensorflow.function(input_signature=[tensorflow.TensorSpec([None, 2], tensorflow.float32, name) for name in ("INPUT0", "INPUT1")])
    def serve(self, INPUT0, INPUT1):
        return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}


module = AddSub()
tensorflow.saved_model.save(module, sys.argv[1], signatures=module.serve)
"""


class WithTensorFlow(WithRepository):
    """The python3 of its workers has tensorflow."""

    def __init__(self, directory, python, **options):
        self.python = python
        super().__init__(directory, **options)

    def start(self, wait=True):
        place = pathlib.Path(self.directory) / "bin"
        place.mkdir(exist_ok=True)
        if not (place / "python3").exists():
            (place / "python3").write_text(f'#!/bin/sh\nexec {self.python} "$@"\n')
            (place / "python3").chmod(0o755)
        with mock.patch.dict(os.environ, PATH=f"{place}{os.pathsep}{os.environ['PATH']}", PYTHONPATH=environment()["PYTHONPATH"]):
            return Cluster.start(self, wait)


def test_a_saved_model_is_completed_of_its_signature_and_served():
    python, why = python_with("tensorflow")
    if python is None:
        pytest.skip(why)
    with harness.running(WithTensorFlow, python=python, section='control_mode = "explicit"\nload_models = []\n') as c:
        place = c.models / "add_sub" / "1" / "model.savedmodel"
        place.parent.mkdir(parents=True)
        (pathlib.Path(c.directory) / "make.py").write_text(MAKES)
        subprocess.run([python, pathlib.Path(c.directory) / "make.py", place], env=environment(), check=True, timeout=300)
        with triton_http.InferenceServerClient(c.url.removeprefix("http://"), connection_timeout=200, network_timeout=200) as client:
            client.load_model("add_sub")
            reply = client.get_model_config("add_sub")
            assert (reply["platform"], reply["backend"], reply["default_model_filename"], reply["max_batch_size"]) == ("tensorflow_savedmodel", "tensorflow", "model.savedmodel", 4)
            assert [(t["name"], t["data_type"], t["dims"]) for t in reply["input"]] == [("INPUT0", "TYPE_FP32", [2]), ("INPUT1", "TYPE_FP32", [2])]
            assert client.get_model_metadata("add_sub")["platform"] == "tensorflow_savedmodel"
            inputs = [triton_http.InferInput(name, [1, 2], "FP32") for name in ("INPUT0", "INPUT1")]
            for one, values in zip(inputs, (3, 1)):
                one.set_data_from_numpy(np.full([1, 2], values, np.float32))
            answer = client.infer("add_sub", inputs)
            assert (answer.as_numpy("OUTPUT0").tolist(), answer.as_numpy("OUTPUT1").tolist()) == ([[4, 4]], [[2, 2]])
