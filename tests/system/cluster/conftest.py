"""Clusters for the tests of this folder. Tests that leave a cluster unchanged share one; each of the others has a fresh one."""
import sys

import pytest
from harness import ROOT, running

sys.path.insert(0, str(ROOT / "sdk" / "python"))  # the SDK of this tree, for imports of baton_client
FOLDERS = [str(p) for p in sorted((ROOT / "tests/system/cluster").iterdir()) if p.is_dir()]
sys.path[:0] = FOLDERS  # tests share fixtures across the folders


@pytest.fixture(scope="session")
def shared():
    with running() as cluster:
        yield cluster


@pytest.fixture
def fresh():
    with running() as cluster:
        yield cluster
