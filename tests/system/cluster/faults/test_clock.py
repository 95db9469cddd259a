"""The machine's clock is set back while the cluster serves: processes started later are accepted as before, and nothing fails over.

The tests load their own clock into every process: the machine's, plus the seconds in a file.
"""
import os
import shutil
import signal
import subprocess
import tempfile

import pytest
from harness import running
from streams import Stream

HOUR = 3600
PROMPT = "Write a short story about a fox."
SOURCE = '''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real)
    real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int failed = real(which, now);
  const char* path = getenv("SET_CLOCK");
  if (failed || which != CLOCK_REALTIME || !path)
    return failed;
  FILE* file = fopen(path, "re");
  long seconds = 0;
  if (file && fscanf(file, "%ld", &seconds) == 1)
    now->tv_sec += seconds;
  if (file)
    fclose(file);
  return 0;
}
'''


@pytest.fixture(scope="module")
def clock():
    compiler = shutil.which("cc") or shutil.which("gcc-12") or shutil.which("c++")
    with tempfile.TemporaryDirectory(prefix="baton-clock-") as directory:
        source, library = f"{directory}/clock.c", f"{directory}/clock.so"
        with open(source, "w") as out:
            out.write(SOURCE)
        subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        yield library


@pytest.fixture
def set_clock(clock, tmp_path, monkeypatch):
    """Sets the clock so many seconds ahead of the machine's, in running processes and in those that a test starts."""
    file = tmp_path / "seconds"

    def set_to(seconds):
        fresh = tmp_path / "seconds.new"
        fresh.write_text(str(seconds))
        fresh.replace(file)

    set_to(0)
    monkeypatch.setenv("LD_PRELOAD", clock)
    monkeypatch.setenv("SET_CLOCK", str(file))
    return set_to


def lives(cluster):
    return {p["name"]: (p["pid"], p["restarts"]) for p in cluster.status()["processes"]}


def test_a_clock_that_jumps_either_way_is_noticed_by_nobody(set_clock):
    with running() as cluster:
        undisturbed = Stream(cluster, PROMPT, max_tokens=200).check().text
        before = lives(cluster)
        for seconds in (HOUR, -HOUR, 0):
            stream = Stream(cluster, PROMPT, max_tokens=200)
            assert stream.begun.wait(60)
            set_clock(seconds)
            assert stream.check().text == undisturbed
        assert lives(cluster) == before


def test_a_process_started_after_the_clock_was_set_back_is_accepted(set_clock):
    """Each process remembers the last incarnation of its peers, and rejects earlier ones."""
    set_clock(HOUR)
    with running() as cluster:
        undisturbed = Stream(cluster, PROMPT).check().text
        set_clock(0)
        for name in ("shard-0", "gateway", "head", "agent-a"):
            pid = cluster.pid(name)
            os.kill(pid, signal.SIGKILL)
            cluster.wait_standing((name, pid))
            assert Stream(cluster, PROMPT).check().text == undisturbed


def test_a_supervisor_started_after_the_clock_was_set_back_makes_newer_incarnations(set_clock):
    """It knows its children from the previous agent; some of them ended with that agent."""
    set_clock(HOUR)
    with running() as cluster:
        undisturbed = Stream(cluster, PROMPT).check().text
        set_clock(0)
        for supervisor, child in (("agent-a", "shard-1"), ("root", "head")):
            pids = {**cluster.pids(), "root": cluster.process.pid}
            os.kill(pids[supervisor], signal.SIGSTOP)  # so that the agent does not replace it
            os.kill(pids[child], signal.SIGKILL)
            os.kill(pids[supervisor], signal.SIGKILL)
            if supervisor == "root":
                cluster.process.wait(20)
                cluster.start()
            cluster.wait_standing((child, pids[child]))
            assert Stream(cluster, PROMPT).check().text == undisturbed
