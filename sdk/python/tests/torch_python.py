"""Whatever Python of this machine has torch: BATON_TORCH_PYTHON, this one, or that of build/torch."""

import os
import subprocess
import sys
from pathlib import Path

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
