"""The prefix cache: how much a repeated prompt saves, and the cost of the cache for new prompts. Called by run.py."""
import load as loads
import report
import servers
from settings import say

HIT_TOKENS, HIT_BAR = 2000, 0.05
MISS_TOKENS, MISS_BAR = 600, 1.01
MISS_PAIRS = 8  # in a round


def time_to_first_token(settings, server, tokens, seed):
    """Milliseconds, of one prompt."""
    wanted = loads.Load(server.url, 1, 1, max_tokens=4, prompt_tokens=tokens, seed=seed, model="bench", warmup=0)
    with settings.watch("prefix", server.process.pid):
        result = loads.measure(wanted)
    if not result["good"]:
        raise servers.ServerFailed("; ".join(result["faults"]))
    return result["ttft_p50_ms"]


def hit_rows(settings, device):
    """The same long prompt, the first time and again."""
    name, cold, hit = f"prefix.hit/cold.{HIT_TOKENS}.ttft", [], []
    try:
        with servers.Cluster(settings.cluster, settings.model, device) as server:
            for round_index in range(settings.rounds):
                say(f"prefix: round {round_index + 1} of {settings.rounds}")
                for times in (cold, hit):
                    times.append(time_to_first_token(settings, server, HIT_TOKENS, 1000 + round_index))
    except servers.ServerFailed as error:
        return [report.missing(name, str(error), "x", HIT_BAR)]
    return [report.median_row(f"prefix.cold.{HIT_TOKENS}.ttft", cold, "ms"), report.median_row(f"prefix.hit.{HIT_TOKENS}.ttft", hit, "ms"),
            report.ratio_row(name, hit, cold, HIT_BAR, lower_is_better=True)]


def miss_rows(settings, device):
    """Prompts that have nothing in common, on two servers that take turns: with the cache and without. The idle one costs nothing."""
    name, pairs = f"prefix.on/off.miss.{MISS_TOKENS}.ttft", 2 if settings.is_quick else MISS_PAIRS * settings.rounds
    times = {True: [], False: []}
    say(f"prefix: {pairs} prompts with the cache and without")
    try:
        with servers.Cluster(settings.cluster, settings.model, device) as on, \
             servers.Cluster(settings.cluster, settings.model, device, enable_prefix_caching=False) as off:
            for server in (on, off):
                time_to_first_token(settings, server, MISS_TOKENS, 1)
            for pair in range(pairs):
                for server in (on, off) if pair % 2 == 0 else (off, on):
                    times[server is on].append(time_to_first_token(settings, server, MISS_TOKENS, 2000 + pair))
    except servers.ServerFailed as error:
        return [report.missing(name, str(error), "x", MISS_BAR)]
    return [report.median_row(f"prefix.on.miss.{MISS_TOKENS}.ttft", times[True], "ms"),
            report.median_row(f"prefix.off.miss.{MISS_TOKENS}.ttft", times[False], "ms"),
            report.ratio_row(name, times[True], times[False], MISS_BAR, lower_is_better=True)]


def rows(settings):
    _, one_stage = servers.core_devices(settings.threads)
    return hit_rows(settings, one_stage) + miss_rows(settings, one_stage)
