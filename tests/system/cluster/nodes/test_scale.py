"""`cluster scale` switches replicas off and on, and makes stages wider, while streams run."""
import pytest
from harness import running
from streams import MovedStream, begin_stories, texts


def scale(cluster, *words):
    return cluster.command("scale", "smollm2", str(cluster.config), *words, timeout=120)


def shards(cluster):
    return sorted(p["name"] for p in cluster.status()["processes"] if p["name"].startswith("shard-"))


@pytest.fixture(scope="module")
def replicas():
    with running(stages=1, model="replicas = 2") as c:
        c.wait_standing()
        yield c


def test_a_replica_is_switched_off_and_on_while_streams_run(replicas):
    reply = texts(begin_stories(replicas))
    streams = begin_stories(replicas, MovedStream)
    done = scale(replicas, "--replicas", "1")
    assert done.returncode == 0, done.stderr
    assert "model smollm2 has 1 replica now" in done.stdout
    assert texts(streams) == reply
    assert shards(replicas) == ["shard-0"]
    assert texts(begin_stories(replicas)) == reply
    streams = begin_stories(replicas)
    done = scale(replicas, "--replicas", "2")
    assert done.returncode == 0, done.stderr
    assert texts(streams) == reply
    replicas.wait_standing()
    assert shards(replicas) == ["shard-0", "shard-1.0-g3"]
    before = replicas.metric('baton_router_requests_total{engine="1"')
    assert texts(begin_stories(replicas)) == reply
    assert replicas.metric('baton_router_requests_total{engine="1"') > before


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--replicas", "3"), "nodes.toml has devices for 2 replicas of model smollm2, not for 3"),
        (("--replicas", "2"), "model smollm2 has 2 replicas with stages of 1 already"),
        (("--tensor-parallel-size", "2"), "of 2 ranks (model.tensor_parallel_size) are 2 shards, but the nodes have 1 devices"),
        (("--replicas", "0"), "--replicas"),
        ((), "At least 1 option from [--replicas,--tensor-parallel-size] is required"),
    ],
    ids=["too_many", "so_already", "too_wide", "none", "nothing_said"],
)
def test_what_cannot_be_is_refused_by_name(replicas, words, what):
    done = scale(replicas, *words)
    assert done.returncode in (1, 2)
    assert what in done.stderr, done.stderr


def test_a_model_that_there_is_not_is_named(replicas):
    done = replicas.command("scale", "bert", str(replicas.config), "--replicas", "1")
    assert done.returncode == 1
    assert "there is no model bert: smollm2 is served" in done.stderr


def test_stages_grow_wider_and_narrow_again_while_streams_run():
    with running(stages=2, devices=("cpu:0", "cpu:1"), kv_cache="256MiB") as c:
        reply = texts(begin_stories(c))
        streams = begin_stories(c)
        done = scale(c, "--tensor-parallel-size", "2")
        assert done.returncode == 0, done.stderr
        assert "model smollm2 has stages of 2 ranks now" in done.stdout
        moved = texts(streams)  # the earlier text stays; several ranks add in another order
        assert [len(t) > 100 for t in moved] == [True] * len(moved)
        assert shards(c) == ["shard-0-g1", "shard-1-g1"]
        wide = texts(begin_stories(c))
        assert texts(begin_stories(c)) == wide
        streams = begin_stories(c)
        c.kill("shard-1-g1")
        assert texts(streams) == wide
        done = scale(c, "--tensor-parallel-size", "1")
        assert done.returncode == 0, done.stderr
        assert shards(c) == ["shard-0-g2", "shard-1-g2"]
        assert texts(begin_stories(c)) == reply
