"""Machines that are added to nodes.toml while the cluster serves, and machines that are removed for good."""
import contextlib
import pathlib
import re
import signal

import pytest
from harness import running
from machines import handshake, public_key, secret_key, two_machines, wait_for
from streams import Stream, all_begun
from zmq.utils import z85

PROMPTS = [f"Tell me about {x}." for x in ("a river", "the wind", "two cities", "glass")]


@pytest.fixture(scope="module")
def undisturbed():
    with running() as one:
        return [s.check().text for s in ask(one)]


def ask(cluster, tokens=96):
    return [Stream(cluster, p, max_tokens=tokens, ignore_eos=True) for p in PROMPTS]


def begun(cluster):
    return all_begun(ask(cluster))


class Grown:
    """Two machines; at first nodes.toml names one of them."""

    def __init__(self, machines):
        self.machines = machines
        self.near, self.far, self.file = machines.near, machines.far, pathlib.Path(machines.near.config)
        text = self.file.read_text()
        at = next(m.start() for m in re.finditer(r"\[\[nodes\]\]", text) if 'name = "b"' in text[m.start():m.start() + 40])
        self.alone, self.table = text[:at], text[at:]
        self.write()

    def write(self, table=""):
        self.file.write_text(self.alone + table)

    def command(self, *words):
        return self.near.command(*words, str(self.file), timeout=120)

    def well(self, *words):
        done = self.command(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr, self.near.log("head")[-3000:], self.far.printed())
        return done.stdout

    def refused(self, *words):
        done = self.command(*words)
        assert done.returncode == 1, (words, done)
        return done.stderr

    def names(self):
        return {p["name"] for p in self.near.status()["processes"]}

    def phase_of(self, name):
        return next((p["phase"] for p in self.near.status()["processes"] if p["name"] == name), "none")

    def join(self):
        """Types what `cluster add-node` prints, as a user would."""
        line = re.search(r"cluster join '(\S+)' --node b(?: --token (\w+))?", self.refused("add-node", "b"))
        assert line, "no line to type"
        self.far.join(line[1], token=line[2] or "")
        wait_for(lambda: self.phase_of("agent-b") == "ready")
        return line[1], line[2]

    def another_root(self):
        self.near.process.kill()
        self.near.process.wait()
        self.machines.up()
        self.near.wait_standing()


@contextlib.contextmanager
def grown(**options):
    with two_machines(start=False, waits=True, **options) as both:
        cluster = Grown(both)
        both.up()
        both.near.wait_ready()
        yield cluster


def test_a_machine_that_is_named_later_serves_and_is_taken_out_again(undisturbed):
    with grown() as c:
        assert "there is no node b" in c.refused("add-node", "b")
        c.write(c.table.replace("waits = true", ""))
        assert "node b is new and does not wait" in c.refused("add-node", "b")
        c.file.write_text((c.alone + c.table).replace("[model]", "[model]\nmax_num_seqs = 3"))
        assert "[model] of nodes.toml differs from the running cluster" in c.refused("add-node", "b")
        assert c.names() == {"head", "gateway", "agent-a", "shard-0"}
        c.write(c.table)
        streams = begun(c.near)
        endpoint, token = c.join()
        assert token, "nobody knows its key"
        c.well("add-node", "b")
        assert [s.check().text for s in streams] == undisturbed
        assert c.names() == {"head", "gateway", "agent-a", "agent-b", "shard-0-g1", "shard-1-g1"}
        assert list((c.far.directory / "run").glob("shard-1-g1.pid"))

        for victim in ("head", "shard-1-g1"):  # whoever starts from now on knows it
            streams = begun(c.near)
            former = (victim, c.near.pid(victim))
            c.near.kill(victim)
            assert [s.check().text for s in streams] == undisturbed
            c.near.wait_standing(former)
        streams = begun(c.near)
        c.another_root()
        assert [s.check().text for s in streams] == undisturbed

        server = z85.encode(bytes.fromhex(c.machines.public_key))
        key = c.far.directory / "key"
        pair = tuple(z85.encode(bytes.fromhex(k)) for k in (public_key(key), secret_key(key)))
        root = ("127.0.0.1", c.machines.port)
        assert handshake(*root, pair, server) == "accepted"
        streams = begun(c.near)
        assert "node b is removed from the cluster" in c.well("remove-node", "b")
        assert [s.check().text for s in streams] == undisturbed
        assert c.far.process.wait(20) == 0
        wait_for(lambda: c.names() == {"head", "gateway", "agent-a", "shard-0-g2"})
        wait_for(lambda: handshake(*root, pair, server) == "refused")
        assert not list((c.far.directory / "run").glob("shard-*.pid"))
        assert "there is no node b" in c.refused("remove-node", "b")
        assert c.far.join(endpoint).process.wait(20) == 78
        assert "no [[nodes]] table named 'b'" in c.far.printed()


def test_a_node_that_was_removed_stays_so_for_the_next_root_and_may_come_back(undisturbed):
    with grown() as c:
        c.write(c.table)
        c.join()
        c.well("remove-node", "b")
        assert c.far.process.wait(20) == 0
        c.another_root()  # nodes.toml still names it
        assert c.names() == {"head", "gateway", "agent-a", "shard-0"}
        c.write()
        c.another_root()
        assert c.names() == {"head", "gateway", "agent-a", "shard-0"}
        c.write(c.table)
        streams = begun(c.near)
        _, token = c.join()
        assert token, "its key was forgotten"
        c.well("add-node", "b")
        assert [s.check().text for s in streams] == undisturbed
        assert "agent-b" in c.names()


def test_a_root_that_takes_over_takes_a_node_in_that_was_written_down_meanwhile(undisturbed):
    with grown() as c:
        streams = begun(c.near)
        c.near.process.kill()
        c.near.process.wait()
        c.write(c.table)
        c.machines.up()
        wait_for(lambda: c.near.command("status", str(c.file)).returncode == 0 and c.phase_of("agent-b") == "starting")
        assert [s.check().text for s in streams] == undisturbed
        streams = begun(c.near)
        c.join()
        c.well("add-node", "b")
        assert [s.check().text for s in streams] == undisturbed


def test_a_machine_that_vanished_is_taken_out():
    with grown(cluster="node_timeout = 1") as c:
        c.write(c.table)
        c.join()
        c.well("add-node", "b")
        c.far.vanish()
        wait_for(lambda: c.near.status()["generation"] == 2 and c.near.status()["phase"] == "ready")
        c.well("remove-node", "b")
        assert c.names() == {"head", "gateway", "agent-a", "shard-0-g2"}
        assert [s.check().text for s in ask(c.near, 8)]


def test_a_rejected_removal_gives_the_reason():
    with grown() as c:
        assert "there is no node x" in c.refused("remove-node", "x")
        assert "on the machine of `cluster up`" in c.refused("remove-node", "a")
        c.write(c.table)
        c.join()
        c.well("add-node", "b")
        c.well("drain", "a")
        assert "no device is left" in c.refused("remove-node", "b")  # the last one with layers
        assert [s.check().text for s in ask(c.near, 8)]
        c.far.process.send_signal(signal.SIGTERM)
        assert c.far.process.wait(20) == 0
