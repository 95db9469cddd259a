"""Token masks of answers under constraints: their time alone, and their cost for 32 streams. Called by run.py."""
import load as loads
import report
import servers
from settings import json_lines, run_tool, say

MEAN_BAR, P99_BAR = 50.0, 1000.0  # µs, of processor time
LOSS_BAR = 0.95  # tokens/s of 32 streams under a schema beside the same without
STREAMS = 32
MAX_TOKENS, MAX_TOKENS_QUICK = 96, 32
TOOL_SECONDS_MAX = 300
# No answer is complete within MAX_TOKENS, so all streams draw the same number of tokens, each masked.
SCHEMA = {"type": "array", "minItems": 60, "items": {"type": "object", "required": ["name", "story", "age"], "additionalProperties": False, "properties": {
    "name": {"type": "string", "maxLength": 40}, "story": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120}}}}


def mask_rows(settings):
    found = {}
    for _ in range(settings.rounds):
        with settings.watch("masks_bench"):
            for one in json_lines(run_tool([settings.masks_bench, settings.model], TOOL_SECONDS_MAX)):
                found.setdefault(one["vocabulary"], []).append(one)
    made = []
    for vocabulary, rounds in found.items():
        for what, bar in (("once", None), ("mean", MEAN_BAR), ("p50", None), ("p99", P99_BAR), ("max", None)):
            made.append(report.median_row(f"masks.{vocabulary}.{what}", [one[what] for one in rounds], "us", bar, lower_is_better=True))
    return made


def tokens_per_second(settings, server, round_index, fields):
    wanted = loads.Load(server.url, STREAMS, STREAMS, seed=round_index + 1, max_tokens=MAX_TOKENS_QUICK if settings.is_quick else MAX_TOKENS,
                        model="bench", warmup=1, fields=fields)
    with settings.watch(f"masks {STREAMS} streams", server.process.pid):
        result = loads.measure(wanted)
    if result["good"] != result["requests"]:
        raise servers.ServerFailed(f"{result['requests'] - result['good']} of {result['requests']} answers are wrong: {'; '.join(result['faults'])}")
    return result["tok_s"]


def served_rows(settings):
    """On one server, in turns."""
    _, one_stage = servers.core_devices(settings.threads)
    rates = {"free": [], "schema": []}
    asked = {"free": {}, "schema": {"guided_json": SCHEMA}}
    try:
        with servers.Cluster(settings.cluster, settings.model, one_stage) as server:
            for round_index in range(settings.rounds):
                say(f"masks: round {round_index + 1} of {settings.rounds}")
                for name in sorted(rates, reverse=round_index % 2 == 1):
                    rates[name].append(tokens_per_second(settings, server, round_index, asked[name]))
    except servers.ServerFailed as error:
        return [report.missing(f"masks.served.{STREAMS}.schema/free", str(error), "x", LOSS_BAR)]
    made = [report.median_row(f"masks.served.{STREAMS}.{name}", values, "tokens/s") for name, values in rates.items()]
    return [*made, report.ratio_row(f"masks.served.{STREAMS}.schema/free", rates["schema"], rates["free"], LOSS_BAR)]


def rows(settings):
    say("masks: alone")
    return mask_rows(settings) + served_rows(settings)
