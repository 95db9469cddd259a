"""A cluster over two "machines": two loopback addresses, each with its own run directory and key. They share only the model file."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import zmq
from bus_proxy import sockets_of
from harness import CLUSTER, ROOT, START_SECONDS_MAX, Cluster, free_ports

FAR = "127.0.0.2"


PORTS = 6  # root, head, the desk, another head and two agents


def wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.05)
    return found


class Machine:
    """Runs `cluster join` on the other machine."""

    def __init__(self, directory, binary=CLUSTER, inside=()):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.binary = binary
        self.inside = inside  # words before the command: what makes it another machine
        self.process = None
        self.output = self.directory / "join.out"

    def join(self, endpoint, node="b", token="", cwd=ROOT):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen(
                [*self.inside, self.binary, "join", endpoint, "--node", node, "--key", self.directory / "key", "--run-dir", self.directory / "run",
                 *(["--token", token] if token else [])], stdout=out, stderr=subprocess.STDOUT, cwd=cwd)
        return self

    def printed(self):
        return self.output.read_text()

    def log(self, name):
        return (self.directory / "run" / f"{name}.log").read_text()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.vanish()

    def vanish(self):
        """Ends all processes of that machine at once."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for note in (self.directory / "run").glob("*.pid"):  # what outlived its agent
            pid = int(note.read_text().split()[0])
            with contextlib.suppress(OSError):
                if "baton" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                    subprocess.run(["kill", "-9", str(pid)], check=False)


class Machines:
    def __init__(self, directory, model="", token=True, here="127.0.0.1", there=FAR, inside=(), waits=False, cluster="", kv_cache="256MiB", stages=None,
                 tensor=1, models=""):
        self.directory = pathlib.Path(directory)
        self.port = free_ports(PORTS, ("127.0.0.1", FAR))
        self.key = self.directory / "key"
        made = subprocess.run([CLUSTER, "keygen", self.key], capture_output=True, text=True, check=True)
        self.public_key = made.stdout.split('"')[1]
        self.far = Machine(self.directory / "far", inside=[word.replace("{near}", str(self.directory)) for word in inside])
        known = ""
        if not token:
            made = subprocess.run([CLUSTER, "keygen", self.far.directory / "key"], capture_output=True, text=True, check=True)
            known = f'public_key = "{made.stdout.split(chr(34))[1]}"'
        self.near = Cluster(self.directory, devices=("cpu:0",), model=model, kv_cache=kv_cache, stages=stages, tensor=tensor, models=models,
                            cluster=f'host = "{here}"\nport = {self.port}\nkey = "{self.key}"\n{cluster}',
                            nodes=f'[[nodes]]\nname = "b"\nhost = "{there}"\ndevices = ["cpu:1"]\n{known}{"waits = true" if waits else ""}')

    def up(self):
        with open(self.near.output, "ab") as out:
            self.near.process = subprocess.Popen([CLUSTER, "up", self.near.config, "--json"], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)

    def events(self, kind):
        lines = self.near.output.read_text().splitlines()
        return [e for e in map(json.loads, filter(lambda x: x.startswith("{"), lines)) if e["event"] == kind]

    def invitation(self, seconds=10):
        deadline = time.monotonic() + seconds
        while not (events := self.events("join")):
            assert self.near.process.poll() is None, self.near.output.read_text()
            assert time.monotonic() < deadline, self.near.output.read_text()
            time.sleep(0.02)
        return events[-1]

    def start(self):
        self.up()
        asked = self.invitation()
        self.far.join(asked["endpoint"], token=asked["token"])
        try:
            self.near.wait_ready(START_SECONDS_MAX)
        except AssertionError as e:
            raise AssertionError(f"{e}\n--- the other machine\n{self.far.printed()}") from e
        return self

    def stop(self):
        self.far.stop()
        self.near.stop()


@contextlib.contextmanager
def two_machines(start=True, **options):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        machines = Machines(directory, **options)
        try:
            yield machines.start() if start else machines
        finally:
            machines.stop()


def listeners(pids):
    """(address, port) of every tcp socket on which one of these processes listens."""
    inodes = {inode for pid in pids for _, inode in sockets_of(pid)}
    found = set()
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[9]) in inodes:
                address, port = fields[1].split(":")
                found.add((".".join(str(b) for b in bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


def handshake(address, port, secret=None, server=None):
    """How it ended: "accepted", "refused"."""
    context = zmq.Context()
    try:
        s = context.socket(zmq.DEALER)
        s.linger = 0
        s.handshake_ivl = 1000
        events = s.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                      zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_DISCONNECTED)
        if server:
            s.curve_serverkey = server
            s.curve_publickey, s.curve_secretkey = secret
        s.connect(f"tcp://{address}:{port}")
        if not events.poll(3000):
            return "refused"
        number = int.from_bytes(events.recv_multipart()[0][:2], "little")
        return "accepted" if number == zmq.EVENT_HANDSHAKE_SUCCEEDED else "refused"
    finally:
        context.destroy(0)


def word_of_key(file, word):
    return re.search(rf"^{word} ([0-9a-f]{{64}})$", file.read_text(), re.M).group(1)


def public_key(file):
    return word_of_key(file, "public")


def secret_key(file):
    return word_of_key(file, "secret")
