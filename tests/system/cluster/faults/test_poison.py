"""Failing engines: requests that crash every shard that computes them, steps that hang, steps that run out of memory. Only the offending
client notices."""
import time

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


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """-> (a cluster whose engines do what a file asks for, once; {what: that file})"""
    files = {what: tmp_path / what for what in ("BATON_TEST_HANG", "BATON_TEST_OOM")}
    for what, file in files.items():
        monkeypatch.setenv(what, str(file))
    with running(binary=POISONED) as cluster:
        yield cluster, files


def gone(file, seconds=30):
    deadline = time.monotonic() + seconds
    while file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_step_that_never_returns_is_found_while_its_process_goes_on_answering(asked, undisturbed):
    cluster, files = asked
    before = {p["name"]: p["restarts"] for p in cluster.status()["processes"]}
    assert Stream(cluster, PROMPTS[0]).check().text == undisturbed[0]  # the engines know how long steps take
    streams = [Stream(cluster, p) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    files["BATON_TEST_HANG"].touch()
    gone(files["BATON_TEST_HANG"])
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    hung = {name for name in ("shard-0", "shard-1") if "the engine hangs, the process ends" in cluster.log(name)}
    restarts = {p["name"]: p["restarts"] - before[p["name"]] for p in cluster.status()["processes"]}
    assert {name for name, n in restarts.items() if n} == hung and len(hung) == 1, restarts
    assert "exit status 70" in cluster.log("agent-a")
    cluster.wait_ready()


def test_a_step_without_memory_ends_no_process_and_its_rows_are_done_again_alone(asked, undisturbed):
    """A sequence that always needs too much memory ends alone: tests/unit/actors/flow_test.cpp."""
    cluster, files = asked
    before = cluster.pids()
    streams = [Stream(cluster, p) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    files["BATON_TEST_OOM"].touch()
    gone(files["BATON_TEST_OOM"])
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert cluster.pids() == before
