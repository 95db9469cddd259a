"""A stage of several ranks. When one of them is lost, a client sees only a pause."""
import json
import os
import signal
import time

import pytest
from harness import running
from machines import two_machines
from streams import Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain")]
TOKENS = 96


def texts(cluster):
    streams = [Stream(cluster, p, max_tokens=TOKENS) for p in PROMPTS]
    return [s.check().text for s in streams]


def begin(cluster):
    streams = [Stream(cluster, p, max_tokens=TOKENS) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    return streams


@pytest.fixture(scope="module")
def group():
    """Three KV heads over two ranks, for tests that leave the cluster unchanged."""
    with running(tensor=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def undisturbed(group):
    return texts(group)


def test_two_ranks_give_the_same_texts_every_time_in_any_company(group, undisturbed):
    assert texts(group) == undisturbed
    assert [Stream(group, p, max_tokens=TOKENS).check().text for p in PROMPTS] == undisturbed
    assert all(len(text) > 100 for text in undisturbed)


def test_the_plan_names_what_each_rank_holds(group):
    table = group.output.read_text()
    assert "rank 0 of 2: KV heads 0-1, heads 0-4, ffn 768" in table and "]  shard-0 + shard-1 on a\n" in table
    plan = json.loads(group.command("plan", group.config, "--json").stdout)
    assert plan["tensor_parallel_size"] == 2 and plan["stages"] == 1
    assert [(s["rank"], s["heads"], s["kv_heads"]) for s in plan["shards"]] == [(0, 5, 2), (1, 4, 2)]
    assert plan["shards"][0]["kv_bytes"] == plan["shards"][1]["kv_bytes"]


def test_more_ranks_than_heads_are_refused_by_name_and_number(group, tmp_path):
    config = tmp_path / "ten.toml"
    config.write_text(group.config.read_text().replace("tensor_parallel_size = 2", "tensor_parallel_size = 10")
                      .replace('["cpu:0", "cpu:1"]', str(["cpu"] * 10).replace("'", '"')))
    done = group.command("plan", config)
    assert done.returncode != 0 and "9 heads cannot be cut for 10 ranks" in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_rank_that_is_killed_or_hangs_changes_nothing_but_the_pace(undisturbed, shard, number):
    with running(tensor=2) as cluster:
        before = cluster.pids()
        streams = begin(cluster)
        at = time.monotonic()
        cluster.kill(shard, number)
        assert [s.check().text for s in streams] == undisturbed
        assert time.monotonic() - at < 30  # the bound of a pipeline that does not come back is 60
        after = cluster.pids()
        assert {name for name in after if after[name] != before[name]} == {shard}
        assert "KV kept" in cluster.log("head") and "KV lost" not in cluster.log("head")
        assert texts(cluster) == undisturbed


def test_a_rank_that_crashed_takes_its_kv_with_it_and_the_text_is_the_same(undisturbed):
    with running(tensor=2) as cluster:
        streams = begin(cluster)
        cluster.kill("shard-1", signal.SIGSEGV)
        assert [s.check().text for s in streams] == undisturbed
        assert "KV lost" in cluster.log("head")


def test_ranks_whose_agent_died_meet_again_after_the_loss_of_one(undisturbed):
    """Their shared memory ended with the agent that held it."""
    with running(tensor=2) as cluster:
        before = cluster.pids()
        streams = begin(cluster)
        cluster.kill("agent-a")
        assert [s.check().text for s in streams] == undisturbed
        cluster.wait_standing(("agent-a", before["agent-a"]))
        assert {name for name, pid in cluster.pids().items() if pid != before[name]} == {"agent-a"}
        streams = begin(cluster)
        cluster.kill("shard-0")
        assert [s.check().text for s in streams] == undisturbed
        assert texts(cluster) == undisturbed


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_rank_that_is_lost_together_with_its_agent_is_met_again(undisturbed, shard):
    """The next agent starts one of them and adopts the other, in either order."""
    with running(tensor=2) as cluster:
        before = cluster.pids()
        streams = begin(cluster)
        for name in ("agent-a", shard):
            os.kill(before[name], signal.SIGKILL)
        assert [s.check().text for s in streams] == undisturbed
        cluster.wait_standing(("agent-a", before["agent-a"]), ("shard-0", before["shard-0"]), ("shard-1", before["shard-1"]))


def test_two_stages_of_two_ranks_live_through_the_loss_of_any(undisturbed):
    with running(tensor=2, devices=("cpu:0", "cpu:1", "cpu:0", "cpu:1")) as cluster:
        whole = texts(cluster)
        assert whole == undisturbed  # the ranks' slices are the same
        for shard in ("shard-3", "shard-2", "shard-1"):
            streams = begin(cluster)
            cluster.kill(shard)
            assert [s.check().text for s in streams] == whole
        restarts = {p["name"]: p["restarts"] for p in cluster.status()["processes"]}
        assert [restarts[f"shard-{i}"] for i in range(4)] == [0, 1, 1, 1]


SECOND_NODE = '[[nodes]]\nname = "b"\ndevices = ["cpu:1"]'  # of the same machine, with an agent of its own


def test_ranks_on_two_nodes_say_what_those_of_one_say(undisturbed):
    """They meet over the bus: no agent holds memory for both."""
    with running(tensor=2, devices=("cpu:0",), nodes=SECOND_NODE) as cluster:
        assert texts(cluster) == undisturbed
        assert "over the bus" in cluster.output.read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_rank_of_two_nodes_that_is_lost_changes_nothing_but_the_pace(undisturbed, shard, number):
    with running(tensor=2, devices=("cpu:0",), nodes=SECOND_NODE) as cluster:
        before = cluster.pids()
        streams = begin(cluster)
        cluster.kill(shard, number)
        assert [s.check().text for s in streams] == undisturbed
        assert {name for name, pid in cluster.pids().items() if pid != before[name]} == {shard}
        assert texts(cluster) == undisturbed


def test_ranks_on_two_machines_say_what_those_of_one_say_whichever_dies(undisturbed):
    with two_machines(tensor=2) as machines:
        assert texts(machines.near) == undisturbed
        for victim in ("shard-1", "shard-0", "head"):
            streams = begin(machines.near)
            former = (victim, machines.near.pid(victim))
            machines.near.kill(victim)
            assert [s.check().text for s in streams] == undisturbed
            machines.near.wait_standing(former)
