"""A long prompt beside 8 decoding streams: how long each waits for its next token during the prefill, here and in llama-server.

Called by run.py. Counted are the waits of the 8 streams that touch the time between the request of the long prompt and its first
token. A server that puts the whole prompt into one step lets all streams stand still for it.
"""
import threading
import time

import load as loads
import report
import servers
from settings import say

STREAMS = 8
PROMPT_TOKENS = 2000
MAX_TOKENS = 64  # of a stream: more than it gets while the prompt is prefilled
LONG_MAX_TOKENS = 8  # of the long prompt's answer: its first tokens may have no text
POSITIONS = 2560  # of a slot of llama-server
RATIO_BAR = 0.3
BEGUN_SHARE = 0.15  # of the streams' text, when the long prompt comes


def waits_during(streams, begin, end):
    """Milliseconds between two pieces of a stream, where they meet begin .. end."""
    return [1e3 * (b - a) for s in streams for a, b in zip(s.stamps, s.stamps[1:]) if b > begin and a < end]


def one_load(server, seed):
    """-> (streams, stream of the long prompt)"""
    long_load = loads.Load(server.url, 1, 1, max_tokens=LONG_MAX_TOKENS, prompt_tokens=PROMPT_TOKENS, seed=seed + 500, model="bench", warmup=0)
    long_stream, seen = [], 0

    def ask():
        long_stream.extend(loads.drive(long_load)[0])

    other = threading.Thread(target=ask, daemon=True)

    def on_text(_):
        nonlocal seen
        seen += 1
        if seen == int(STREAMS * MAX_TOKENS * BEGUN_SHARE):
            other.start()

    load = loads.Load(server.url, STREAMS, STREAMS, max_tokens=MAX_TOKENS, seed=seed, model="bench")
    streams, _ = loads.drive(load, on_text)
    if other.ident is None:
        raise servers.ServerFailed(f"{server.name}: too little text came for the long prompt to be asked")
    other.join(load.timeout)
    faults = [f for s in streams for f in loads.faults_of(s, MAX_TOKENS)] + [f for s in long_stream for f in loads.faults_of(s, LONG_MAX_TOKENS)]
    if faults or not long_stream or not long_stream[0].stamps:
        raise servers.ServerFailed(f"{server.name}: {faults[0] if faults else 'no text for the long prompt'}; log: {server.log_end()}")
    return streams, long_stream[0]


def measure(settings, server, seed):
    """-> {"itl_p50", "itl_p99", "ttft"}, ms"""
    with settings.watch(f"interference {server.name}", server.process.pid):
        streams, long = one_load(server, seed)
    waits = waits_during(streams, long.begun, long.stamps[0])
    if not waits:
        raise servers.ServerFailed(f"{server.name}: the streams had ended before the long prompt came")
    return {"itl_p50": loads.percentile(waits, 50), "itl_p99": loads.percentile(waits, 99), "ttft": 1e3 * (long.stamps[0] - long.begun)}


def starters(settings):
    _, one_stage = servers.core_devices(settings.threads)
    made = {"baton": lambda: servers.Cluster(settings.cluster, settings.model, one_stage)}
    if settings.peer_bin:
        made["llama"] = lambda: servers.LlamaServer(settings.peer_bin / "llama-server", settings.model, settings.threads, STREAMS + 1, POSITIONS)
    return made


def rows(settings):
    made = starters(settings)
    results, failures = {name: [] for name in made}, {} if settings.peer_bin else {"llama": settings.peer_reason}
    for round_index in range(settings.rounds):
        say(f"interference: round {round_index + 1} of {settings.rounds}")
        for name in sorted(made, reverse=round_index % 2 == 1):
            try:
                with made[name]() as server:
                    results[name].append(measure(settings, server, round_index + 1))
            except servers.ServerFailed as error:
                results[name].append({})
                failures[name] = str(error)
    return judge(results, failures)


def judge(results, failures):
    rows_made = [report.missing(f"interference.{name}", reason) for name, reason in failures.items()]
    for key, bar in (("itl_p50", None), ("itl_p99", RATIO_BAR), ("ttft", None)):
        by_side = {name: [one.get(key) for one in results.get(name, [])] for name in ("baton", "llama")}
        rows_made += [report.median_row(f"interference.{name}.{key}", values, "ms") for name, values in by_side.items() if any(values)]
        rows_made.append(report.ratio_row(f"interference.baton/llama.{key}", by_side["baton"], by_side["llama"], bar, lower_is_better=True))
    return rows_made
