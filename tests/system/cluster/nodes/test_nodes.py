"""Nodes come and go while streams run. Layers move to other shards, and a client sees only a pause."""
import json
import signal
import threading
import time

import pytest
from harness import running
from streams import begin_stories, texts

NODES = """
[[nodes]]
name = "b"
devices = ["cpu:1"]
[[nodes]]
name = "c"
devices = ["cpu"]
waits = true
"""


def begin(cluster):
    return begin_stories(cluster, count=16)


def shards(cluster):
    return {p["name"] for p in cluster.status()["processes"] if p["name"].startswith("shard-")}


def change(cluster, command, node):
    done = cluster.command(command, node, str(cluster.config), timeout=120)
    assert done.returncode == 0, (done.stdout, done.stderr, cluster.log("head")[-3000:])
    return done.stdout


@pytest.fixture(scope="module")
def cluster():
    with running(devices=("cpu:0",), nodes=NODES) as c:
        yield c


@pytest.fixture(scope="module")
def undisturbed(cluster):
    found = texts(begin(cluster))
    assert all(len(text) > 100 for text in found)
    return found


def test_sixteen_streams_go_on_while_nodes_are_drained_and_added(cluster, undisturbed):
    generation = cluster.status()["generation"]
    for command, node, stages in (("drain", "b", 1), ("add-node", "b", 2), ("add-node", "c", 3), ("drain", "c", 2)):
        generation += 1
        streams = begin(cluster)
        answer = change(cluster, command, node)
        assert f"generation {generation}" in answer
        assert texts(streams) == undisturbed, (command, node)
        opened = [line for line in cluster.log("head").splitlines() if f"of generation {generation} is open" in line]
        assert len(opened) == 1 and opened[0].endswith("KV kept"), opened
        status = cluster.status()
        assert status["generation"] == generation and status["coming_generation"] == 0
        assert status["phase"] == "ready", status
        assert shards(cluster) == {f"shard-{i}-g{generation}" for i in range(stages)}
    assert cluster.status()["load"]["recoveries"] >= 4
    assert texts(begin(cluster)) == undisturbed


def test_the_shards_of_before_are_gone(cluster, undisturbed):
    before = {p["name"]: p["pid"] for p in cluster.status()["processes"]}
    change(cluster, "drain", "b")
    change(cluster, "add-node", "b")
    deadline = time.monotonic() + 10
    gone = [pid for name, pid in before.items() if name.startswith("shard-")]
    while time.monotonic() < deadline and any(alive(pid) for pid in gone):
        time.sleep(0.05)
    assert not any(alive(pid) for pid in gone)
    after = {p["name"]: p["pid"] for p in cluster.status()["processes"]}
    assert {n for n in before if before[n] == after.get(n)} == {"head", "gateway", "agent-a", "agent-b", "agent-c"}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("command, node, reason", [
    ("drain", "x", "there is no node x"),
    ("drain", "c", "node c has no layers already"),
    ("add-node", "a", "node a has layers already"),
])
def test_what_cannot_be_is_refused_by_name(cluster, command, node, reason):
    done = cluster.command(command, node, str(cluster.config))
    assert done.returncode == 1 and reason in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("victim", ["head", "root", "shard-0", "agent-a"])
def test_a_death_while_layers_move_changes_nothing_but_the_pace(undisturbed, victim):
    with running(devices=("cpu:0",), nodes=NODES) as c:
        streams = begin(c)
        answer = []
        asked = threading.Thread(target=lambda: answer.append(c.command("drain", "b", str(c.config), timeout=120)))
        asked.start()
        deadline = time.monotonic() + 20
        while not (c.directory / "run/shard-0-g1.log").exists():  # it is being started
            assert time.monotonic() < deadline, answer
            time.sleep(0.005)
        if victim == "root":
            c.process.kill()
            c.process.wait()
            c.start(wait=False)
        else:
            c.kill(victim, signal.SIGKILL)
        asked.join()
        assert texts(streams) == undisturbed
        deadline = time.monotonic() + 60
        while (status := c.status())["generation"] != 1 or status["phase"] != "ready":
            assert time.monotonic() < deadline, json.dumps(status)
            time.sleep(0.1)
        assert shards(c) == {"shard-0-g1"}
        assert texts(begin(c)) == undisturbed
