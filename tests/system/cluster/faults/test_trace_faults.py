"""Traces of a real cluster: a stage that is killed in the middle of an answer is an event of its span, and the answer is the same."""
import sys

import pytest
from harness import ROOT, running
from streams import Stream

sys.path.append(str(ROOT / "tests" / "system" / "doors"))

from collector import collecting  # noqa: E402


@pytest.fixture
def traced():
    with collecting() as collector, running(gateway=f'otlp_endpoint = "{collector.url}"') as cluster:
        yield cluster, collector


def test_a_killed_stage_is_an_event_of_the_span(traced):
    cluster, collector = traced
    undisturbed = Stream(cluster, "Write a short story about rain.", max_tokens=160).check()
    for shard in ("shard-0", "shard-1"):
        stream = Stream(cluster, "Write a short story about rain.", max_tokens=160)
        assert stream.begun.wait(60)
        cluster.kill(shard)
        stream.check()
        assert stream.error is None and stream.text == undisturbed.text
        cluster.wait_standing()
    first, *others = sorted(collector.servers(3), key=lambda s: s.begin)
    assert len(others) == 2
    assert first.events == [] and first.error is None
    for server in (first, *others):
        assert server.name == "chat smollm2" and server.attributes["gen_ai.usage.output_tokens"] == undisturbed.usage["completion_tokens"]
        assert server.attributes["gen_ai.usage.input_tokens"] == undisturbed.usage["prompt_tokens"]
        assert set(collector.below(server)) == {"queue", "prefill", "decode"}
    for server in others:
        assert [name for name, _ in server.events] == ["recovering", "recovered"], server.events
        assert server.error is None


def test_a_killed_head_is_an_event_of_the_span(traced):
    cluster, collector = traced
    stream = Stream(cluster, "Write a short story about rain.", max_tokens=160)
    assert stream.begun.wait(60)
    cluster.kill("head")
    stream.check()
    assert stream.error is None
    server = collector.servers()[0]
    names = [name for name, _ in server.events]
    assert names[0] == "head_lost" and "resumed" in names and server.error is None
    assert server.attributes["gen_ai.usage.output_tokens"] == stream.usage["completion_tokens"]
