"""A request that ends every shard which computes it, among others: it alone does not get its answer."""
import pytest
from harness import BUILD, running
from streams import Stream

POISONED = BUILD / "tests/system/cluster/cluster_poisoned"  # see its source for the words
DEATHS_MAX = 2  # in company, then alone
PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain", "a bridge")]


@pytest.fixture(scope="module")
def poisoned():
    with running(binary=POISONED) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def undisturbed(poisoned):
    return [Stream(poisoned, p).check().text for p in PROMPTS]


@pytest.mark.parametrize("word, shard", [("rhizomes", "shard-0"), ("whooping", "shard-1")])
def test_a_request_that_ends_the_shard_is_quarantined_and_nobody_else_is(poisoned, undisturbed, word, shard):
    def deaths():
        return {p["name"]: p["restarts"] for p in poisoned.status()["processes"]}

    before = deaths()
    streams = [Stream(poisoned, p) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    culprit = Stream(poisoned, f"Write a short story about {word}.")
    culprit.join(60)
    assert (culprit.status, culprit.error["code"]) == (500, "quarantined")  # it died before its first token
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    died = {name: n - before[name] for name, n in deaths().items() if n > before[name]}
    assert died == {shard: DEATHS_MAX}
    assert "signal 6" in poisoned.log("agent-a")
    poisoned.wait_ready()
    assert Stream(poisoned, PROMPTS[0]).check().text == undisturbed[0]
