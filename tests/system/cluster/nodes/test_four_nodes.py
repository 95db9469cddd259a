"""examples/four_nodes: four machines (network namespaces) that grow, shrink and are attacked while streams run."""
import contextlib
import os
import random
import signal
import socket
import subprocess
import time

import pytest
import zmq
from harness import BUILD, MODEL, ROOT, Cluster, running
from streams import Stream, all_begun

SCRIPT = ROOT / "examples/four_nodes.sh"
EXAMPLE = ROOT / "examples/four_nodes.toml"
PROMPTS = [f"Tell me about {x}." for x in ("a river", "the wind", "two cities", "glass", "a door", "salt", "the night", "a wheel")]


class FourNodes(Cluster):
    """The example unchanged, except for ports and the directories that it writes into."""

    def __init__(self, directory):
        super().__init__(directory)
        text = EXAMPLE.read_text().replace("127.0.0.1:8000", f"127.0.0.1:{self.http_port}").replace("models/" + MODEL.name, str(MODEL))
        own = f'run_dir = "{self.directory}/run"\nkey = "{self.directory}/key"\nhost ='
        self.config.write_text(text.replace("host =", own, 1).replace("[model]", '[model]\nkv_cache_bytes = "256MiB"', 1))
        self.home = {**os.environ, "TMPDIR": str(self.directory), "PATH": f"{BUILD}/cluster:{os.environ['PATH']}"}

    def start(self, wait=True):
        self.command("keygen", str(self.directory / "key"))
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([self.binary, "up", self.config], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=self.home)
        if wait:
            self.wait_ready()
        return self


def script(*words, home="/nowhere"):
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(home)})


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    tried = [script("up"), script("on", "b", "true", home=tmp_path_factory.mktemp("home"))]
    if failed := [done.stderr.strip() for done in tried if done.returncode]:
        script("down")
        pytest.skip(f"network namespaces want iproute2 and CAP_SYS_ADMIN: {failed[0]}")
    yield
    script("down")


@pytest.fixture(scope="module")
def cluster(network):
    try:
        with running(FourNodes) as four:
            yield four
    finally:
        with contextlib.suppress(OSError):
            for pid in pids_within():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed():
    with running() as one:
        return texts(ask(one))


def ask(cluster):
    return [Stream(cluster, p, max_tokens=96, ignore_eos=True) for p in PROMPTS]


def begun(cluster):
    return all_begun(ask(cluster))


def texts(streams):
    return [s.check().text for s in streams]


def pids_of(node):
    return [int(pid) for pid in subprocess.run(["ip", "netns", "pids", f"baton-{node}"], capture_output=True, text=True, check=False).stdout.split()]


def pids_within():
    """The processes on the other machines."""
    return [pid for node in "bcd" for pid in pids_of(node)]


def places(cluster):
    """{node: its shards}"""
    found = {}
    for node in "abcd":
        directory = cluster.directory / ("run" if node == "a" else f"baton-{node}")
        found[node] = len(list(directory.glob("**/shard-*.pid")))
    return found


def bus_ports(host):
    """Ports of this address on which a process listens, in any namespace."""
    listed = subprocess.run(["ss", "-Hltn"] if host.endswith(".1") else ["ip", "netns", "exec", f"baton-{'bcd'[int(host[-1]) - 2]}", "ss", "-Hltn"],
                            capture_output=True, text=True, check=True).stdout
    return [int(line.split()[3].rsplit(":", 1)[1]) for line in listed.splitlines() if line.split()[3].startswith(host + ":")]


def attack(dice):
    """Junk, half a greeting and unknown keys at every socket of the bus on every machine; the connections stay open."""
    left, context = [], zmq.Context()
    for host in ("10.213.78.1", "10.213.78.2", "10.213.78.3", "10.213.78.4"):
        ports = bus_ports(host)
        assert ports, host
        for port in ports:
            for bytes_sent in (dice.randbytes(4096), b"\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", b"GET / HTTP/1.1\r\n\r\n"):
                s = socket.create_connection((host, port), timeout=5)
                s.sendall(bytes_sent)
                left.append(s)
            stranger = context.socket(zmq.DEALER)
            stranger.linger = 0
            stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
            stranger.curve_serverkey = zmq.curve_keypair()[0]
            stranger.connect(f"tcp://{host}:{port}")
            stranger.send(dice.randbytes(64))
            left.append(stranger)
    return left, context


def test_layers_go_where_they_are_sent_while_streams_run_and_strangers_knock(cluster, undisturbed):
    assert places(cluster) == {"a": 1, "b": 1, "c": 1, "d": 0}
    cluster.wait_standing()  # node d too; the others did not wait for it
    dice = random.Random(1)
    for command, node, there in (("add-node", "d", "abcd"), ("drain", "b", "acd"), ("drain", "c", "ad"), ("add-node", "b", "abd")):
        streams = begun(cluster)
        left, context = attack(dice)
        done = cluster.command(command, node, str(cluster.config), timeout=120)
        assert done.returncode == 0, (done.stdout, done.stderr, cluster.log("head")[-3000:])
        assert texts(streams) == undisturbed, (command, node)
        for connection in left:
            connection.close()
        context.destroy(0)
        deadline = time.monotonic() + 10
        while (now := places(cluster)) != {n: int(n in there) for n in "abcd"}:
            assert time.monotonic() < deadline, now
            time.sleep(0.05)
    assert cluster.health()[0] == 200


def test_what_dies_on_any_machine_is_replaced_there(cluster, undisturbed):
    for name in sorted(n for n in cluster.pids() if n.startswith("shard-")):
        streams = begun(cluster)
        former = (name, cluster.pid(name))
        cluster.kill(name)
        assert texts(streams) == undisturbed, name
        cluster.wait_standing(former)


def test_a_machine_sees_its_own_files_alone(cluster):
    pid = next(p for p in pids_within() if b"baton" in open(f"/proc/{p}/cmdline", "rb").read())
    assert os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    assert "baton" in os.listdir(f"/proc/{pid}/root/run")
    assert set(os.listdir(f"/proc/{pid}/root/run")) != set(os.listdir("/run"))


def test_a_machine_that_vanishes_is_done_without_until_it_is_back(cluster, undisturbed):
    streams = begun(cluster)
    assert script("pull", "b").returncode == 0
    for pid in pids_of("b"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert texts(streams) == undisturbed  # its layers are at others by then
    assert cluster.health()[0] == 200
    assert texts(begun(cluster)) == undisturbed
    assert script("plug", "b").returncode == 0
    cluster.wait_standing(seconds=90)
    assert pids_of("b")
    assert texts(begun(cluster)) == undisturbed


def test_down_leaves_nothing_on_any_machine(cluster):
    assert pids_within()
    cluster.process.send_signal(signal.SIGTERM)
    assert cluster.process.wait(30) == 0, cluster.output.read_text()
    deadline = time.monotonic() + 10
    while pids_within():
        assert time.monotonic() < deadline, pids_within()
        time.sleep(0.05)
