"""PyTorch's models as workers: torch_cases.py, in whatever Python of this machine has torch (BATON_TORCH_PYTHON, this one, build/torch)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton_worker import Context, torchscript

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NEEDS = "import flatbuffers, numpy, pytest, torch, zmq"


def environment():
    """What that Python lacks of ours comes behind its own."""
    ours = [str(HERE.parent), *(path for path in sys.path if path.endswith("-packages"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(ours), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def python_with_torch():
    """It, or why there is none."""
    why = "torch is nowhere: set BATON_TORCH_PYTHON"
    for python in (os.environ.get("BATON_TORCH_PYTHON"), sys.executable, str(ROOT / "build/torch/bin/python")):
        if not python or not os.access(python, os.X_OK):
            continue
        tried = subprocess.run([python, "-c", NEEDS], env=environment(), capture_output=True, text=True, timeout=300)
        if tried.returncode == 0:
            return python, ""
        why = f"{python}: {tried.stderr.strip().splitlines()[-1]}"
    return None, why


def test_models_of_pytorch():
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(HERE / "torch_cases.py")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]
    print(ended.stdout.splitlines()[-1])


def test_a_python_without_torch_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="pip install torch"):
        torchscript.make(Context(model="m", version="1", name="w", batch_size=1, door="", options=[str(tmp_path / "model.pt")]))
