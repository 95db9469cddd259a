"""What ./check starts is ended by silence or by a deadline, with its children, and is not ended while it writes."""
import os
import signal
import subprocess
import sys
import time

import child_process
import pytest

WRITES = "import time\nfor i in range({lines}):\n    print(i, flush=True)\n    time.sleep({pause})\n"


@pytest.mark.parametrize("now, deadline, silence, why", [
    (99, 100, 30, ""),  # output at 90
    (100, 100, 30, "ran past 100 s"),
    (119, None, 30, ""),
    (120, None, 30, "wrote nothing for 30 s"),
    (10**6, None, None, ""),
])
def test_which_deadline_has_passed(now, deadline, silence, why):
    assert child_process.why_over(now, 0, 90, deadline, silence) == why
    left = child_process.wait_seconds(now, 0, 90, deadline, silence)
    assert left is None if deadline is silence is None else (left <= 0) == bool(why)


def test_the_last_of_a_text_is_kept():
    tail = child_process.Tail(bytes_max=10)
    for i in range(100):
        tail.add(f"{i:02} ".encode())
    assert tail.text() == " 97 98 99 "
    tail = child_process.Tail(bytes_max=3)
    tail.add("aä".encode())
    tail.add(b"\xff")  # no UTF-8
    assert tail.text() == "ä\N{REPLACEMENT CHARACTER}"


def test_a_command_that_ends_by_itself_has_its_status_and_output():
    assert child_process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], deadline=60) == (3, "out\nerr\n")
    assert child_process.run(["sh", "-c", "cat; echo $TOLD"], env={"TOLD": "yes"}, silence=60) == (0, "yes\n")  # nothing to read


def test_occasional_output_prevents_the_silence_limit():
    status, out = child_process.run([sys.executable, "-c", WRITES.format(lines=12, pause=0.25)], silence=2)
    assert status == 0 and out.split() == [str(i) for i in range(12)]  # three seconds


def test_a_silent_command_is_ended_with_its_children_and_its_output_is_kept(tmp_path):
    script = f"sleep 600 & echo $! >{tmp_path}/pid; echo last words; wait"
    status, out = child_process.run(["bash", "-c", script], silence=0.5)
    assert (status, out) == (child_process.ENDED_BY_DEADLINE, "last words\n\n... wrote nothing for 0 s")
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_deadline_ends_a_command_that_writes_all_the_time():
    status, out = child_process.run([sys.executable, "-c", WRITES.format(lines=10**6, pause=0.05)], deadline=1)
    assert status == child_process.ENDED_BY_DEADLINE and out.endswith("... ran past 1 s")


def test_a_child_that_outlives_the_command_causes_no_wait():
    begun = time.monotonic()
    status, out = child_process.run(["bash", "-c", "sleep 60 & echo done"], deadline=50)
    assert (status, out) == (0, "done\n") and time.monotonic() - begun < 30


def test_a_signal_ends_what_runs_on_any_thread(tmp_path):
    script = f"""
import concurrent.futures, sys
sys.path.insert(0, {os.path.dirname(child_process.__file__)!r})
import child_process
child_process.end_all_on_signals()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    print(list(pool.map(lambda name: child_process.run(["bash", "-c", f"echo $$ >{tmp_path}/{{name}}; exec sleep 600"]), ("a", "b"))))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    files = [tmp_path / "a", tmp_path / "b"]
    deadline = time.monotonic() + 30
    while not all(f.exists() and f.read_text() for f in files):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert all(is_gone(int(f.read_text())) for f in files)


def is_gone(pid):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":  # nobody reaps it in a container without init
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
