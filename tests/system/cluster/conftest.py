"""Clusters for the tests of this folder: one shared by all that leave it as it was, a fresh one for the others."""
import pytest
from harness import running


@pytest.fixture(scope="session")
def shared():
    with running() as cluster:
        yield cluster


@pytest.fixture
def fresh():
    with running() as cluster:
        yield cluster
