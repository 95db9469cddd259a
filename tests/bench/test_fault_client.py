"""What the clients of ./check faults count as wrong, and how long they say that they waited: pytest tests/bench."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fault_client  # noqa: E402
import faults  # noqa: E402


def reader():
    return fault_client.Client(port=1, number=0, tokens=3, comes_back=True)


def say(client, index, word, now, finish=None):
    client._take(f"id: 7-00ab:{index}", now)
    client._take("data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": word} if word else {}, "finish_reason": finish}]}), now)


def test_an_answer_in_two_connections_is_whole():
    client = reader()
    say(client, 1, "a", 1.0)
    say(client, 2, " b", 1.5)
    say(client, 3, " c", 4.0)  # behind the second connection
    say(client, "3!", "", 4.0, "length")
    client._take("data: [DONE]", 4.0)
    assert (client.text, client.faults()) == ("a b c", [])
    assert client.gap_after(1.2) == pytest.approx(2.5)
    assert client.gap_after(4.5) is None  # it had ended
    assert client.gap_after(1.2, within=0.1) == pytest.approx(0.5)  # the longer one began later


def test_what_repeats_or_ends_twice_or_never_is_wrong():
    client = reader()
    say(client, 2, "a", 1.0)
    say(client, 1, "a", 1.1)
    say(client, 3, "", 1.2, "length")
    assert client.faults() == ["went back from 2 to 1", "1 ends and 0 [DONE]"]
    client._take("data: " + json.dumps({"error": {"code": "pipeline_lost"}}), 1.3)
    assert client.faults() == ["error: pipeline_lost"]


def test_a_row_of_gaps_is_judged_by_its_bar_and_one_without_gaps_is_missing():
    tally = faults.Tally()
    tally.injections = 2
    assert not faults.gap("kill_stage", tally, 99, 0.15).ok
    tally.gaps = [0.01, 0.02, 0.2]
    row = faults.gap("kill_stage", tally, 50, 0.05)
    assert (row.row, row.value, row.ok, row.max) == ("kill_stage.gap.p50", 0.02, True, 0.2)
    assert not faults.gap("kill_stage", tally, 99, 0.15).ok


def test_texts_that_differ_and_streams_that_broke_are_two_rows():
    tally = faults.Tally()
    tally.injections, tally.compared, tally.different, tally.faults = 1, 16, 1, ["error: pipeline_lost"]
    wrong, same = faults.of_texts("kill_head", tally)
    assert (wrong.ok, wrong.reason, same.ok, same.value) == (False, "error: pipeline_lost", False, 15 / 16)
