"""Served over HTTP: ours beside llama-server, at 1, 8 and 32 streams, a fresh server for each measurement.

Called by run.py. Within a round the servers take turns, in the other direction every second round, so that a slow drift
of the machine meets all of them alike.
"""
import load as loads
import report
import servers
from settings import say

STREAMS = (1, 8, 32)
REQUESTS = {1: 3, 8: 8, 32: 32}
MAX_TOKENS, MAX_TOKENS_QUICK = 64, 32
LATENCIES = ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99")
RATIO_BARS = {1: 2, 8: None, 32: 5}
RETURN_STREAMS = (32, 8)  # on one server: what 32 streams leave behind must not slow down the 8 after them


def starters(settings):
    """Name -> a function of the streams that makes the server, for those that can be had."""
    _, one_stage = servers.core_devices(settings.threads)
    made = {"baton": lambda streams: servers.Cluster(settings.cluster, settings.model, one_stage)}
    if settings.peer_bin:
        made["llama"] = lambda streams: servers.LlamaServer(settings.peer_bin / "llama-server", settings.model, settings.threads, streams)
    return made


def one_load(settings, server, streams, round_index, max_tokens=None, requests=None):
    """-> summary; raises ServerFailed if any answer was not as it must be."""
    wanted = loads.Load(server.url, streams, requests or (streams if settings.is_quick else REQUESTS[streams]), seed=round_index + 1,
                        max_tokens=max_tokens or (MAX_TOKENS_QUICK if settings.is_quick else MAX_TOKENS), model="bench", warmup=1)
    with settings.watch(f"{server.name} {streams} streams", server.process.pid):
        result = loads.measure(wanted)
    if result["good"] != result["requests"]:
        raise servers.ServerFailed(f"{server.name}, {streams} streams: {result['requests'] - result['good']} of {result['requests']} "
                                   f"answers are wrong: {'; '.join(result['faults'])}; log: {server.log_end()}")
    return result


def measure_all(settings):
    """-> ({(server, streams): summary or None, by round}, {server: last failure})"""
    made = starters(settings)
    results = {(name, streams): [] for name in made for streams in STREAMS}
    failures = {} if settings.peer_bin else {"llama": settings.peer_reason}
    for round_index in range(settings.rounds):
        for streams in STREAMS:
            say(f"served: round {round_index + 1} of {settings.rounds}, {streams} streams")
            for name in sorted(made, reverse=round_index % 2 == 1):
                try:
                    with made[name](streams) as server:
                        results[name, streams].append(one_load(settings, server, streams, round_index))
                except servers.ServerFailed as error:
                    results[name, streams].append(None)
                    failures[name] = str(error)
    return results, failures


def values(results, name, streams, key):
    return [r[key] if r else None for r in results.get((name, streams), [])]


def server_rows(results, failures, names):
    rows = []
    for name in names:
        if name in failures:
            rows.append(report.missing(f"served.{name}", failures[name]))
        for streams in STREAMS:
            if not any(results.get((name, streams), [])):
                continue
            rows.append(report.median_row(f"served.{name}.{streams}.tok_s", values(results, name, streams, "tok_s"), "tokens/s"))
            rows += [report.median_row(f"served.{name}.{streams}.{key}", values(results, name, streams, f"{key}_ms"), "ms")
                     for key in LATENCIES]
    return rows


def ratio_rows(results):
    return [report.ratio_row(f"served.baton/llama.{streams}.tok_s", values(results, "baton", streams, "tok_s"),
                             values(results, "llama", streams, "tok_s"), RATIO_BARS[streams]) for streams in STREAMS]


def results_and_rows(settings):
    results, failures = measure_all(settings)
    return results, server_rows(results, failures, ("baton", "llama")) + ratio_rows(results) + history_rows(settings)


def history_rows(settings):
    """8 streams on a server of two stages that had 32, beside 8 on a fresh one."""
    first, then = RETURN_STREAMS
    two_stages, _ = servers.core_devices(settings.threads)
    fresh, used = [], []
    for round_index in range(settings.rounds):
        say(f"served: round {round_index + 1} of {settings.rounds}, {then} streams after {first}")
        try:
            with servers.Cluster(settings.cluster, settings.model, two_stages) as server:
                fresh.append(one_load(settings, server, then, round_index)["tok_s"])
            with servers.Cluster(settings.cluster, settings.model, two_stages) as server:
                one_load(settings, server, first, round_index, max_tokens=MAX_TOKENS_QUICK)
                used.append(one_load(settings, server, then, round_index)["tok_s"])
        except servers.ServerFailed as error:
            return [report.missing(f"served.{then}_after_{first}/{then}", str(error), "x")]
    return [report.ratio_row(f"served.{then}_after_{first}/{then}", used, fresh)]
