"""The gateway alone, behind a head that is faster than any model: events and gRPC pieces per core, and the latency of a text. Called by
run.py."""
import report
from settings import json_lines, run_tool, say

STREAMS, TOKENS, TOKENS_QUICK = 64, 4000, 400
EVENTS_BAR = 100_000  # server-sent events for each second of the gateway's processor time
GRPC_TOKENS, GRPC_TOKENS_QUICK = 1000, 200
GRPC_BAR = 0.5  # pieces in responses of KServe's ModelStreamInfer for each second of its processor time, beside server-sent events
LATE_STREAMS, LATE_TOKENS, LATE_TOKENS_QUICK = 256, 200, 20
PACE_US = 2_500  # between micro-batches of 32 streams: each of the 256 has 50 tokens/s
LATENCY_BAR_MS = 1.0  # from the head's word to the client's read, both processes on this machine
TOOL_SECONDS_MAX = 200


def one_run(settings, streams, tokens, pace, *more):
    with settings.watch(f"doors {streams} streams"):
        return json_lines(run_tool([settings.doors_bench, streams, tokens, pace, *more], TOOL_SECONDS_MAX))[0]


def per_core(runs):
    return [r["events"] / r["gateway_seconds"] for r in runs]


def rows(settings):
    floods, calls, paced = [], [], []
    for round_index in range(settings.rounds):
        say(f"doors: round {round_index + 1} of {settings.rounds}")
        floods.append(one_run(settings, STREAMS, TOKENS_QUICK if settings.is_quick else TOKENS, 0))
        calls.append(one_run(settings, STREAMS, GRPC_TOKENS_QUICK if settings.is_quick else GRPC_TOKENS, 0, "grpc"))
        paced.append(one_run(settings, LATE_STREAMS, LATE_TOKENS_QUICK if settings.is_quick else LATE_TOKENS, PACE_US))
    made = [report.median_row("doors.sse.events/core", per_core(floods), "1/s", EVENTS_BAR),
            report.median_row("doors.sse.events", [f["events"] / f["seconds"] for f in floods], "1/s"),
            report.median_row("doors.grpc.pieces/core", per_core(calls), "1/s"),
            report.ratio_row("doors.grpc/sse", per_core(calls), per_core(floods), GRPC_BAR)]
    for what, bar in (("p50", None), ("p99", LATENCY_BAR_MS), ("max", None)):
        made.append(report.median_row(f"doors.latency.{LATE_STREAMS}.{what}", [p[f"{what}_us"] / 1000 for p in paced], "ms", bar, lower_is_better=True))
    return made
