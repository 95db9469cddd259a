"""A pipeline over two machines: joined by a token, linked by keys, and as hard to break as on one."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import zmq
from harness import CLUSTER, MODEL, ROOT, running
from machines import FAR, Machine, handshake, listeners, public_key, two_machines, wait_for
from streams import Stream, all_begun
from zmq.utils import z85

PROMPTS = [f"Tell me about {x}." for x in ("a river", "the wind", "two cities", "glass")]


@pytest.fixture(scope="module")
def undisturbed():
    with running() as one:
        return [s.check().text for s in ask(one)]


@pytest.fixture(scope="module")
def machines():
    with two_machines() as both:
        yield both


def ask(cluster, tokens=96):
    return [Stream(cluster, p, max_tokens=tokens, ignore_eos=True) for p in PROMPTS]


def begun(cluster):
    return all_begun(ask(cluster))


def has_ended(pid):
    """Its new parent may not have reaped it yet."""
    status = pathlib.Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" in status.read_text()


def test_a_pipeline_over_two_machines_says_what_one_machine_says(machines, undisturbed):
    assert [s.check().text for s in ask(machines.near)] == undisturbed
    names = {p["name"] for p in machines.near.status()["processes"]}
    assert names == {"head", "gateway", "agent-a", "agent-b", "shard-0", "shard-1"}
    assert not list((machines.directory / "run").glob("shard-1*")), "the second stage is the other machine's"
    assert list((machines.far.directory / "run").glob("shard-1*"))


def test_the_plan_says_how_fast_the_link_is(machines):
    there = r"node b: .*, link \d+\.\d\d ms round trip, \d+ MB/s"
    assert re.search(there, machines.near.command("plan", machines.near.config).stdout)


@pytest.mark.parametrize("victim", ["shard-1", "head"], ids=["stage-there", "head-here"])
def test_a_process_that_is_killed_ends_no_stream(machines, undisturbed, victim):
    streams = begun(machines.near)
    former = (victim, machines.near.pid(victim))
    machines.near.kill(victim)
    assert [s.check().text for s in streams] == undisturbed
    machines.near.wait_standing(former)


def test_an_agent_that_is_killed_there_comes_again_without_a_token(machines, undisturbed):
    streams = begun(machines.near)
    shard = machines.near.pid("shard-1")
    former = ("agent-b", machines.far.process.pid)
    machines.far.process.kill()
    machines.far.process.wait()
    wait_for(lambda: next(p for p in machines.near.status()["processes"] if p["name"] == "agent-b")["phase"] == "recovering")
    machines.far.join(machines.invitation()["endpoint"])
    machines.near.wait_standing(former)
    assert machines.near.pid("shard-1") == shard, "adopted"
    assert [s.check().text for s in streams] == undisturbed


def test_a_root_that_is_killed_is_replaced_and_the_other_machine_stays(machines, undisturbed):
    streams = begun(machines.near)
    shard = machines.near.pid("shard-1")
    machines.near.process.kill()
    machines.near.process.wait()
    machines.up()
    machines.near.wait_standing()
    assert machines.near.pid("shard-1") == shard
    assert [s.check().text for s in streams] == undisturbed


def test_nobody_without_a_trusted_key_gets_in_at_any_socket(machines):
    """Tries every listening socket of both machines: without a key, with an unknown key, and with a key that claims to be trusted."""
    pids = {p["name"]: p["pid"] for p in machines.near.status()["processes"]} | {"root": machines.near.process.pid}
    sockets = listeners(pids.values())
    http = ("127.0.0.1", machines.near.http_port)
    assert http in sockets
    bus = sockets - {http}
    assert len(bus) >= 8, bus  # six processes, the root, the desk
    assert {a for a, _ in bus} == {"127.0.0.1", FAR}
    server = z85.encode(bytes.fromhex(machines.public_key))
    other = z85.encode(bytes.fromhex(public_key(machines.far.directory / "key")))
    join_address = ("127.0.0.1", machines.port + 2)
    for address, port in bus:
        key = server if address == "127.0.0.1" else other
        assert handshake(address, port) == "refused", (address, port)
        came = handshake(address, port, zmq.curve_keypair(), key)
        assert came == ("accepted" if (address, port) == join_address else "refused"), (address, port)
    assert [s.check().text for s in ask(machines.near, 8)]


def change(machines, command, node):
    done = machines.near.command(command, node, str(machines.near.config), timeout=120)
    assert done.returncode == 0, (done.stdout, done.stderr, machines.near.log("head")[-3000:], machines.far.printed())


def shards(machines):
    return {p["name"]: p["pid"] for p in machines.near.status()["processes"] if p["name"].startswith("shard-")}


def test_layers_move_between_machines_while_streams_run(machines, undisturbed):
    generation = machines.near.status()["generation"]
    for command, stages in (("drain", 1), ("add-node", 2)):
        before = shards(machines)
        streams = begun(machines.near)
        change(machines, command, "b")
        generation += 1
        assert [s.check().text for s in streams] == undisturbed
        assert set(shards(machines)) == {f"shard-{i}-g{generation}" for i in range(stages)}
        assert bool(list((machines.far.directory / "run").glob(f"shard-1-g{generation}.pid"))) == (stages == 2)
        wait_for(lambda before=before: all(has_ended(pid) for pid in before.values()))
    machines.near.wait_standing()
    streams = begun(machines.near)
    last = f"shard-1-g{generation}"
    former = (last, machines.near.pid(last))
    machines.near.kill(last)  # its agent knows its cluster
    assert [s.check().text for s in streams] == undisturbed
    machines.near.wait_standing(former)


def test_a_returning_machine_learns_that_the_layers_have_moved(machines, undisturbed):
    former = ("agent-b", machines.far.process.pid)
    mine = {n: pid for n, pid in shards(machines).items() if n.startswith("shard-1")}
    machines.far.process.kill()
    machines.far.process.wait()
    streams = begun(machines.near)
    change(machines, "drain", "b")
    assert [s.check().text for s in streams] == undisturbed
    machines.far.join(machines.invitation()["endpoint"])
    machines.near.wait_standing(former)
    wait_for(lambda: all(has_ended(pid) for pid in mine.values()))
    assert len(shards(machines)) == 1
    streams = begun(machines.near)
    change(machines, "add-node", "b")
    assert [s.check().text for s in streams] == undisturbed


def test_a_machine_joins_a_cluster_that_serves_and_may_be_switched_off_again(undisturbed):
    with two_machines(start=False, waits=True) as both:
        both.up()
        both.near.wait_ready()
        refused = both.near.command("add-node", "b", str(both.near.config))
        assert refused.returncode == 1 and "has not joined" in refused.stderr, refused
        streams = begun(both.near)
        asked = both.invitation()
        both.far.join(asked["endpoint"], token=asked["token"])
        both.near.wait_standing()
        change(both, "add-node", "b")
        assert [s.check().text for s in streams] == undisturbed
        assert set(shards(both)) == {"shard-0-g1", "shard-1-g1"}
        assert list((both.far.directory / "run").glob("shard-1-g1.pid"))
        streams = begun(both.near)
        both.near.process.kill()
        both.near.process.wait()
        both.up()  # and knows the machine
        both.near.wait_standing()
        change(both, "drain", "b")
        assert [s.check().text for s in streams] == undisturbed
        both.far.process.send_signal(signal.SIGTERM)
        assert both.far.process.wait(20) == 0
        wait_for(lambda: next(p for p in both.near.status()["processes"] if p["name"] == "agent-b")["phase"] == "recovering")
        assert both.near.status()["phase"] == "ready"
        assert [s.check().text for s in ask(both.near)] == undisturbed


def is_settled(machines, generation):
    status = machines.near.status()
    return status["generation"] == generation and status["phase"] == "ready" and status


def of_memory(share):
    """KV of all shards together; 0: the usual."""
    with open("/proc/meminfo") as lines:
        kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return {"kv_cache": f"{int(share * kib) // 1024}MiB"} if share else {}


@pytest.mark.parametrize("share", [0, 0.75], ids=["beside-what-is-left", "in-its-place"])
def test_a_machine_that_vanishes_is_done_without(undisturbed, share):
    """Each machine has half of the KV memory. With a share of 0.75, the whole does not fit beside one half."""
    with two_machines(cluster="node_timeout = 1", **of_memory(share)) as both:
        streams = begun(both.near)
        both.far.vanish()
        assert [s.check().text for s in streams] == undisturbed
        status = wait_for(lambda: is_settled(both, 1))
        assert status["change"] == "generation 1 serves: node b is gone"
        assert set(shards(both)) == {"shard-0-g1"}
        both.far.join(both.invitation()["endpoint"])
        both.near.wait_standing()  # without layers
        assert set(shards(both)) == {"shard-0-g1"}
        if share:
            return  # nor does another cut fit beside this one
        streams = begun(both.near)
        change(both, "add-node", "b")
        assert [s.check().text for s in streams] == undisturbed
        assert set(shards(both)) == {"shard-0-g2", "shard-1-g2"}


def test_a_machine_that_is_back_first_keeps_its_layers(undisturbed):
    with two_machines(cluster="node_timeout = 1") as both:
        (both.near.directory / "run" / "shard-0-g1.log").mkdir(parents=True)  # the others cannot start
        streams = begun(both.near)
        both.far.vanish()
        wait_for(lambda: both.near.status()["coming_generation"] == 1)
        both.far.join(both.invitation()["endpoint"])
        assert [s.check().text for s in streams] == undisturbed
        status = wait_for(lambda: is_settled(both, 0))
        assert status["change"] == "generation 1 was given up: the lost node is back", status
        assert set(shards(both)) == {"shard-0", "shard-1"}


def test_layers_that_no_machine_took_are_offered_again(undisturbed):
    with two_machines(cluster="node_timeout = 1") as both:
        (both.near.directory / "run" / "shard-0-g1.log").mkdir(parents=True)
        streams = begun(both.near)
        both.far.vanish()
        assert [s.check().text for s in streams] == undisturbed
        status = both.near.status()
        assert status["generation"] == 2, status
        assert set(shards(both)) == {"shard-0-g2"}


def test_requests_end_with_a_named_error_if_no_machine_can_take_the_layers():
    with two_machines(cluster="node_timeout = 1", model="recovery_timeout = 4", **of_memory(1.3)) as both:
        streams = begun(both.near)
        both.far.vanish()
        wait_for(lambda: both.near.status()["change"].startswith("node b is gone, and the others cannot take its layers: the shards need "))
        ended = [s.check() for s in streams]
        assert all(s.error["code"] == "pipeline_lost" for s in ended), [s.error for s in ended]
        both.far.join(both.invitation()["endpoint"])
        both.near.wait_standing()
        assert [s.check().error for s in ask(both.near)] == [None] * len(PROMPTS)


def test_a_rejected_machine_gets_the_reason():
    with two_machines(start=False) as both:
        both.up()
        asked = both.invitation()
        stranger = Machine(both.directory / "stranger")
        stranger.join(asked["endpoint"], token="0" * 32)
        assert stranger.process.wait(10) == 78
        assert "the token is not the one that" in stranger.printed()
        nobody = Machine(both.directory / "nobody")
        nobody.join(asked["endpoint"], node="c", token=asked["token"])
        assert nobody.process.wait(10) == 78
        assert "no [[nodes]] table named 'c'" in nobody.printed()
        keyless = Machine(both.directory / "keyless")
        keyless.join(asked["endpoint"].split("#")[0], token=asked["token"])
        assert keyless.process.wait(10) == 78
        assert "has no key" in keyless.printed()
        wrong = Machine(both.directory / "wrong")
        wrong.join(asked["endpoint"].split("#")[0] + "#" + "ab" * 32, token=asked["token"])
        wait_for(lambda: "is this its key?" in wrong.printed())
        wrong.stop()
        # None of them keeps the intended machine out. A second use of its token is rejected.
        both.far.join(asked["endpoint"], token=asked["token"])
        both.near.wait_ready()
        thief = Machine(both.directory / "thief")
        thief.join(asked["endpoint"], token=asked["token"])
        assert thief.process.wait(10) == 78


def test_a_machine_with_another_model_file_is_rejected_and_the_operator_sees_it(tmp_path):
    with two_machines(start=False, token=False) as both:
        text = both.near.config.read_text()
        both.near.config.write_text(text.replace(str(MODEL), "model.gguf"))
        os.symlink(MODEL, both.directory / "model.gguf")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with open(both.near.output, "ab") as out:
            both.near.process = subprocess.Popen([both.near.binary, "up", both.near.config, "--json"], stdout=out, stderr=subprocess.STDOUT,
                                                 cwd=both.directory)
        asked = both.invitation()
        assert asked["token"] == ""
        both.far.join(asked["endpoint"], cwd=elsewhere)
        assert both.far.process.wait(20) == 78
        assert "model.path" in both.far.printed()
        wait_for(lambda: any("model.path" in e["reason"] for e in both.events("node")))
        data = bytearray(MODEL.read_bytes())
        data[8:16] = data[8:16]
        name = data.find(b"SmolLM2")
        data[name:name + 7] = b"SmolLM9"
        (elsewhere / "model.gguf").write_bytes(data)
        both.far.join(asked["endpoint"], cwd=elsewhere)
        assert both.far.process.wait(20) == 78
        assert "is not the model file that the machine of `cluster up` has" in both.far.printed()
        (elsewhere / "model.gguf").unlink()
        os.symlink(MODEL, elsewhere / "model.gguf")
        both.far.join(asked["endpoint"], cwd=elsewhere)
        both.near.wait_ready()


def test_without_a_key_nothing_listens_beyond_the_machine(tmp_path):
    with two_machines(start=False) as both:
        both.key.unlink()
        both.up()
        assert both.near.process.wait(10) != 0
        assert "cluster keygen" in both.near.output.read_text()


def test_a_missing_engine_is_reported_before_the_machine_joins():
    with two_machines(start=False) as both:
        text = both.near.config.read_text()
        both.near.config.write_text(text.replace('devices = ["cpu:1"]', 'devices = ["gone/x"]'))
        both.up()
        asked = both.invitation()
        both.far.join(asked["endpoint"], token=asked["token"])
        assert both.far.process.wait(20) == 78
        assert "device gone/x: engine_gone.so is not in" in both.far.printed() and "docs/develop/engines.md" in both.far.printed()
        wait_for(lambda: any("device gone/x" in e["reason"] for e in both.events("node")))
        assert both.near.process.poll() is None  # it waits for one that has it


def test_down_ends_both_machines():
    with two_machines() as both:
        wait_for(lambda: both.events("ready"))
        both.near.process.send_signal(signal.SIGTERM)
        assert both.near.process.wait(20) == 0
        assert both.far.process.wait(10) == 0
        notes = [n for n in (both.far.directory / "run").glob("*.pid") if os.path.exists(f"/proc/{n.read_text().split()[0]}")]
        assert not notes


def test_a_launch_command_starts_the_node_and_starts_it_again():
    with two_machines(start=False) as both:
        far = both.far.directory
        far.joinpath("cluster").symlink_to(both.near.binary)  # as on the PATH of another machine
        launch = f"env PATH={far}:/usr/bin:/bin XDG_RUNTIME_DIR={far} XDG_CONFIG_HOME={far}/config"
        both.near.config.write_text(both.near.config.read_text().replace('name = "b"', f'name = "b"\nlaunch = "{launch}"'))
        both.up()
        both.near.wait_ready()
        both.near.wait_standing()
        token = both.events("join")[0]["token"]
        shard, agent = both.near.pid("shard-1"), both.near.pid("agent-b")
        assert token and token not in pathlib.Path(f"/proc/{agent}/cmdline").read_text()
        streams = begun(both.near)
        os.kill(agent, signal.SIGKILL)
        both.near.wait_standing(("agent-b", agent))
        assert both.near.pid("shard-1") == shard
        assert all(s.check().text for s in streams)
        both.near.process.send_signal(signal.SIGTERM)
        assert both.near.process.wait(20) == 0
        wait_for(lambda: has_ended(shard))


def test_a_launch_command_that_fails_is_shown_with_its_last_words():
    with two_machines(start=False) as both:
        launch = "sh -c 'echo no route to host; exit 255'"
        both.near.config.write_text(both.near.config.read_text().replace('name = "b"', f'name = "b"\nlaunch = "{launch}"'))
        both.up()
        wait_for(lambda: any("exit status 255" in e["failed"] and "no route to host" in e["failed"] for e in both.events("join")))


def test_a_plan_takes_machines_that_have_not_joined_to_be_like_this_one():
    done = subprocess.run([CLUSTER, "plan", "examples/two_machines.toml", "--json"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert [s["node"] for s in json.loads(done.stdout)["shards"]] == ["a", "b"]
    assert "node b has not joined: taken to be like this machine" in done.stderr
