"""Which rows --resume of ./check faults takes from an earlier run, and which it repeats: pytest tests/bench."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import report  # noqa: E402
from sections import resumed  # noqa: E402

GOOD = [report.judged("kill.gap", 0.1, "s", 1, lower_is_better=True, low=0.01, high=0.2, rounds=100), report.judged("kill.same", 1.0, "share", 1)]
SETTINGS = {"injections": 100}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "faults.jsonl"


def test_rows_come_back_as_they_were(path):
    resumed.Book(path, "abc", SETTINGS).keep("kill", GOOD)
    assert resumed.Book(path, "abc", SETTINGS).find("kill") == GOOD


def test_a_result_of_another_commit_is_made_again(path):
    resumed.Book(path, "abc", SETTINGS).keep("kill", GOOD)
    assert resumed.Book(path, "abd", SETTINGS).find("kill") is None
    assert resumed.Book(path, "abc", {"injections": 4}).find("kill") is None
    assert resumed.Book(path, "abc", SETTINGS).find("stop") is None


def test_the_newest_counts_and_what_did_not_run_is_tried_again(path):
    book = resumed.Book(path, "abc", SETTINGS)
    book.keep("kill", GOOD)
    book.keep("kill", [report.missing("kill", "no server")])
    assert book.find("kill") is None
    slow = [report.judged("kill.gap", 2.0, "s", 1, lower_is_better=True)]
    book.keep("kill", slow)
    assert book.find("kill") == slow  # a bar that was missed stays missed


def test_changes_that_are_not_committed_are_nobodys(tmp_path):
    git = lambda *words: subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True)
    git("init", "-q")
    for name in ("gateway", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("1")
    git("add", "-A")
    git("commit", "-qm", "x")
    first = resumed.product(tmp_path)
    assert first
    (tmp_path / "docs" / "a").write_text("2")
    git("commit", "-qam", "y")
    assert resumed.product(tmp_path) == first
    (tmp_path / "gateway" / "a").write_text("2")
    assert resumed.product(tmp_path) is None
    book = resumed.Book(tmp_path / "book", None, SETTINGS)
    book.keep("kill", GOOD)
    assert book.find("kill") is None
