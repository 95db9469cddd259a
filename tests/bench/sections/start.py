"""How long a cluster takes from start to its first token, and its memory at that point. Called by run.py.

The clock starts when `cluster up` is executed, with its files in the page cache. From then on a request is retried every few milliseconds;
the clock stops at its first piece of text. Memory is the PSS of all processes of the cluster.
"""
import json
import time

import load as loads
import machine
import report
import servers
from settings import ToolFailed, run_tool, say

SECONDS_BAR = 0.4
RETRY_SECONDS = 0.004
MEMORY_BAR_MB = 150  # beside the weights and the KV that was touched
BLOCK_POSITIONS = 64
MB = 1e6


def first_token(server, fields=None):
    """Seconds until the first piece of text, and the stream. Retries while the connection or the request is refused. `fields`: of the
    request, in place of the usual ones."""
    begun, load = server.begun, loads.Load(server.url, 1, 1, max_tokens=8, model="bench", warmup=0, timeout=servers.READY_SECONDS_MAX,
                                           fields=fields or {})
    while time.monotonic() - begun < servers.READY_SECONDS_MAX:
        tried = time.monotonic()
        stream = loads.drive(load)[0][0]
        if stream.stamps and not loads.faults_of(stream, load.max_tokens):
            return stream.stamps[0] - begun, stream
        if server.process.poll() is not None:
            break
        time.sleep(max(0.0, tried + RETRY_SECONDS - time.monotonic()))
    raise servers.ServerFailed(f"{server.name}: no token after {time.monotonic() - begun:.1f} s: {stream.error}; {server.log_end()}")


def kv_touched(stream, bytes_per_token):
    """Bytes of the blocks that hold its positions."""
    positions = stream.usage["prompt_tokens"] + stream.usage["completion_tokens"]
    return -(-positions // BLOCK_POSITIONS) * BLOCK_POSITIONS * bytes_per_token


def one_start(settings, described):
    """-> {"seconds", "pss", "beside"}; bytes"""
    _, one_stage = servers.core_devices(settings.threads)
    with settings.watch("start"):
        with servers.Cluster(settings.cluster, settings.model, one_stage, waits=False) as server:
            seconds, stream = first_token(server)
            pss = machine.tree_pss(server.process.pid)
    model = described["model"]
    return {"seconds": seconds, "pss": pss, "beside": pss - model["packed_bytes"] - kv_touched(stream, model["kv_bytes_per_token"])}


def rows(settings):
    try:
        described = json.loads(run_tool([settings.cluster, "model", "inspect", settings.model, "--json"], servers.READY_SECONDS_MAX))
        one_start(settings, described)  # brings the files into the page cache
        results = []
        for round_index in range(settings.rounds):
            say(f"start: round {round_index + 1} of {settings.rounds}")
            results.append(one_start(settings, described))
    except (servers.ServerFailed, ToolFailed) as error:
        return [report.missing("start.first_token", str(error), "s", SECONDS_BAR)]
    values = lambda key, unit=1.0: [one[key] / unit for one in results]
    return [report.median_row("start.first_token", values("seconds"), "s", SECONDS_BAR, lower_is_better=True),
            report.median_row("start.memory", values("pss", MB), "MB"),
            report.median_row("start.memory_beside_weights_and_kv", values("beside", MB), "MB", MEMORY_BAR_MB, lower_is_better=True)]
