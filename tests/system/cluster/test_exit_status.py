"""How `cluster up` ends says whether it ended cleanly: service managers and scripts go by it (docs/operations.md has the table)."""
import os
import signal
import time

from harness import running
from streams import Stream

CLEAN, STREAMS_CUT, PROCESS_FAILED = 0, 4, 5  # cluster/root_end.hpp
PROMPT = "Write a short story about a fox."
AGENT_RESTARTS_MAX = 3  # within 300 s: actors/restart.hpp


def endless(cluster):
    stream = Stream(cluster, PROMPT, max_tokens=4000, ignore_eos=True)
    assert stream.begun.wait(60)
    return stream


def ended(cluster, seconds=60):
    """-> (exit status, what it said last)"""
    status = cluster.process.wait(seconds)
    return status, cluster.output.read_text().splitlines()[-1]


def wait_until(is_so, seconds=30):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_open_and_everybody_goes():
    with running(cluster="shutdown_timeout = 0") as cluster:
        Stream(cluster, PROMPT).check()
        cluster.process.send_signal(signal.SIGTERM)
        assert ended(cluster) == (CLEAN, "stopped")


def test_streams_that_are_open_when_the_grace_is_over_are_told():
    with running(cluster="shutdown_timeout = 1") as cluster:
        stream = endless(cluster)
        cluster.process.send_signal(signal.SIGTERM)
        status, said = ended(cluster)
        assert status == STREAMS_CUT
        assert said == "stopped, not cleanly: streams were cut after 1000 ms of grace (gateway: 1 open requests)"
        stream.join(10)
        assert stream.finish is None


def test_streams_that_are_open_at_a_second_signal_are_told():
    with running() as cluster:
        endless(cluster)
        cluster.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        cluster.process.send_signal(signal.SIGINT)
        status, said = ended(cluster)
        assert status == STREAMS_CUT
        assert said == "stopped, not cleanly: streams were cut because it was asked again (gateway: 1 open requests)"


def test_a_gateway_that_is_lost_while_it_drains_is_told():
    with running() as cluster:
        endless(cluster)
        gateway = cluster.pid("gateway")
        cluster.process.send_signal(signal.SIGTERM)
        wait_until(lambda: cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})[0] == 503)
        os.kill(gateway, signal.SIGKILL)
        assert ended(cluster) == (STREAMS_CUT, "stopped, not cleanly: gateway was lost while it drained")


def test_shards_that_had_to_be_killed_are_told():
    with running() as cluster:
        cluster.kill("shard-1", signal.SIGSTOP)
        cluster.process.send_signal(signal.SIGTERM)
        status, said = ended(cluster)
        assert (status, said) == (PROCESS_FAILED, "stopped, not cleanly: agent-a while it was stopped: exit status 5")
        assert "shard-1 while it was stopped: killed by signal 9" in cluster.log("agent-a")


def test_a_process_that_was_given_up_is_told_and_leaves_nobody_behind():
    with running() as cluster:
        pids = cluster.pids()
        for restarts in range(AGENT_RESTARTS_MAX + 1):
            was = cluster.pid("agent-a")
            os.kill(was, signal.SIGKILL)
            if restarts < AGENT_RESTARTS_MAX:
                cluster.wait_standing(("agent-a", was))
        wait_until(lambda: cluster.health()[0] == 503)
        why = "agent-a: crash_loop: more than 3 restarts in 300 s; last: killed by signal 9 (Killed)"
        assert cluster.health()[1]["reason"].startswith(why)
        told = cluster.status()
        assert (told["phase"], told["reason"].startswith(why)) == ("failed", True)
        assert os.path.exists(f"/proc/{pids['shard-0']}")  # shards go on without it
        cluster.process.send_signal(signal.SIGTERM)
        status, said = ended(cluster)
        assert status == PROCESS_FAILED
        assert said.startswith("stopped, not cleanly: " + why)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()))  # whoever adopted the orphans reaps them
