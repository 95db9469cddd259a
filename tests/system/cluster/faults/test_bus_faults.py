"""Real processes with a bus that delays, loses, corrupts and doubles messages. The link notices, and streams continue."""
import random
import time

import bus_faults
import pytest
from bus_proxy import Between
from harness import running
from streams import Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain", "a bridge")]
TOKENS = 192
HIT_SECONDS_MAX = 10
FAULT_SECONDS = 2.5  # above the links' heartbeat_timeout
RECOVERED_SECONDS_MAX = 30
LINKS = [("head", "gateway"), ("head", "shard-1")]
STAGES = ("shard-0", "shard-1")
FAULTS = [bus_faults.Delay, bus_faults.Stall, bus_faults.Drop, bus_faults.Truncate, bus_faults.Flip, bus_faults.Duplicate, bus_faults.Reorder,
          bus_faults.CutInside]
CASES = [(f, link) for f in FAULTS for link in LINKS] + [(f, STAGES) for f in (bus_faults.Drop, bus_faults.Flip, bus_faults.Duplicate)]


@pytest.fixture(scope="module")
def cluster():
    with running() as one:
        yield one


def ask(cluster):
    return [Stream(cluster, p, max_tokens=TOKENS, ignore_eos=True) for p in PROMPTS]


@pytest.fixture(scope="module")
def undisturbed(cluster):
    return [s.check().text for s in ask(cluster)]


def lives(cluster):
    return {p["name"]: (p["pid"], p["restarts"]) for p in cluster.status()["processes"]}


def falls(cluster, link):
    return sum(cluster.log(name).count(" is down (") for name in link)


def recovered(cluster):
    """Waits until the cluster is ready, and still ready half a second later."""
    deadline, since = time.monotonic() + RECOVERED_SECONDS_MAX, None
    while since is None or time.monotonic() < since + 0.5:
        assert time.monotonic() < deadline, (cluster.health(), cluster.logs())
        is_ready = cluster.health()[0] == 200 and cluster.status()["phase"] == "ready"
        since = (since or time.monotonic()) if is_ready else None
        time.sleep(0.05)


def judge(cluster, undisturbed, link, strike):
    """Runs all streams with the fault in their middle, and checks the results. -> how often the link fell"""
    before = lives(cluster)
    with Between(cluster, *link) as between:
        recovered(cluster)
        fallen = falls(cluster, link)
        streams = ask(cluster)
        for s in streams:
            assert s.begun.wait(60)
        hits = strike(between)
        hit_by = time.monotonic() + HIT_SECONDS_MAX
        while not all(h.hits for h in hits):
            assert time.monotonic() < hit_by, [h.hits for h in hits]
            time.sleep(0.005)
        assert any(s.is_alive() for s in streams)  # hit while they ran
        time.sleep(FAULT_SECONDS)
        between.heal()
        for s, expected in zip(streams, undisturbed):
            s.check()  # one end
            assert s.error or s.text == expected
            assert s.error is None or (s.error["code"] and expected.startswith(s.text)), s.error
        recovered(cluster)
        text = Stream(cluster, PROMPTS[0], max_tokens=32, ignore_eos=True).check().text
        assert text and undisturbed[0].startswith(text)
        fallen = falls(cluster, link) - fallen
        assert not between.there.broken + between.back.broken
    recovered(cluster)
    assert lives(cluster) == before
    print(f"{link}: {[h.hits for h in hits]} hits, the link fell {fallen} times, {sum(s.error is not None for s in streams)} errors")
    return fallen


@pytest.mark.parametrize("fault, link", CASES, ids=lambda x: "-".join(x) if isinstance(x, tuple) else x.__name__)
def test_a_bad_bus_ends_no_stream(cluster, undisturbed, fault, link):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    fallen = judge(cluster, undisturbed, link, lambda between: between.strike(fault, seed))
    assert fallen > 0 or fault is bus_faults.Delay


@pytest.mark.parametrize("link", LINKS, ids="-".join)
@pytest.mark.parametrize("mute", [0, 1], ids=["first", "second"])
def test_a_half_open_link_ends_no_stream(cluster, undisturbed, link, mute):
    link = link[::-1] if mute else link
    assert judge(cluster, undisturbed, link, lambda between: between.strike(bus_faults.Swallow, 0, both=False)) > 0
