"""A real gateway in front of a fake head. Tests that need their own flags have their own process, and
all others share one. The binary is found in the newest build, or named by BATON_GATEWAY_FIXTURE."""

import hashlib
import json
import os
import pathlib
import queue
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def binary():
    named = os.environ.get("BATON_GATEWAY_FIXTURE")
    if named:
        return named
    built = sorted(ROOT.glob("build/*/tests/system/doors/gateway_fixture"),
                   key=lambda p: p.stat().st_mtime)
    if not built:
        pytest.exit("gateway_fixture is not built", 2)
    return str(built[-1])


class Gateway:
    def __init__(self, *flags):
        build = pathlib.Path(binary()).parents[3]
        self.process = subprocess.Popen([binary(), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={"BATON_DOORS": str(build / "cluster" / "doors"), **os.environ})
        self.events = queue.Queue()
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()
        first = self.wait_for("ready", "failed")
        self.is_ready = first["event"] == "ready"
        self.failure = first.get("code")
        self.message = first.get("message")
        self.admin = first.get("admin")
        self.ollama = first.get("ollama")
        self.torchserve = first.get("torchserve")
        self.grpc = first.get("grpc")
        self.routes = first.get("routes")
        self.url = first.get("url")
        self.zmq = first.get("zmq")
        self.fields = first.get("fields")
        if self.is_ready:
            self.host, port = self.url.split("://")[1].rsplit(":", 1)
            self.port = int(port)

    def _read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))

    def wait_for(self, *kinds, seconds=20):
        """The next event of one of these kinds; others are kept in `seen`."""
        end = time.monotonic() + seconds
        while True:
            event = self.events.get(timeout=max(0.01, end - time.monotonic()))
            if event["event"] in kinds:
                return event
            self.seen.append(event)

    def cancelled(self, ticket, seconds=20):
        end = time.monotonic() + seconds
        while True:
            event = self.wait_for("cancel", seconds=max(0.01, end - time.monotonic()))
            if event["ticket"] == ticket:
                return event

    def order(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.wait_for("obeyed")

    def reload(self):
        """The errors in the files, empty if there are none."""
        self.process.stdin.write("reload\n")
        self.process.stdin.flush()
        wrong = self.wait_for("reloaded")["wrong"]
        self.wait_for("obeyed")
        return wrong

    def rss_kib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0

    def stop(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.write("quit\n")
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        return self.process.wait(30)


def key_table(name, *keys, **fields):
    """A table of the file of API keys, as `cluster keygen --api` writes it."""
    digests = [hashlib.sha256(k.encode()).hexdigest() for k in keys]
    lines = [f'name = "{name}"', f"sha256 = {json.dumps(digests)}", *(f"{k} = {json.dumps(v)}" for k, v in fields.items())]
    return "\n".join(["[[keys]]", *lines, "", ""])


@pytest.fixture
def keys_file(tmp_path):
    """A file with one user, whose key is "k", and one admin, whose key is "root"."""
    file = tmp_path / "keys.toml"
    file.write_text(key_table("user", "k") + key_table("ops", "root", role="admin"))
    return file


@pytest.fixture(scope="session")
def gateway():
    g = Gateway("--zmq", "tcp://127.0.0.1:*")
    assert g.is_ready
    yield g
    assert g.stop() == 0


@pytest.fixture
def start():
    """Starts gateways with their own flags, and stops them cleanly at the end of the test."""
    running = []

    def go(*flags):
        running.append(Gateway(*flags))
        return running[-1]

    yield go
    for g in running:
        assert g.stop() == (0 if g.is_ready else 1)
