"""The prediction of `cluster plan` beside the speed that is then served. Called by growth.py."""
import json
import statistics
import subprocess

import report
import servers
from sections import pipeline
from settings import say

STREAMS = (1, 8, 32)
ERROR_BAR = 0.2  # of what is measured, either way


class Unguessed(servers.Cluster):
    """Without draft tokens, because their acceptance depends on the text."""

    def __init__(self, binary, model, devices):
        super().__init__(binary, model, devices)
        self.config.write_text(self.config.read_text().replace("[model]", "[model]\nnum_speculative_tokens = 0", 1))


def expected(settings, server):
    """Tokens/s by streams."""
    done = subprocess.run([settings.cluster, "plan", server.config, "--json"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise servers.ServerFailed(f"cluster plan: {done.stderr.strip()}")
    return {e["streams"]: e["tokens_per_second"] for e in json.loads(done.stdout)["expected"]}


def one_round(settings, devices, seed):
    """-> (expected, measured), each tokens/s by streams. Each has a server of its own; the plan is asked before the first of them runs."""
    predicted, measured = None, {}
    for streams in STREAMS:
        server = Unguessed(settings.cluster, settings.model, devices)
        predicted = predicted or expected(settings, server)
        with server:
            measured[streams] = pipeline.decode(settings, server, streams, seed)[0]
    return predicted, measured


def plan(settings):
    """One process of two threads, and two stages of one thread each."""
    each_core, together = servers.core_devices(2)
    made = []
    for name, devices in (("1x2", together), ("2x1", each_core)):
        rounds = []
        for round_index in range(settings.rounds):
            say(f"growth: plan {name}, round {round_index + 1} of {settings.rounds}")
            rounds.append(settings.undisturbed(lambda devices=devices, seed=1 + round_index: one_round(settings, devices, seed)))
        for streams in STREAMS:
            predicted, measured = ([r[side].get(streams) for r in rounds] for side in (0, 1))
            made.append(report.median_row(f"growth.plan.{name}.expected.{streams}", predicted, "tokens/s"))
            made.append(report.median_row(f"growth.plan.{name}.measured.{streams}", measured, "tokens/s"))
            off = abs(statistics.median(predicted) / statistics.median(measured) - 1)
            made.append(report.judged(f"growth.plan.{name}.error.{streams}", off, "of measured", ERROR_BAR, True, rounds=len(rounds)))
    return made
