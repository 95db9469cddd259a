"""Settings are in pyproject.toml; this file only generates the wire code before packaging."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # isolated builds do not look here

from generate_wire import generate  # noqa: E402

generate()
setup()
