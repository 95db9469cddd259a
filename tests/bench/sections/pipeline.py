"""Two single-threaded stages in two processes, against one process with as many threads: the cost of cutting the model.

Called by run.py. The two layouts alternate over HTTP: prefill with two requests in flight, decoding at batch 16 and 32. The bubble is the
stages' waiting time from /metrics while all streams decode. `balance` measures how even the cut is, by the compute time of each stage.
With stages of 1 and 0.9 s, one waits for the other 5 % of the time, whatever the pipeline does. Layers are not divided, and prompts and
decoding share one cut. So it bounds the ratio and the bubble. `beside` is the share of the stages' cores that head, gateway and client use
while all 32 streams decode. While they have the core of one stage, the other stage waits for it.

With --devices cuda:0,cuda:0 the stages are two processes on one GPU, against one process that has it alone.
"""
import itertools
import re
import threading
import time

import load as loads
import machine
import report
import servers
from settings import say

PREFILL_STREAMS, PREFILL_REQUESTS, PREFILL_TOKENS = 2, 8, 500
PREFILL_BAR = 0.95
DECODE_BARS = {16: 0.85, 32: 0.92}
BARS = {"prefill": PREFILL_BAR, **DECODE_BARS}
DEVICES_BAR = 0.9  # of all rows, where devices are named
DECODE_TOKENS = 96
BUBBLE_BAR = 0.05
SAMPLE_SECONDS = 0.2
REPORT_SECONDS = 0.5  # within which /metrics has what the head knows
BUBBLE = re.compile(r"^baton_bubble_ratio\{[^}]*\} ([0-9.e+-]+)$", re.MULTILINE)
BUSY = re.compile(r"^baton_stage_busy_seconds_total\{[^}]*\} ([0-9.e+-]+)$", re.MULTILINE)


def busy_in(metrics):
    """Compute seconds of each stage since it began."""
    return [float(value) for value in BUSY.findall(metrics)]


def balance(before, after):
    """1: all stages compute as long as the longest. A stage is not reported before its first step."""
    spent = [b - a for a, b in itertools.zip_longest(before, after, fillvalue=0.0)]
    return sum(spent) / (len(spent) * max(spent)) if spent and max(spent) > 0 else None


def bubble_in(metrics):
    found = BUBBLE.search(metrics)
    return float(found[1]) if found else None


class BubbleWatch(threading.Thread):
    """Reads /metrics now and then: (time, share)."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self._server, self._is_over, self.samples = server, threading.Event(), []

    def run(self):
        while not self._is_over.wait(SAMPLE_SECONDS):
            share = bubble_in(self._server.metrics())
            if share is not None:
                self.samples.append((time.monotonic(), share))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self.join()

    def between(self, begin, end):
        """The shares since `begin`, without an interval that began before it."""
        return [share for at, share in self.samples if begin + 2 * SAMPLE_SECONDS < at < end]


def driven(settings, server, load):
    with settings.watch(f"pipeline {server.name}", server.process.pid):
        streams, wall = loads.drive(load)
    if faults := [f for s in streams for f in loads.faults_of(s, load.max_tokens)]:
        raise servers.ServerFailed(f"{server.name}, {load.streams} streams: {faults[0]}; log: {server.log_end()}")
    return streams, wall


def prefill(settings, server, seed):
    """Prompt tokens/s."""
    load = loads.Load(server.url, PREFILL_STREAMS, PREFILL_STREAMS if settings.is_quick else PREFILL_REQUESTS, max_tokens=1,
                      prompt_tokens=PREFILL_TOKENS, seed=seed, model="bench")
    streams, wall = driven(settings, server, load)
    return sum(s.usage["prompt_tokens"] for s in streams) / wall


def decode(settings, server, batch, seed):
    """-> (tokens/s while all streams decode, and of that time: shares in which stages waited, cores that all but the stages used)"""
    load = loads.Load(server.url, batch, batch, max_tokens=DECODE_TOKENS, seed=seed, model="bench")
    with BubbleWatch(server) as bubbles, machine.RoleTimes(server.process.pid) as times:
        streams, _ = driven(settings, server, load)
    window = loads.steady_window(streams)
    if window is None:
        raise servers.ServerFailed(f"{server.name}: there was no time in which all {batch} streams decoded")
    beside = sum(cores for role, cores in times.cores(*window).items() if role != "shard")
    return loads.steady_rate(streams), bubbles.between(*window), beside


def one_server(settings, devices, seed):
    """-> {"prefill": tokens/s, 16: tokens/s, 32: ..., "bubbles": [shares at the largest batch], "beside": cores for each device then,
    "balance": {"prefill": share, ...}}"""
    found = {"balance": {}}
    with servers.Cluster(settings.cluster, settings.model, devices) as server:

        def balanced(key, measure):
            before = busy_in(server.metrics())
            made = measure()
            time.sleep(REPORT_SECONDS)
            found["balance"][key] = balance(before, busy_in(server.metrics()))
            return made

        found["prefill"] = balanced("prefill", lambda: prefill(settings, server, seed))
        for batch in DECODE_BARS:
            found[batch], found["bubbles"], beside = balanced(batch, lambda size=batch: decode(settings, server, size, seed + 100 + size))
            found["beside"] = beside / len(devices)
    return found


def rows(settings):
    if settings.is_tensor:
        return [report.missing("pipeline", "--tensor makes one stage of the two shards: no pipeline")]
    two_stages, one_stage = servers.shard_devices(settings)
    sides = {"stages": two_stages, "one": one_stage}
    results = {name: [] for name in sides}
    for round_index in range(settings.rounds):
        say(f"pipeline: round {round_index + 1} of {settings.rounds}")
        try:
            for name in sorted(sides, reverse=round_index % 2 == 1):
                results[name].append(one_server(settings, sides[name], round_index + 1))
        except servers.ServerFailed as error:
            return [report.missing("pipeline", str(error))]
    if settings.devices:
        bars = dict.fromkeys(BARS, DEVICES_BAR)
        return judge(results, "+".join(two_stages), one_stage[0], bars)
    return judge(results, f"{len(two_stages)}x1", f"1x{settings.threads}")


def judge(results, stages_name, one_name, bars=None):
    made = []
    for key, bar in (bars or BARS).items():
        what = key if key == "prefill" else f"decode.{key}"
        by_side = {name: [one[key] for one in rounds] for name, rounds in results.items()}
        made += [report.median_row(f"pipeline.{stages_name}.{what}", by_side["stages"], "tokens/s"),
                 report.median_row(f"pipeline.{one_name}.{what}", by_side["one"], "tokens/s"),
                 report.ratio_row(f"pipeline.{stages_name}/{one_name}.{what}", by_side["stages"], by_side["one"], bar),
                 report.median_row(f"pipeline.{stages_name}.{what}.balance", [one["balance"].get(key) for one in results["stages"]], "share")]
    bubbles = [share for one in results["stages"] for share in one["bubbles"]]
    beside = [one["beside"] for one in results["stages"]]
    made.append(report.median_row(f"pipeline.{stages_name}.beside", beside, "share"))
    return [*made, report.median_row(f"pipeline.{stages_name}.bubble", bubbles, "share", BUBBLE_BAR, lower_is_better=True)]
