"""A pytest plugin: on a slow or busy machine it multiplies all deadlines in tests by one factor (deadline_scale.py). With a factor of 1 it
changes nothing.

A test can wait in two ways. It can pass a timeout to the standard library, for a process, a socket, a queue, an event or a thread. The
plugin multiplies it there, and in clients with a wait of their own. Or it can read time.monotonic() itself: the test modules, and no
others, get a slower clock. A deliberate pause (`seconds < DEADLINE_FROM`) stays as it is, and the code under test keeps the real clock.
A test that asserts a minimum time reads time.perf_counter()."""
import functools
import importlib
import pathlib
import queue
import socket
import subprocess
import sys
import threading
import time
import types

import deadline_scale

DEADLINE_FROM = 5  # seconds; a smaller value is a pause that is meant to pass
ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_TESTS = tuple(ROOT / folder for folder in ("tests/bench", "tests/docs", "tests/system", "tests/tools", "sdk/python/tests"))
# (class, method, the position of its seconds; self is 0)
WAITS = ((subprocess.Popen, "wait", 1), (subprocess.Popen, "communicate", 2), (socket.socket, "settimeout", 1), (queue.Queue, "get", 2),
         (threading.Event, "wait", 1), (threading.Thread, "join", 1))
# Clients with a wait of their own: module, class, methods, position. Only the Python in .venv has them.
OF_CLIENTS = (("websockets.sync.connection", "Connection", ("recv",), 1), ("grpc._channel", "_UnaryUnaryMultiCallable", ("__call__", "with_call", "future"), 2),
              ("grpc._channel", "_SingleThreadedUnaryStreamMultiCallable", ("__call__",), 2), ("grpc._channel", "_UnaryStreamMultiCallable", ("__call__",), 2),
              ("grpc._channel", "_StreamUnaryMultiCallable", ("__call__", "with_call", "future"), 2),
              ("grpc._channel", "_StreamStreamMultiCallable", ("__call__",), 2))


def longer(seconds, scale):
    return seconds * scale if isinstance(seconds, (int, float)) and seconds >= DEADLINE_FROM else seconds


def wrapped(method, position, scale):
    """`method` with its seconds multiplied, by position or as `timeout`."""

    @functools.wraps(method)
    def waits(*given, **named):
        if len(given) > position:
            given = (*given[:position], longer(given[position], scale), *given[position + 1 :])
        elif "timeout" in named:
            named["timeout"] = longer(named["timeout"], scale)
        return method(*given, **named)

    return waits


def waits_of_clients():
    """Entries as in WAITS for those that are installed."""
    for module, kind, methods, position in OF_CLIENTS:
        try:
            found = getattr(importlib.import_module(module), kind)
        except ImportError:
            continue
        yield from ((found, method, position) for method in methods)


def slow_clock(scale):
    """The module `time` with a monotonic() in which one second takes `scale` seconds."""
    clock = types.ModuleType("time")
    clock.__dict__.update(time.__dict__)
    clock.monotonic = lambda: time.monotonic() / scale
    return clock


def is_of_tests(module):
    file = getattr(module, "__file__", None)
    return bool(file) and any(directory in pathlib.Path(file).resolve().parents for directory in OF_TESTS)


def give_clock(clock):
    for name, module in list(sys.modules.items()):
        if name != __name__ and vars(module).get("time") is time and is_of_tests(module):
            module.time = clock


class Stretched:
    def __init__(self, scale):
        self._clock = slow_clock(scale)

    def pytest_collection_finish(self):
        give_clock(self._clock)

    def pytest_runtest_setup(self):
        give_clock(self._clock)  # modules imported by a test


def pytest_configure(config):
    scale = deadline_scale.scaled(1)
    if scale == 1:
        return
    for kind, name, position in (*WAITS, *waits_of_clients()):
        setattr(kind, name, wrapped(getattr(kind, name), position, scale))
    config.pluginmanager.register(Stretched(scale))
