"""Several pipelines behind one gateway: replicas of a model, and several models. A failure in one does not affect the others."""
import signal
import time

import pytest
from harness import MODEL, running
from machines import two_machines
from streams import MovedStream, begin_stories, texts

LONG = "Here is what happened, day by day. " + " ".join(f"On day {n} it rained in the village and nobody went out." for n in range(60))


def pipelines(cluster):
    return cluster.status()["pipelines"]


@pytest.fixture(scope="module")
def cluster():
    with running(stages=1, model="replicas = 2") as c:
        c.wait_standing()  # the cluster serves as soon as one of them does
        yield c


@pytest.fixture(scope="module")
def undisturbed(cluster):
    found = texts(begin_stories(cluster))
    assert all(len(text) > 100 for text in found)
    return found


def test_both_replicas_serve_and_say_the_same(cluster, undisturbed):
    names = {p["name"] for p in cluster.status()["processes"]}
    assert {"head", "head-1", "shard-0", "shard-1.0"} <= names
    assert [p["model"] for p in pipelines(cluster)] == ["smollm2", "smollm2"]
    for _ in range(3):
        before = [cluster.metric(f'baton_router_requests_total{{engine="{n}"') for n in (0, 1)]
        assert texts(begin_stories(cluster)) == undisturbed
        sent = [cluster.metric(f'baton_router_requests_total{{engine="{n}"') - b for n, b in enumerate(before)]
        assert sent == [4, 4]


def test_a_prompt_goes_where_its_beginning_was_computed(cluster):
    def ask(number):
        status, _, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": f"{LONG} And then, {number},", "max_tokens": 4})
        assert status == 200
        return body

    ask(0)
    time.sleep(0.5)  # the head's report
    before = cluster.metric("baton_prefix_cache_hits_total")
    for number in range(1, 7):
        ask(number)
    time.sleep(0.5)
    assert cluster.metric("baton_prefix_cache_hits_total") - before > 6 * 600


@pytest.mark.parametrize("victim", ["shard-1.0", "head-1", "shard-0", "head"])
def test_a_failure_in_one_replica_does_not_affect_the_other(cluster, undisturbed, victim):
    streams = begin_stories(cluster)
    former = cluster.pid(victim)
    cluster.kill(victim)
    assert cluster.health()[0] == 200  # the other one serves
    assert texts(streams) == undisturbed
    cluster.wait_standing((victim, former))
    assert texts(begin_stories(cluster)) == undisturbed


def test_clients_come_back_to_their_pipeline_when_the_gateway_is_gone(cluster, undisturbed):
    streams = begin_stories(cluster)
    former = cluster.pid("gateway")
    cluster.kill("gateway")
    for s in streams:
        s.join(60)
    cluster.wait_standing(("gateway", former))
    for s, text in zip(streams, undisturbed):
        if s.finish is None:
            s.broken.clear()
            s.status = s.error = None
            s.read()
        assert s.text == text


def test_two_models_in_one_cluster():
    models = "".join(f'[[models]]\nname = "{name}"\npath = "{MODEL}"\nkv_cache_bytes = "256MiB"\n{more}\n'
                     for name, more in (("large", ""), ("small", "max_model_len = 512")))
    with running(models=models) as c:
        status, _, listed = c.post("/v1/completions", {"model": "none", "prompt": "x"})
        assert (status, listed["error"]["code"]) == (404, "model_not_found")
        assert "large" in listed["error"]["message"] and "small" in listed["error"]["message"]
        answers = {}
        for name in ("large", "small"):
            status, _, body = c.post("/v1/completions", {"model": name, "prompt": "Once upon a time", "max_tokens": 16, "temperature": 0})
            assert (status, body["model"]) == (200, name)
            answers[name] = body["choices"][0]["text"]
        assert answers["large"] == answers["small"] != ""
        long = {"prompt": "word " * 600, "max_tokens": 4}
        assert c.post("/v1/completions", {"model": "large", **long})[0] == 200
        assert c.post("/v1/completions", {"model": "small", **long})[0] == 400  # its own limits
        assert [p["model"] for p in pipelines(c)] == ["large", "small"]
        c.kill("shard-1.0", signal.SIGSTOP)  # neither holds up the other
        assert c.post("/v1/completions", {"model": "large", "prompt": "Once", "max_tokens": 4}, timeout=5)[0] == 200
        c.kill("shard-1.0", signal.SIGCONT)


NODES = """
[[nodes]]
name = "b"
devices = ["cpu:1"]
[[nodes]]
name = "c"
devices = ["cpu"]
"""


def test_a_node_of_one_replica_is_drained_and_added_while_both_serve():
    with running(devices=("cpu:0", "cpu"), nodes=NODES, stages=2, model="replicas = 2", kv_cache="192MiB") as c:
        reply = texts(begin_stories(c))
        for command in ("drain", "add-node"):
            streams = begin_stories(c)
            done = c.command(command, "c", str(c.config), timeout=120)
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert texts(streams) == reply
        generations = [p["generation"] for p in pipelines(c)]
        assert generations[0] == 0 and generations[1] > 2  # the other one had no part in it
        assert "shard-1.1-g3" in {p["name"] for p in c.status()["processes"]}
        done = c.command("drain", "a", str(c.config))  # and with it the whole first replica
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert texts(begin_stories(c)) == reply


WAITING = """
[[nodes]]
name = "b"
devices = ["cpu:1"]
waits = true
"""


def test_a_replica_comes_and_goes_with_its_node():
    with running(devices=("cpu:0",), nodes=WAITING, stages=1, model="replicas = 2") as c:
        assert {p["name"]: p["phase"] for p in c.status()["processes"]} == dict.fromkeys(("head", "head-1", "gateway", "agent-a", "agent-b", "shard-0"), "ready")
        reply = texts(begin_stories(c))
        for _ in range(2):
            streams = begin_stories(c)
            assert c.command("add-node", "b", str(c.config), timeout=120).returncode == 0
            assert texts(streams) == reply
            before = c.metric('baton_router_requests_total{engine="1"')
            streams = begin_stories(c, MovedStream)
            assert c.metric('baton_router_requests_total{engine="1"') - before == 4
            done = c.command("drain", "b", str(c.config), timeout=120)  # and with it, half of the streams
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert texts(streams) == reply
            assert sorted(s.moves for s in streams) == [0, 0, 0, 0, 1, 1, 1, 1]
            assert [p["name"] for p in c.status()["processes"] if p["name"].startswith("shard")] == ["shard-0"]
        refused = c.command("drain", "a", str(c.config))
        assert refused.returncode == 1 and "no device is left for the layers of model smollm2" in refused.stderr, refused


def test_replicas_on_two_machines_are_nothing_to_one_another():
    with two_machines(model="replicas = 2", stages=1) as both:
        both.near.wait_standing()
        assert list((both.far.directory / "run").glob("shard-1.0*")), "the second replica is the other machine's"
        reply = texts(begin_stories(both.near))
        for victim in ("shard-1.0", "head-1"):  # the head of a replica is the root's machine's
            streams = begin_stories(both.near)
            former = both.near.pid(victim)
            both.near.kill(victim)
            assert texts(streams) == reply
            both.near.wait_standing((victim, former))
        before = both.near.metric('baton_router_requests_total{engine="1"')
        streams = begin_stories(both.near, MovedStream)
        moved = both.near.metric('baton_router_requests_total{engine="1"') - before
        both.far.vanish()
        assert texts(streams) == reply
        assert sum(s.moves for s in streams) == moved == 4
        both.far.join(both.invitation()["endpoint"])
        both.near.wait_standing()
        assert texts(begin_stories(both.near)) == reply
