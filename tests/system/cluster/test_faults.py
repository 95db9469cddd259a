"""kill -9 and what a client sees of it: for a shard nothing but the pace."""
import http.client
import json
import os
import signal
import time

import pytest
from harness import running
from streams import Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain", "a bridge", "bread", "the moon", "a train")]


@pytest.fixture(scope="module")
def undisturbed(shared):
    return [Stream(shared, p, max_tokens=96).check().text for p in PROMPTS]


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_killed_shard_changes_nothing_but_the_pace(fresh, undisturbed, shard):
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill(shard)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    restarts = {p["name"]: p["restarts"] for p in fresh.status()["processes"]}
    assert restarts[shard] == 1
    assert "KV kept" in fresh.log("head")


def test_a_killed_shard_finds_its_q8_0_keys_and_values_again():
    with running(model='kv_cache_dtype = "q8_0"') as cluster:
        assert "KV q8_0: " in cluster.output.read_text()
        undisturbed = [Stream(cluster, p, max_tokens=96).check().text for p in PROMPTS[:4]]
        streams = [Stream(cluster, p, max_tokens=96) for p in PROMPTS[:4]]
        for s in streams:
            assert s.begun.wait(60)
        cluster.kill("shard-0")
        for s, expected in zip(streams, undisturbed):
            assert s.check().text == expected
        assert "KV kept" in cluster.log("head")


def test_a_crashed_shard_takes_its_kv_with_it_and_the_text_is_the_same(fresh, undisturbed):
    """What faulted may have written anywhere: its memory is not trusted."""
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill("shard-1", signal.SIGSEGV)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert "KV lost" in fresh.log("head") and "KV kept" not in fresh.log("head")


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_shard_that_hangs_is_found_killed_and_replaced(fresh, undisturbed, shard):
    """A stopped process has its sockets and answers nothing: only its silence tells."""
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
    for s in streams:
        assert s.begun.wait(60)
    begin = time.monotonic()
    fresh.kill(shard, signal.SIGSTOP)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert time.monotonic() - begin < 30  # the bound of a pipeline that does not come back is 60
    restarts = {p["name"]: p["restarts"] for p in fresh.status()["processes"]}
    assert restarts[shard] == 1
    assert "does not answer: killed" in fresh.log("agent-a")
    assert "KV kept" in fresh.log("head")


@pytest.mark.parametrize("process", ["head", "gateway"])
def test_a_head_or_gateway_that_hangs_is_replaced(fresh, process):
    pid = fresh.pid(process)
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while fresh.pid(process) in (0, pid) or fresh.health()[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    fresh.wait_ready()
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_a_killed_agent_takes_its_shards_and_the_streams_go_on(fresh, undisturbed):
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill("agent-a")
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected


def test_a_killed_gateway_is_back_and_its_requests_are_freed(fresh):
    stream = Stream(fresh, PROMPTS[0], max_tokens=2000)
    assert stream.begun.wait(60)
    fresh.kill("gateway")
    stream.join(30)
    assert stream.terminals == 0  # its connection is gone; resuming is not in this version
    deadline = time.monotonic() + 30
    while fresh.health()[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_a_killed_head_ends_open_streams_with_one_error_and_serves_again(fresh):
    stream = Stream(fresh, PROMPTS[0], max_tokens=2000)
    assert stream.begun.wait(60)
    fresh.kill("head")
    stream.check()
    assert stream.error["code"] == "pipeline_lost"
    fresh.wait_ready()
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_streams_go_on_without_the_root_and_down_ends_the_rest():
    with running() as cluster:
        stream = Stream(cluster, PROMPTS[0], max_tokens=200)
        assert stream.begun.wait(60)
        os.kill(cluster.process.pid, signal.SIGKILL)
        stream.check()
        assert cluster.command("down", str(cluster.config)).returncode == 0
        assert cluster.health()[0] == 0


def wait_load(cluster, is_so, seconds=30):
    """The load is reported four times a second."""
    deadline = time.monotonic() + seconds
    while not is_so(cluster.status()["load"]):
        assert time.monotonic() < deadline, cluster.status()["load"]
        time.sleep(0.1)


def test_a_client_that_goes_away_frees_its_blocks(fresh):
    connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({"model": "smollm2", "prompt": "Once", "max_tokens": 4000, "stream": True,
                                                              "ignore_eos": True}))
    connection.getresponse().readline()
    wait_load(fresh, lambda load: load["running"] == 1)
    connection.close()
    wait_load(fresh, lambda load: load["running"] == 0 and load["kv_blocks_used"] == 0)


def test_sigterm_drains():
    with running() as cluster:
        stream = Stream(cluster, PROMPTS[1], max_tokens=150)
        assert stream.begun.wait(60)
        cluster.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while True:
            status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})
            if status == 503 and body["error"]["code"] == "draining":
                break
            assert time.monotonic() < deadline, body
        assert int(headers["Retry-After"]) >= 1
        stream.check()
        assert stream.finish in ("stop", "length")
        assert cluster.process.wait(30) == 0


def test_job_tickets_refuse_at_once_when_no_slot_is_free():
    with running(model="max_num_seqs = 2\nuse_job_ticket = true") as cluster:
        busy = [Stream(cluster, p, max_tokens=300, ignore_eos=True) for p in PROMPTS[:2]]
        for s in busy:
            assert s.begun.wait(60)
        status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})
        assert (status, body["error"]["code"]) == (503, "no_job_ticket")
        assert int(headers["Retry-After"]) >= 1
        assert all(s.is_alive() for s in busy)  # it did not wait for a slot
        for s in busy:
            s.check()


def test_the_queue_is_bounded():
    with running(model="max_num_seqs = 1\nmax_num_queued_reqs = 2") as cluster:
        streams = [Stream(cluster, p, max_tokens=60, ignore_eos=True) for p in PROMPTS]
        for s in streams:
            s.join(120)
        refused = [s for s in streams if s.status == 503]
        assert {s.error["code"] for s in refused} == {"overloaded"}
        for s in streams:
            if s.status == 200:
                s.check()
        assert 1 <= len(refused) <= 7
