"""Clusters for the tests of this folder: one shared by all that leave it as it was, a fresh one for the others."""
import sys

import pytest
from harness import ROOT, running

sys.path.insert(0, str(ROOT / "sdk" / "python"))  # the SDK of this tree, for whoever imports baton_client


@pytest.fixture(scope="session")
def shared():
    with running() as cluster:
        yield cluster


@pytest.fixture
def fresh():
    with running() as cluster:
        yield cluster
