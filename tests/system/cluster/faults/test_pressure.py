"""Preemption when slots and KV blocks run out, without any effect on texts."""
import time

import pytest
from harness import running
from streams import Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain", "a bridge", "bread", "the moon", "a train")]


@pytest.fixture(scope="module")
def undisturbed(shared):
    return [Stream(shared, p, max_tokens=96).check().text for p in PROMPTS]


def test_a_priority_is_refused_where_requests_are_served_as_they_come(shared):
    status, _, body = shared.post("/v1/completions", {"model": "smollm2", "prompt": "Hello", "priority": -1})
    assert (status, body["error"]["param"]) == (400, "priority")
    assert "scheduling_policy" in body["error"]["message"]
    assert shared.post("/v1/completions", {"model": "smollm2", "prompt": "Hello", "priority": 0, "max_tokens": 1})[0] == 200


def test_the_more_important_request_takes_the_slot_and_the_other_goes_on_with_the_same_text(undisturbed):
    with running(model='scheduling_policy = "priority"\nmax_num_seqs = 1') as cluster:
        low = Stream(cluster, PROMPTS[0], max_tokens=96, priority=5)
        assert low.begun.wait(60)
        high = Stream(cluster, PROMPTS[1], max_tokens=96, priority=-5).check()
        assert not low.terminals
        assert (high.text, low.check().text) == (undisturbed[1], undisturbed[0])
        assert cluster.metric("vllm:num_preemptions_total") >= 1


SQUEEZE = {"model": 'swap_space = "64MiB"\nmax_model_len = 512', "kv_cache": "20MiB"}  # 13 blocks for eight streams of 3


@pytest.fixture(scope="module")
def unsqueezed(shared):
    return [Stream(shared, p, max_tokens=150).check().text for p in PROMPTS]


def test_streams_that_are_swapped_out_and_back_have_the_same_texts(unsqueezed):
    with running(**SQUEEZE) as cluster:
        streams = [Stream(cluster, p, max_tokens=150) for p in PROMPTS]
        assert [s.check().text for s in streams] == unsqueezed
        deadline = time.monotonic() + 10
        while cluster.metric("baton_swapped_in_blocks_total") == 0 or cluster.metric("baton_swap_blocks_used") > 0:
            assert time.monotonic() < deadline, "nothing was swapped, or something is left"
            time.sleep(0.1)
        assert cluster.metric("vllm:num_requests_swapped") == 0
        assert not [f for f in (cluster.directory / "run").iterdir() if "swap" in f.name]


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_shard_killed_while_streams_are_swapped_out_changes_no_text(unsqueezed, shard):
    with running(**SQUEEZE) as cluster:
        streams = [Stream(cluster, p, max_tokens=150) for p in PROMPTS]
        deadline = time.monotonic() + 60
        while cluster.metric("baton_swapped_out_blocks_total") == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        cluster.kill(shard)
        assert [s.check().text for s in streams] == unsqueezed
        assert cluster.metric("baton_recoveries_total") >= 1


def test_a_request_that_is_not_served_in_time_is_408_in_the_queue_and_504_in_compute():
    endless = {"max_tokens": 4000, "ignore_eos": True}
    with running(model="max_num_seqs = 1\nqueue_timeout = 1", gateway="request_timeout = 4") as cluster:
        busy = Stream(cluster, PROMPTS[0], **endless)
        assert busy.begun.wait(60)
        status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "Hello"})
        assert (status, body["error"]["code"]) == (408, "queue_timeout")
        assert int(headers["Retry-After"]) >= 1
        assert not busy.terminals
        assert busy.check().error["code"] == "deadline_exceeded"  # it had begun: its last event says so
        status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "Hello", **endless})
        assert (status, body["error"]["code"]) == (504, "deadline_exceeded")
        assert int(headers["Retry-After"]) >= 1
