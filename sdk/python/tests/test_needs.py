"""Missing packages of a worker's Python are reported by name, with the command that installs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from baton_worker import check, needs, torchserve

SDK = Path(__file__).resolve().parents[1]
BARE = [sys.executable, "-S"]  # without its packages


def ended(*words, beside=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BATON_WORKER"))}
    if beside is not None:
        environment["PYTHONPATH"] = str(beside)
    return subprocess.run([*BARE, *map(str, words)], cwd=SDK, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def without_numpy(tmp_path):
    """A folder with only the packages that the SDK always needs."""
    import flatbuffers
    import zmq

    for module in (flatbuffers, zmq):
        home = Path(module.__file__).parent
        (tmp_path / home.name).symlink_to(home)
    libraries = Path(zmq.__file__).parents[1] / "pyzmq.libs"  # from a wheel
    if libraries.is_dir():
        (tmp_path / libraries.name).symlink_to(libraries)
    return tmp_path


LACKS = r"flatbuffers pyzmq are not installed for \S+: pip install sdk/python into its venv, or Debian's python3-flatbuffers python3-zmq"


@pytest.mark.parametrize("module", ["baton_worker", "baton_worker.torchserve", "baton_worker.triton", "baton_worker.onnx"])
def test_a_worker_ends_for_good_and_names_what_is_missing(module):
    done = ended("-m", module, "handler.py")
    assert done.returncode == 78, done.stderr
    assert re.match("baton_worker error " + LACKS, done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("module", ["baton_worker.triton", "baton_worker.onnx", "baton_worker.torchscript", "baton_worker.tensorflow"])
def test_so_does_one_without_numpy(module, without_numpy):
    done = ended("-m", module, "model.py", beside=without_numpy)
    assert done.returncode == 78, done.stderr
    assert re.match(r"baton_worker error numpy is not installed for \S+: pip install 'sdk/python\[numpy\]' into its venv", done.stderr.splitlines()[-1])


def test_any_other_program_gets_an_error_that_it_can_catch():
    done = ended("-c", "import baton_worker")
    assert done.returncode == 1 and re.match("ModuleNotFoundError: " + LACKS, done.stderr.splitlines()[-1]), done.stderr


def test_a_model_config_of_torchserve_needs_pyyaml(tmp_path, monkeypatch):
    (tmp_path / "model-config.yaml").write_text("minWorkers: 1\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ValueError, match=r"model-config.yaml cannot be read: PyYAML is not installed for .*: pip install 'sdk/python\[yaml\]' .*python3-yaml"):
        torchserve.read_yaml(str(tmp_path / "model-config.yaml"))


def test_a_python_is_checked_for_the_entry_points_that_it_runs(without_numpy, capsys):
    done = ended("-m", "baton_worker.check", "triton", "torchserve")
    assert done.returncode == 1 and done.stderr == ""
    assert re.match(r"flatbuffers pyzmq numpy PyYAML are not installed for \S+: pip install 'sdk/python\[numpy,yaml\]'", done.stdout), done.stdout
    assert (ended("-m", "baton_worker.check", beside=without_numpy).returncode, ended("-m", "baton_worker.check", "nothing").returncode) == (0, 2)
    assert ended("-m", "baton_worker.check", "torchserve", beside=without_numpy).returncode == 3  # a handler without model-config.yaml runs
    assert ended("-m", "baton_worker.check", "torchserve", "triton", beside=without_numpy).returncode == 1
    assert check.main([]) == 0 and capsys.readouterr().out == ""


def test_missing_generated_wire_code_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(needs, "WIRE", tmp_path / "none")
    assert needs.missing([]) == [needs.WIRE_WORDS] and "sdk/python/generate_wire.py" in needs.WIRE_WORDS
    with pytest.raises(ModuleNotFoundError, match="is not generated"):
        needs.need_sdk()


def test_the_extras_that_are_named_are_there():
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    extras = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for module, package in needs.PACKAGES.items():
        assert not package.extra or package.project in extras[package.extra], module
    for entry, modules in needs.WANTED.items():
        assert {needs.PACKAGES[m].project for m in modules} <= set(extras["torch" if entry == "torchscript" else entry])
