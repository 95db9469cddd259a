"""The row `soak` of faults.py: faults of all kinds, one every few seconds, under clients that return; and the growth of memory meanwhile.

A kind comes once a round, in an order that is drawn; shards take turns. So every supervisor's restart intensity
(actors/supervision/restart.hpp) is kept in the worst order, too: test_soak.py counts.
"""
import contextlib
import dataclasses
import http.client
import random
import signal
import statistics
import threading
import time

import fault_client
import report
from sections import memory
from sections.tally import of_texts
from settings import say

EVERY_SECONDS = 5
EVERY_SECONDS_BAR = 5.5  # on average: a blow waits for the cluster to be ready again
WARM_UP_SHARE = 0.2
GROWTH_BAR = 0.1  # MB/min
LEAVING = 4  # clients, of one fault
KINDS = {"kill_stage": ("shard", signal.SIGKILL), "crash_stage": ("shard", signal.SIGSEGV), "stop_stage": ("shard", signal.SIGSTOP),
         "kill_gateway": ("gateway", signal.SIGKILL), "kill_head": ("head", signal.SIGKILL), "disconnects": (None, None)}


@dataclasses.dataclass
class Blow:
    kind: str
    process: str  # none for clients that leave
    number: int = 0


def plan(dice, shards, count):
    """`count` blows, a fault each."""
    turn, blows = 0, []
    while len(blows) < count:
        for kind in dice.sample(sorted(KINDS), len(KINDS)):
            process, number = KINDS[kind]
            if process == "shard":
                process, turn = shards[turn % len(shards)], turn + 1
            blows.append(Blow(kind, process, number))
    return blows[:count]


class Crowd:
    """One thread for each stream. It repeats a request, resumes when its connection falls, and compares each whole answer."""

    def __init__(self, port, texts, tokens, tally):
        self._port, self._texts, self._tokens, self._tally = port, texts, tokens, tally
        self._lock, self._over = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(len(texts))]
        for t in self._threads:
            t.start()

    def _ask(self, number):
        while not self._over.is_set():
            client = fault_client.Client(self._port, number, self._tokens, comes_back=True)
            client.run()
            with self._lock:
                self._tally.add(client, self._texts[number])

    def end(self):
        self._over.set()
        for t in self._threads:
            t.join(fault_client.SECONDS_MAX)


def strike(server, blow):
    if blow.process is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            fault_client.abrupt(server.port, LEAVING)
    else:
        pid = next(p["pid"] for p in server.status()["processes"] if p["name"] == blow.process)
        fault_client.send_signal(pid, blow.number)


def watch_until(server, begun, due, samples):
    """Waits until `due`, and until the cluster is ready and the last struck process is back. -> (seconds since `begun`, {role: bytes})"""
    time.sleep(max(0.0, due - time.monotonic()))
    server.wait_ready_again()
    samples.append((time.monotonic() - begun, memory.by_role(server.process.pid)))


def run(settings, server, texts, tokens, tally):
    """-> (samples, seconds between two blows, on average)"""
    blows = plan(random.Random(settings.seed), sorted(server.shard_pids()), max(2, int(settings.soak_seconds / EVERY_SECONDS)))
    crowd, samples, struck, begun = Crowd(server.port, texts, tokens, tally), [], [], time.monotonic()
    try:
        for index, blow in enumerate(blows):
            watch_until(server, begun, begun + index * EVERY_SECONDS, samples)
            if index % 12 == 0:
                say(f"soak: fault {index + 1} of {len(blows)}, {tally.compared} streams have ended")
            strike(server, blow)
            struck.append(time.monotonic())
            tally.injections += 1
        watch_until(server, begun, time.monotonic() + EVERY_SECONDS, samples)
    finally:
        crowd.end()
    return samples, (struck[-1] - struck[0]) / (len(struck) - 1)


def growth(samples):
    """Rows of (seconds, {role: bytes}): the sum over all processes is judged; the roles show where to look."""
    warm = [(t / 60, held) for t, held in samples if t >= WARM_UP_SHARE * samples[-1][0]]
    totals = [(t, sum(held.values()) / memory.MB) for t, held in warm]
    if (found := memory.slope(totals)) is None:
        return [report.missing("soak.growth", "too few samples", "MB/min", GROWTH_BAR)]
    together = [mb for _, mb in totals]
    rows = [report.judged("soak.growth", found.value, "MB/min", GROWTH_BAR, lower_is_better=True, low=found.low, high=found.high,
                          rounds=len(warm)),
            report.judged("soak.memory", statistics.median(together), "MB", low=min(together), high=max(together), rounds=len(warm))]
    for role in warm[0][1]:
        of_role = memory.slope([(t, held[role] / memory.MB) for t, held in warm])
        rows.append(report.judged(f"soak.growth.{role}", of_role.value, "MB/min", low=of_role.low, high=of_role.high, rounds=len(warm)))
    return rows


def rows(tally, samples, interval):
    return [report.judged("soak.interval", interval, "s", EVERY_SECONDS_BAR, lower_is_better=True, rounds=tally.injections),
            report.judged("soak.streams", tally.compared, "streams", rounds=tally.injections),
            report.judged("soak.returns", tally.returns, "times", rounds=tally.injections),
            *of_texts("soak", tally), *growth(samples)]
