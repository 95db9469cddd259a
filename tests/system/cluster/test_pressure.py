"""Who gives way when slots and KV blocks run out, and that nobody's text can tell."""
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
