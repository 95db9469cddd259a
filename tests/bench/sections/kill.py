"""kill -9 of a shard under 8 streams: how long each stream pauses, and whether its text is the undisturbed one.

Called by run.py. The gap of a stream is its longest wait between two pieces of text that ends after the kill. Each kill
has its share of a fresh cluster: the first restart is at once, a second one within the supervisor's period waits 1 s.

With --devices cuda:0,cuda:0 --tensor the shards are two ranks on the one GPU.
"""
import os
import signal
import time

import load as loads
import report
import servers
from settings import say

STREAMS = 8
TOKENS = 96
KILLS_PER_CLUSTER = 2  # of 5 restarts in 30 s that the pipeline's supervisor allows
GAP_SECONDS_BAR = 2.0
DEVICES_GAP_SECONDS_BAR = 3.0  # whose shards read their weights again


def gap_after(stream, killed):
    """Seconds; None if the stream had ended before the kill."""
    arrivals = [t for t in stream.stamps if t > killed]
    if not arrivals:
        return None
    before = [t for t in stream.stamps if t <= killed]
    arrivals.insert(0, before[-1] if before else max(killed, stream.begun))
    return max(b - a for a, b in zip(arrivals, arrivals[1:]))


def wanted(server, max_tokens):
    return loads.Load(server.url, STREAMS, STREAMS, max_tokens=max_tokens, model="bench", timeout=120, warmup=0)


def load_with_kill(server, max_tokens, pid, after_pieces):
    """-> (streams, time of the kill): kills once that many pieces of text have arrived over all streams."""
    seen, killed = 0, None

    def on_text(_):
        nonlocal seen, killed
        seen += 1
        if seen == after_pieces:
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)

    streams, _ = loads.drive(wanted(server, max_tokens), on_text)
    return streams, killed


class Tally:
    """Over all kills."""

    def __init__(self):
        self.gaps = [[] for _ in range(KILLS_PER_CLUSTER)]  # by how many kills the cluster had had before
        self.faults, self.compared, self.different = [], 0, 0

    def add(self, order, streams, killed, undisturbed, max_tokens):
        for stream, before in zip(streams, undisturbed):
            self.faults += loads.faults_of(stream, max_tokens)
            self.compared += 1
            self.different += stream.text != before.text
            if (gap := gap_after(stream, killed)) is not None:
                self.gaps[order].append(gap)


def one_cluster(settings, tally, cluster_index, clusters, max_tokens):
    """An undisturbed run, then one run for each kill, at moments and shards that differ from cluster to cluster."""
    shards, _ = servers.shard_devices(settings)
    with servers.Cluster(settings.cluster, settings.model, shards, ranks=2 if settings.is_tensor else 1) as server:
        undisturbed, _ = loads.drive(wanted(server, max_tokens))
        faults = [f for s in undisturbed for f in loads.faults_of(s, max_tokens)]
        if faults:
            raise servers.ServerFailed(f"undisturbed: {faults[0]}")
        pieces = sum(len(s.stamps) for s in undisturbed)
        for order in range(KILLS_PER_CLUSTER):
            pids = server.shard_pids()
            name = sorted(pids)[(cluster_index + order) % len(pids)]
            moment = (cluster_index * KILLS_PER_CLUSTER + order + 1) / (clusters * KILLS_PER_CLUSTER + 2)
            streams, killed = load_with_kill(server, max_tokens, pids[name], max(1, int(pieces * moment)))
            if killed is None:
                raise servers.ServerFailed(f"{name} was not killed: too little text arrived: {streams[0].error}")
            tally.add(order, streams, killed, undisturbed, max_tokens)
            server.wait_ready_again()


def rows(settings):
    clusters = 1 if settings.is_quick else 2 * settings.rounds
    tally = Tally()
    for index in range(clusters):
        say(f"kill -9: cluster {index + 1} of {clusters}, {KILLS_PER_CLUSTER} kills each")
        try:
            one_cluster(settings, tally, index, clusters, 64 if settings.is_quick else TOKENS)
        except (servers.ServerFailed, ProcessLookupError) as error:
            tally.faults.append(str(error))
    return judge(tally, clusters, DEVICES_GAP_SECONDS_BAR if settings.devices else GAP_SECONDS_BAR)


def gap_row(name, gaps, p, bar, clusters):
    if not gaps:
        return report.missing(name, "no stream lived through a kill", "s", bar)
    return report.judged(name, loads.percentile(gaps, p), "s", bar, lower_is_better=True, low=min(gaps), high=max(gaps), rounds=clusters)


def judge(tally, clusters, bar=GAP_SECONDS_BAR):
    all_gaps = [g for gaps in tally.gaps for g in gaps]
    result = [gap_row("kill.gap.p50", all_gaps, 50, None, clusters), gap_row("kill.gap.p99", all_gaps, 99, bar, clusters)]
    for order, gaps in enumerate(tally.gaps):
        result.append(gap_row(f"kill.gap.p99.restart_{order + 1}", gaps, 99, None, clusters))
    wrong = report.judged("kill.streams_wrong", len(tally.faults), "streams", bar=1, lower_is_better=True, rounds=clusters)
    wrong.reason = "" if wrong.ok else "; ".join(sorted(set(tally.faults)))[:300]
    same = (tally.compared - tally.different) / tally.compared if tally.compared else 0.0
    return [*result, wrong, report.judged("kill.streams_same_text", same, "share", bar=1.0, rounds=clusters)]
