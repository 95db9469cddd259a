"""`cluster pull` of 1 GB beside curl, from a hub on loopback, and what a kill -9 of it loses. Called by first_minute.py.

curl gets the file by one connection and checks nothing. So the time of a SHA-256 behind it is a row of its own: `cluster pull`
always checks.
"""
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

import report
import servers
from settings import say

sys.path.insert(0, str(servers.ROOT / "tests/support"))

import model_hub  # noqa: E402

MB = 1e6
BYTES, BYTES_QUICK = 1_000_000_000, 200_000_000
CURL_BAR = 0.8
LOST_BAR_MB = 16 * (1 << 20) / MB
KILLED_AFTER = 0.4  # of the bytes
BLOCK = 1 << 26  # of random bytes, again and again: the hub's memory is to be made in a second
REFERENCE, FILE = "bench/large", "large-Q4_0.gguf"
SECONDS_MAX = 300


@contextlib.contextmanager
def hub_with(size):
    """-> a hub with one file of about so many bytes"""
    block = os.urandom(BLOCK)
    hub = model_hub.Hub()
    try:
        hub.repositories[REFERENCE] = model_hub.Repository({FILE: model_hub.gguf(block * (size // BLOCK) + block[:size % BLOCK])})
        yield hub
    finally:
        hub.close()


def size_of(hub):
    return len(hub.repositories[REFERENCE].files[FILE])


def environment_of(hub, folder):
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "HF_HOME": f"{folder}/hf", "HF_ENDPOINT": hub.url, "no_proxy": "*"}


def ended_well(command, environment=None):
    """-> its output. Raises ServerFailed."""
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX,
                          check=False)
    if done.returncode:
        raise servers.ServerFailed(f"{pathlib.Path(command[0]).name}: {done.stderr.strip()[-200:]}")
    return done.stdout


def pull(settings, hub, folder):
    """-> the path. Raises ServerFailed."""
    path = pathlib.Path(ended_well([settings.cluster, "pull", f"hf:{REFERENCE}"], environment_of(hub, folder)).rstrip("\n"))
    if path.stat().st_size != size_of(hub):
        raise servers.ServerFailed(f"{path} has {path.stat().st_size} bytes")
    return path


def of_baton(settings, hub, folder):
    """-> {what: seconds}"""
    begin = time.monotonic()
    pull(settings, hub, folder)
    return {"pull": time.monotonic() - begin}


def of_curl(_, hub, folder):
    begin = time.monotonic()
    ended_well(["curl", "-sSfL", "--noproxy", "*", "-o", folder / "file", f"{hub.url}/{REFERENCE}/resolve/main/{FILE}"])
    got = time.monotonic()
    with open(folder / "file", "rb") as file:
        hashlib.file_digest(file, "sha256")
    return {"curl": got - begin, "curl_and_sha256": time.monotonic() - begin}


def one_download(settings, hub, measure):
    folder = settings.scratch / "download"
    folder.mkdir()
    with settings.watch(measure.__name__):
        seconds = measure(settings, hub, folder)
    shutil.rmtree(folder)
    return seconds


def speed(settings):
    results = {"pull": [], "curl": [], "curl_and_sha256": []}
    with hub_with(BYTES_QUICK if settings.is_quick else BYTES) as hub:
        size = size_of(hub)
        for round_index in range(settings.rounds):
            say(f"download: round {round_index + 1} of {settings.rounds}, {size / MB:.0f} MB")
            for measure in (of_baton, of_curl) if round_index % 2 == 0 else (of_curl, of_baton):
                seconds = settings.undisturbed(lambda measure=measure: one_download(settings, hub, measure))
                for what, each in seconds.items():
                    results[what].append(size / MB / each)
    return judge(results)


def judge(results):
    """`results`: {what: MB/s by round}"""
    return [*(report.median_row(f"download.{what}", values, "MB/s") for what, values in results.items()),
            report.ratio_row("download.pull/curl", results["pull"], results["curl"], CURL_BAR),
            report.ratio_row("download.pull/curl_and_sha256", results["pull"], results["curl_and_sha256"])]


def killed_pull(settings, hub, folder):
    """Ends a pull by kill -9 in the middle. Raises ServerFailed."""
    with open(folder / "log", "w+", encoding="utf-8", errors="replace") as log:
        with subprocess.Popen([str(settings.cluster), "pull", f"hf:{REFERENCE}"], env=environment_of(hub, folder), stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log) as process:
            deadline = time.monotonic() + SECONDS_MAX
            while hub.bytes_sent < KILLED_AFTER * size_of(hub) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            is_running = process.poll() is None
            process.kill()
        if not is_running:
            log.seek(0)
            raise servers.ServerFailed(f"it could not be killed, it had ended: {log.read().strip()[-200:]}")


def settled(hub):
    """-> the bytes sent, once the hub has noticed that its client is gone"""
    before = -1
    while before != hub.bytes_sent:
        before = hub.bytes_sent
        time.sleep(0.3)
    return before


def kept_in(folder):
    """Bytes of an unfinished download that are in its file, which has holes."""
    return max(file.stat().st_blocks * 512 for file in folder.glob("hf/hub/models--*/blobs/*"))


def one_resumption(settings, hub):
    """-> (MB received twice, MB sent twice, which includes those on the way to the killed process)"""
    folder = settings.scratch / "resume"
    folder.mkdir()
    hub.bytes_sent = 0
    killed_pull(settings, hub, folder)
    first, kept = settled(hub), kept_in(folder)
    pull(settings, hub, folder)
    shutil.rmtree(folder)
    second = hub.bytes_sent - first
    say(f"resume: killed after {first / MB:.0f} MB, of which {kept / MB:.0f} MB were received; then {second / MB:.0f} MB")
    return (kept + second - size_of(hub)) / MB, (first + second - size_of(hub)) / MB


def resume(settings):
    with hub_with(BYTES_QUICK if settings.is_quick else BYTES) as hub:
        results = [one_resumption(settings, hub) for _ in range(settings.rounds)]
    return judge_resumed(results)


def judge_resumed(results):
    """The bar is for the worst round."""
    lost = [one for one, _ in results]
    return [report.judged("resume.lost", max(lost), "MB", LOST_BAR_MB, True, min(lost), max(lost), len(lost)),
            report.median_row("resume.sent_twice", [twice for _, twice in results], "MB")]
