"""Clusters whose worker models come and go, for the tests of the model repository and of the model store."""
import os
import pathlib
import sys
import time
from unittest import mock

from harness import ROOT, Cluster

SDK = ROOT / "sdk" / "python"


class WithWorkers(Cluster):
    def start(self, wait=True):
        """The workers' python3 has the packages of this one, and finds the SDK."""
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        with mock.patch.dict(os.environ, PATH=path, PYTHONPATH=str(SDK)):
            return super().start(wait)

    def workers(self, model):
        return {p["name"]: p["pid"] for p in self.status()["processes"] if p["name"].startswith(f"worker-{model}-")}


def wait_for(condition, seconds=30, *about):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, [a() for a in about]
        time.sleep(0.05)
    return found
