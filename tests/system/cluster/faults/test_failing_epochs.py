"""Ranks that cannot reduce from the first step on, as when NCCL rejects two ranks on one GPU. The cluster reports it, tries a new
epoch now and then, and recovers by itself.

The engine is a library on a device of plain loops (tests/support/plain_device.cpp), which fails while a file exists."""
import contextlib
import os
import subprocess
import threading
import time

import pytest
from harness import BUILD, running
from streams import Stream

REFUSING = "plain/plain-refusing"
WHY = "two ranks on one device"
RECOVERY_SECONDS = 12
PAUSE_SECONDS_MAX = 13  # actors/epoch_retries.hpp
EPOCHS_MAX = 10  # within the 25 s of this test: two at once, then after 1, 1, 2, 3, 13 s
PROMPT = "Write a short story about a fox."


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    subprocess.run([BUILD / "tests/support/tiny_model", path, "--layers", "4", "--type", "F32"], check=True)
    return path


def files_of(pid):
    """The targets of its file descriptors."""
    names = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return names


def held(pid):
    """A process's system resources: open files, and mappings of files and shared memory. The allocator's own mappings vary.
    The least of a second: a process also opens files for a moment. Its watch of the other rank, a pidfd, comes and goes with each try."""
    samples = []
    for _ in range(20):
        files = files_of(pid)
        watches = files.count("anon_inode:[pidfd]")
        assert watches <= 2, files
        with open(f"/proc/{pid}/maps") as maps:
            samples.append((len(files) - watches, sum("/" in line for line in maps)))
        time.sleep(0.05)
    return min(samples)


def wait_for(what, seconds):
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_ranks_that_can_never_sum_up_are_told_and_tried_now_and_then(tiny, tmp_path, monkeypatch):
    refuse = tmp_path / "refuse"
    monkeypatch.setenv("BATON_PLAIN_REFUSE", str(refuse))
    model = f'dtype = "float32"\nrecovery_timeout = {RECOVERY_SECONDS}'
    with running(path=tiny, devices=[REFUSING, REFUSING], tensor=2, kv_cache="8MiB", model=model) as cluster:
        undisturbed = Stream(cluster, PROMPT, max_tokens=32).check().text
        refuse.touch()
        pids = cluster.pids()
        os.kill(pids["shard-1"], 9)  # its successor begins another epoch, which is refused
        cluster.wait_standing(("shard-1", pids["shard-1"]))
        pids = cluster.pids()
        shards = [pids["shard-0"], pids["shard-1"]]
        reply = []
        began = time.monotonic()
        asking = threading.Thread(target=lambda: reply.append(cluster.post("/v1/completions", {"prompt": PROMPT, "model": "smollm2"}, timeout=90)))
        asking.start()
        status, health = wait_for(lambda: (h := cluster.health())[0] != 200 and WHY in str(h) and h, 15)
        assert status == 503 and health["status"] != "ready", health
        wait_for(lambda: "in a row" in str(cluster.health()), 20)
        before = [held(pid) for pid in shards]
        asking.join(RECOVERY_SECONDS + PAUSE_SECONDS_MAX + 10)
        assert reply, "the request hangs"
        assert time.monotonic() - began < RECOVERY_SECONDS + PAUSE_SECONDS_MAX + 5
        status, _, body = reply[0]
        assert (status, body["error"]["code"]) == (503, "pipeline_lost"), body
        assert WHY in body["error"]["message"]
        while time.monotonic() - began < 25:  # without any request
            answer = cluster.health()
            assert answer[0] == 503 and WHY in str(answer), answer
            time.sleep(0.2)
        assert WHY in cluster.command("status", cluster.config).stdout
        closed = cluster.log("head").count("is closed: stage 0 lost the epoch")
        assert 3 <= closed <= EPOCHS_MAX, cluster.log("head")
        assert cluster.pids() == pids  # no process ended
        wait_for(lambda: [held(pid) for pid in shards] == before, 20)  # a client that asked a moment ago may still hold one
        refuse.unlink()
        cluster.wait_ready(PAUSE_SECONDS_MAX + 20)
        assert Stream(cluster, PROMPT, max_tokens=32).check().text == undisturbed
