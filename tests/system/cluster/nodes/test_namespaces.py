"""The other machine as a network namespace: its own address, a cable that can be pulled, and no access to our files."""
import contextlib
import os
import shutil
import subprocess
import threading
import time

import pytest
from harness import running
from machines import two_machines
from streams import Stream

HERE, THERE = "10.213.77.1", "10.213.77.2"
NAME = f"baton{os.getpid() % 100000}"
PROMPTS = [f"Tell me about {x}." for x in ("a river", "the wind", "two cities", "glass")]


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def may_make_namespaces():
    """Tries everything that the fixtures need, because containers refuse parts of it."""
    if not shutil.which("ip"):
        return False
    probe = NAME + "p"
    tried = [ip("netns", "add", probe), ip("link", "add", probe, "type", "veth", "peer", "name", "eth0", "netns", probe),
             ip("netns", "exec", probe, "unshare", "-m", "mount", "--bind", "/tmp", "/tmp")]
    ip("link", "del", probe)
    ip("netns", "del", probe)
    return all(done.returncode == 0 for done in tried)


pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces want iproute2 and CAP_SYS_ADMIN")


@contextlib.contextmanager
def namespace():
    """One more machine, at the other end of a cable."""
    for words in (("netns", "add", NAME), ("link", "add", NAME, "type", "veth", "peer", "name", "eth0", "netns", NAME),
                  ("addr", "add", HERE + "/30", "dev", NAME), ("link", "set", NAME, "up"),
                  ("-n", NAME, "addr", "add", THERE + "/30", "dev", "eth0"), ("-n", NAME, "link", "set", "eth0", "up"), ("-n", NAME, "link", "set", "lo", "up")):
        done = ip(*words)
        assert done.returncode == 0, (words, done.stderr)
    try:
        yield
    finally:
        ip("link", "del", NAME)
        ip("netns", "del", NAME)


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    hidden = tmp_path_factory.mktemp("hidden")
    # Hides the first machine's run directory from the second.
    inside = ("ip", "netns", "exec", NAME, "unshare", "-m", "sh", "-c", f'mkdir -p "$0" && mount --bind {hidden} "$0" && exec "$@"', "{near}/run")
    with namespace(), two_machines(here=HERE, there=THERE, inside=inside) as both:
        yield both


@pytest.fixture(scope="module")
def undisturbed():
    with running() as one:
        return [s.check().text for s in ask(one)]


def ask(cluster, tokens=96):
    return [Stream(cluster, p, max_tokens=tokens, ignore_eos=True) for p in PROMPTS]


def test_the_other_machine_has_its_own_network_and_files(machines):
    pid = machines.near.pid("shard-1")
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    assert not os.listdir(f"/proc/{pid}/root{machines.directory}/run")
    assert os.listdir(f"{machines.directory}/run")


def test_a_pipeline_through_a_cable_says_what_one_machine_says(machines, undisturbed):
    assert [s.check().text for s in ask(machines.near)] == undisturbed


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_a_pulled_cable_holds_streams_up_and_ends_none(machines, undisturbed, seconds):
    streams = ask(machines.near)
    for s in streams:
        assert s.begun.wait(60)
    assert ip("link", "set", NAME, "down").returncode == 0
    threading.Event().wait(seconds)
    assert ip("link", "set", NAME, "up").returncode == 0
    assert [s.check().text for s in streams] == undisturbed
    machines.near.wait_standing(seconds=60)
    before = {p["name"]: p["pid"] for p in machines.near.status()["processes"]}
    time.sleep(0.5)
    assert before == {p["name"]: p["pid"] for p in machines.near.status()["processes"]}
