"""`cluster rotate-key`: a machine changes its key while streams run, and the old key is rejected afterwards."""
import signal
import subprocess

import pytest
from harness import CLUSTER, ROOT
from machines import FAR, handshake, listeners, public_key, secret_key, two_machines, wait_for
from streams import begin_stories, texts
from zmq.utils import z85


@pytest.fixture(scope="module")
def machines():
    with two_machines() as both:
        yield both


@pytest.fixture(scope="module")
def undisturbed(machines):
    return texts(begin_stories(machines.near))


def rotate(machines, far, *words):
    which = str(machines.far.directory / "run") if far else str(machines.near.config)
    return subprocess.run([CLUSTER, "rotate-key", which, *words], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)


def key_file(machines, far):
    return (machines.far.directory if far else machines.directory) / "key"


def encoded(hex_key):
    return z85.encode(bytes.fromhex(hex_key))


def pair(file):
    return encoded(public_key(file)), encoded(secret_key(file))


@pytest.mark.parametrize("far", [True, False], ids=["the-node", "the-root"])
def test_a_machine_changes_its_key_under_streams(machines, undisturbed, far):
    before = public_key(key_file(machines, far))
    before_pair = pair(key_file(machines, far))
    pids = {p["name"]: p["pid"] for p in machines.near.status()["processes"]} | {"root": machines.near.process.pid}
    streams = begin_stories(machines.near)
    done = rotate(machines, far)
    assert done.returncode == 0, (done.stdout, done.stderr, machines.far.printed())
    assert texts(streams) == undisturbed
    now = public_key(key_file(machines, far))
    assert now != before
    assert f"is {now}" in done.stdout
    assert f"{'2' if far else '5'} processes of this machine use it" in done.stdout
    assert "the old one is revoked" in done.stdout
    machines.near.wait_standing()
    assert pids == {p["name"]: p["pid"] for p in machines.near.status()["processes"]} | {"root": machines.near.process.pid}, "nobody was started anew"
    keys = {"127.0.0.1": pair(key_file(machines, False)), FAR: pair(key_file(machines, True))}
    mine, other = (FAR, "127.0.0.1") if far else ("127.0.0.1", FAR)
    join_address = ("127.0.0.1", machines.port + 2)
    bus = listeners(pids.values()) - {("127.0.0.1", machines.near.http_port), join_address}
    assert len(bus) >= 7, bus
    for address, port in bus:
        wait_for(lambda: handshake(address, port, before_pair, keys[address][0]) == "refused", 3)  # within a second or two  # noqa: B023
        assert handshake(address, port, keys[other], keys[address][0]) == "accepted", (address, port)
        if address == mine:
            assert handshake(address, port, keys[other], before_pair[0]) == "refused", (address, port)  # for a server
    assert texts(begin_stories(machines.near)) == undisturbed


def test_after_that_processes_still_die_and_come_back(machines, undisturbed):
    for victim in ("shard-1", "head", "shard-0"):
        streams = begin_stories(machines.near)
        former = (victim, machines.near.pid(victim))
        machines.near.kill(victim)
        assert texts(streams) == undisturbed
        machines.near.wait_standing(former)


def test_after_that_a_root_that_is_killed_is_replaced(machines, undisturbed):
    streams = begin_stories(machines.near)
    machines.near.process.kill()
    machines.near.process.wait()
    machines.up()
    machines.near.wait_standing()
    assert texts(streams) == undisturbed


def test_one_that_was_interrupted_is_gone_on_with(machines, undisturbed):
    made = subprocess.run([CLUSTER, "keygen", machines.far.directory / "key.next"], capture_output=True, text=True, check=True)
    done = rotate(machines, True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert public_key(key_file(machines, True)) == made.stdout.split('"')[1]
    assert not (machines.far.directory / "key.next").exists()
    assert texts(begin_stories(machines.near)) == undisturbed


def test_a_machine_that_is_away_is_not_locked_out_by_accident(machines, undisturbed):
    former = ("agent-b", machines.far.process.pid)
    machines.far.process.send_signal(signal.SIGSTOP)
    before = public_key(key_file(machines, False))
    try:
        done = rotate(machines, False)
    finally:
        machines.far.process.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    assert "node b has not confirmed the key yet" in done.stdout
    assert "--force" in done.stderr
    assert public_key(key_file(machines, False)) == before
    machines.near.wait_standing()
    done = rotate(machines, False)  # now that it is back
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert public_key(key_file(machines, False)) != before
    machines.far.process.kill()  # and joins again, with the join server's new key
    machines.far.process.wait()
    join_address = done.stdout.split("join with the address ")[1].split()[0]
    machines.far.join(join_address)
    machines.near.wait_standing(former)
    assert texts(begin_stories(machines.near)) == undisturbed


def test_a_cluster_of_one_machine_has_no_key_to_change():
    from harness import running
    with running() as one:
        done = subprocess.run([CLUSTER, "rotate-key", one.config], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "one machine" in done.stderr
    done = subprocess.run([CLUSTER, "rotate-key", "nobody"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
