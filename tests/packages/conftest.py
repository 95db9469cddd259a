"""Tests of the packages that ./package makes, of the build that is tested."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "packages"), str(ROOT / "scripts"), str(ROOT / "tests/support")]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()


@pytest.fixture(scope="session")
def build():
    if not (BUILD / "cluster/cluster").exists():
        pytest.skip(f"{BUILD}/cluster/cluster is not built")
    return BUILD
