"""Finds a Python of this machine with torch: BATON_TORCH_PYTHON, this one, or that of build/torch. Also for other packages."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def environment():
    """Appends our packages to that Python's path."""
    ours = [str(HERE.parent), *(path for path in sys.path if path.endswith("-packages"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(ours), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def python_with(package, *modules):
    """Its path, or the reason why there is none. `modules`: parts of the package that must be importable too."""
    variable = f"BATON_{package.upper()}_PYTHON"
    why = f"{package} is nowhere: set {variable}"
    for python in (os.environ.get(variable), sys.executable, str(ROOT / f"build/{package}/bin/python")):
        if not python or not os.access(python, os.X_OK):
            continue
        needs = f"import {', '.join(('flatbuffers', 'numpy', 'pytest', package, 'zmq', *modules))}"
        tried = subprocess.run([python, "-c", needs], env=environment(), capture_output=True, text=True, timeout=300)
        if tried.returncode == 0:
            return python, ""
        why = f"{python}: {tried.stderr.strip().splitlines()[-1]}"
    return None, why


def python_with_torch(*modules):
    return python_with("torch", *modules)
