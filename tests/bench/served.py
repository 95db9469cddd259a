"""Served over HTTP: ours in two layouts beside llama-server, at 1, 8 and 32 streams, a fresh server for each measurement.

Called by run.py. Within a round the servers take turns, in the other direction every second round, so that a slow drift
of the machine meets all of them alike.
"""
import load as loads
import report
import servers
from settings import say

STREAMS = (1, 8, 32)
REQUESTS = {1: 8, 8: 24, 32: 64}
LATENCIES = ("ttft_p50", "ttft_p99", "itl_p50", "itl_p99")
PREFIX_TOKENS, PREFIX_BAR = 2000, 0.05
RETURN_STREAMS = (32, 8)  # on one server: what 32 streams leave behind must not slow down the 8 after them


def starters(settings):
    """Name -> a function of the streams that makes the server, for those that can be had."""
    two_stages, one_stage = servers.core_devices(settings.threads)
    made = {f"baton_{len(two_stages)}x1": lambda streams: servers.Cluster(settings.cluster, settings.model, two_stages),
            f"baton_1x{settings.threads}": lambda streams: servers.Cluster(settings.cluster, settings.model, one_stage)}
    if settings.peer_bin:
        made["llama"] = lambda streams: servers.LlamaServer(settings.peer_bin / "llama-server", settings.model, settings.threads, streams)
    return made


def one_load(settings, server, streams, round_index, max_tokens=None, requests=None):
    """-> summary; raises ServerFailed if any answer was not as it must be."""
    wanted = loads.Load(server.url, streams, requests or (streams if settings.is_quick else REQUESTS[streams]), seed=round_index + 1,
                        max_tokens=max_tokens or (32 if settings.is_quick else 128), model="bench", warmup=1)
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


def ratio_rows(results, names):
    ours = [n for n in names if n != "llama"]
    rows = []
    for streams in STREAMS:
        for name in ours:
            rows.append(report.ratio_row(f"served.{name}/llama.{streams}.tok_s", values(results, name, streams, "tok_s"),
                                         values(results, "llama", streams, "tok_s")))
    for streams in STREAMS:
        rows.append(report.ratio_row(f"layout.{ours[0]}/{ours[1]}.{streams}.tok_s", values(results, ours[0], streams, "tok_s"),
                                     values(results, ours[1], streams, "tok_s")))
    return rows


def rows(settings):
    results, failures = measure_all(settings)
    names = list(dict.fromkeys([*starters(settings), "llama"]))
    return server_rows(results, failures, names) + ratio_rows(results, names) + history_rows(settings, names[0])


def prefix_rows(settings):
    """Time to the first token of a long prompt, the first time and when it is asked again: the prefix cache."""
    _, one_stage = servers.core_devices(settings.threads)
    name, cold, hit = f"prefix.hit/cold.{PREFIX_TOKENS}.ttft", [], []
    try:
        with servers.Cluster(settings.cluster, settings.model, one_stage) as server:
            for round_index in range(settings.rounds):
                say(f"prefix: round {round_index + 1} of {settings.rounds}")
                for times in (cold, hit):
                    wanted = loads.Load(server.url, 1, 1, max_tokens=4, prompt_tokens=PREFIX_TOKENS, seed=1000 + round_index, model="bench",
                                        warmup=0)
                    with settings.watch("prefix", server.process.pid):
                        result = loads.measure(wanted)
                    if not result["good"]:
                        raise servers.ServerFailed("; ".join(result["faults"]))
                    times.append(result["ttft_p50_ms"])
    except servers.ServerFailed as error:
        return [report.missing(name, str(error), "x", PREFIX_BAR)]
    ratio = report.ratio_row(name, hit, cold)
    return [report.median_row(f"prefix.cold.{PREFIX_TOKENS}.ttft", cold, "ms"), report.median_row(f"prefix.hit.{PREFIX_TOKENS}.ttft", hit, "ms"),
            report.judged(name, ratio.value, "x", PREFIX_BAR, lower_is_better=True, low=ratio.min, high=ratio.max, rounds=ratio.rounds)]


def history_rows(settings, name):
    """8 streams on a server that had 32, beside 8 on a fresh one."""
    first, then = RETURN_STREAMS
    fresh, used = [], []
    for round_index in range(settings.rounds):
        say(f"served: round {round_index + 1} of {settings.rounds}, {then} streams after {first}")
        try:
            with starters(settings)[name](then) as server:
                fresh.append(one_load(settings, server, then, round_index)["tok_s"])
            with starters(settings)[name](then) as server:
                one_load(settings, server, first, round_index, requests=first)
                used.append(one_load(settings, server, then, round_index)["tok_s"])
        except servers.ServerFailed as error:
            return [report.missing(f"served.{then}_after_{first}/{then}", str(error), "x")]
    return [report.ratio_row(f"served.{then}_after_{first}/{then}", used, fresh)]
