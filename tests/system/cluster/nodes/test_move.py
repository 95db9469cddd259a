"""A pipeline that does not come back: its streams move to another pipeline of the model, with the same text."""
import os
import signal
import time

import pytest
from harness import running
from streams import MovedStream, begin_stories, texts

SECONDS_MAX = 60  # of machines that do other things as well; without a move they would never end
MOVED = 'baton_streams_moved_total{engine="1"'


def begin(cluster):
    return begin_stories(cluster, MovedStream, tokens=192)


@pytest.mark.parametrize("lost", [("agent-a", "shard-1.0"), ("head-1",)], ids=lambda lost: lost[-1])
def test_streams_move_when_their_pipeline_stays_away(lost):
    with running(stages=1, model="replicas = 2\nrecovery_timeout = 60") as cluster:
        cluster.wait_standing()
        undisturbed = texts(begin(cluster))
        assert cluster.metric("baton_streams_moved_total") == 0
        pids = cluster.pids()
        streams = begin(cluster)
        former = [s.ticket for s in streams]
        cluster.process.kill()  # the root; the agent is gone too, so no process can restart anything
        cluster.process.wait()
        for name in lost:
            os.kill(pids[name], signal.SIGKILL)
        died = time.monotonic()
        assert cluster.post("/v1/completions", {"model": "smollm2", "prompt": "Once", "max_tokens": 4})[0] == 200
        assert texts(streams) == undisturbed
        assert time.monotonic() - died < SECONDS_MAX
        moved = [s for s, ticket in zip(streams, former) if s.ticket != ticket]
        assert len(moved) == 4 == cluster.metric(MOVED)
        assert {int(s.ticket.split("-")[0]) % 64 for s in streams} == {0}
