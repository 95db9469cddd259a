"""On a slow machine every deadline of a test is longer by one factor, wherever a test states it."""
import inspect
import os
import pathlib
import socket
import subprocess
import sys

import deadline_scale
import pytest
import scaled_deadlines

SUPPORT = pathlib.Path(deadline_scale.__file__).parent


@pytest.mark.parametrize("seconds, scale", [(0.1, 1), (0.6, 1), (0.74, 1), (0.9, 1.5), (6, 10), (60, 20)])
def test_the_factor_of_a_machine(seconds, scale):
    assert deadline_scale.scale_of(seconds, reference=0.6) == pytest.approx(scale)


@pytest.mark.parametrize("text, scale", [("2.5", 2.5), ("0.3", 1), ("-1", 1), ("nan", 1), ("1e9", 20), ("slow", 1), ("", 1), (None, 1)])
def test_the_configured_factor(text, scale):
    assert deadline_scale.told(text) == scale


def test_it_is_measured_once(monkeypatch):
    environment = {}
    monkeypatch.setattr(deadline_scale, "probe", lambda: 3 * deadline_scale.REFERENCE_SECONDS)
    assert deadline_scale.measured(environment) == 3
    monkeypatch.setattr(deadline_scale, "probe", None)
    assert deadline_scale.measured(environment) == 3 and deadline_scale.measured({deadline_scale.VARIABLE: "1.5"}) == 1.5


def test_the_probe_ends():
    assert 0 < deadline_scale.probe() <= deadline_scale.PROBE_SECONDS_MAX


def test_deadlines_are_multiplied_and_pauses_are_not():
    taken = []
    waits = scaled_deadlines.wrapped(lambda self, data=None, timeout=None: taken.append((data, timeout)), 2, 3)
    waits("self")
    waits("self", "data", 20)
    waits("self", timeout=5)
    waits("self", timeout=0.5)
    waits("self", "data", timeout=None)
    assert taken == [(None, None), ("data", 60), (None, 15), (None, 0.5), ("data", None)]


@pytest.mark.parametrize("kind, name, position", [*scaled_deadlines.WAITS, *scaled_deadlines.waits_of_clients()], ids=lambda v: getattr(v, "__name__", str(v)))
def test_every_wait_has_its_seconds_where_they_are_looked_for(kind, name, position):
    if kind is socket.socket:
        return  # a method in C, of one argument
    parameters = list(inspect.signature(getattr(kind, name)).parameters)
    assert parameters.index("timeout") == position


def test_the_clients_that_wait_by_themselves_are_found():
    assert {kind.__module__ for kind, _, _ in scaled_deadlines.waits_of_clients()} == {"websockets.sync.connection", "grpc._channel"}


TEST = '''
import queue, socket, subprocess, threading, time
import pytest
import slow_place

def test_it():
    begun = time.perf_counter()
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.perf_counter() - begun >= 0.2 * SCALE - 0.05
    assert slow_place.time.monotonic is not time.monotonic  # code under test keeps its clock
    with socket.socket() as s:
        s.settimeout(20)
        assert s.gettimeout() == 20 * SCALE
        s.settimeout(1)
        assert s.gettimeout() == 1
'''


@pytest.mark.parametrize("scale", [1, 3])
def test_a_test_waits_longer(scale, tmp_path):
    """In a copy of the plugin's place, so that the test counts as one of the tree's."""
    tests = tmp_path / "tests/system"
    (tmp_path / "tests/support").mkdir(parents=True)
    tests.mkdir()
    for name in ("deadline_scale.py", "scaled_deadlines.py"):
        (tmp_path / "tests/support" / name).write_text((SUPPORT / name).read_text())
    (tmp_path / "code").mkdir()
    (tmp_path / "code/slow_place.py").write_text("import time\n")
    text = TEST if scale > 1 else TEST.replace("is not time.monotonic", "is time.monotonic")
    (tests / "test_it.py").write_text(text.replace("SCALE", str(scale)))
    env = {**os.environ, deadline_scale.VARIABLE: str(scale), "PYTHONPATH": f"{tmp_path}/tests/support:{tmp_path}/code"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "scaled_deadlines", "-p", "no:cacheprovider", tests / "test_it.py"],
                          cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
