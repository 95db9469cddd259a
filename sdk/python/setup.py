"""Everything is in pyproject.toml; here only: the wire code is generated before it is packed."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # isolated builds do not look here

from generate_wire import generate  # noqa: E402

generate()
setup()
