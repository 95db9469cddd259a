"""PyTorch models as workers: torch_cases.py, run by any Python of this machine that has torch."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch_python import environment, python_with_torch

from baton_worker import Context, torchscript

HERE = Path(__file__).resolve().parent


def test_models_of_pytorch():
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(HERE / "torch_cases.py")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]
    print(ended.stdout.splitlines()[-1])


def test_without_torch_the_install_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"torch is not installed for .*: pip install 'sdk/python\[torch\]'"):
        torchscript.make(Context(model="m", version="1", name="w", batch_size=1, door="", options=[str(tmp_path / "model.pt")]))
