"""How much a server still serves while clients ask for ten times as much: the row `overload` of faults.py."""
import re
import statistics
import threading
import time

import fault_client
import machine
import report
from settings import DISTURBED_CORES

GATHERING_SECONDS = 3  # until all clients of a crowd are there
WINDOW_SECONDS = 5
WINDOWS_MIN = 3
# Bound for an accepted request. The queue has as many entries as there are slots, so it waits for at most one other answer. Meanwhile the
# prompts before it are read.
SLO_TIMES = 3  # of the median without overload
OUTPUT = re.compile(r"^baton_output_tokens_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


class Phase:
    """One crowd of clients that ask again and again, and the tokens a second of each window in which all of them did and the host took nothing.

    By the server's own count, so that neither the begin nor the end of a crowd, when fewer ask, is in it. `disturbed`: windows that were left out.
    """

    def __init__(self, server, clients, tokens, seconds):
        self.rates, self.disturbed = [], 0
        asking = threading.Thread(target=self._ask, args=(server.port, clients, tokens, seconds))
        until = time.monotonic() + seconds
        asking.start()
        time.sleep(GATHERING_SECONDS)
        with machine.StolenTime() as stolen:
            windows = [(time.monotonic(), _output(server))]
            while time.monotonic() + WINDOW_SECONDS < until:
                time.sleep(WINDOW_SECONDS)
                windows.append((time.monotonic(), _output(server)))
        asking.join()
        for (begin, before), (end, after) in zip(windows, windows[1:]):
            if stolen.cores_after(begin, end - begin) > DISTURBED_CORES:
                self.disturbed += 1
            else:
                self.rates.append((after - before) / (end - begin))

    def _ask(self, *crowd):
        self.crowd = fault_client.crowd(*crowd)


def _output(server):
    status, text = server.get("/metrics")
    counts = OUTPUT.findall(text)
    if status != 200 or not counts:
        raise OSError(f"/metrics said {status} and nothing of output tokens")
    return sum(float(count) for count in counts)


def _accepted(calm, flood):
    """Seconds to whole answers, without and under overload."""
    if not calm or not flood:
        return [report.missing("overload.accepted_in_slo", "no answer was whole", "share", 0.99)]
    slo = SLO_TIMES * statistics.median(calm)
    kept = sum(took <= slo for took in flood) / len(flood)
    return [report.judged("overload.accepted_in_slo", kept, "share", 0.99, rounds=len(flood)),
            report.judged("overload.accepted.p99", fault_client.percentile(flood, 99), "s", slo, lower_is_better=True, low=min(flood),
                          high=max(flood), rounds=len(flood))]


def rows(before, flood, after):
    """Rows of three phases: as many clients as slots, ten times as many, as many as slots."""
    peak = before.rates + after.rates
    faults = before.crowd.faults + flood.crowd.faults + after.crowd.faults
    refusals = flood.crowd.refusals
    if min(len(peak), len(flood.rates)) < WINDOWS_MIN:
        made = [report.missing("overload.goodput", "the host took the processor away nearly all the time", "of peak", 0.95)]
    else:
        shares = [rate / statistics.mean(peak) for rate in flood.rates]
        made = [report.judged("overload.goodput", statistics.mean(shares), "of peak", 0.95, low=min(shares), high=max(shares), rounds=len(shares))]
    if disturbed := before.disturbed + flood.disturbed + after.disturbed:
        made.append(report.judged("overload.disturbed", disturbed, "windows"))
    made.append(report.judged("overload.refusals", len(refusals), "requests"))
    if refusals:
        made.append(report.judged("overload.refusal.p99", fault_client.percentile(refusals, 99), "s", 0.05, lower_is_better=True,
                                  low=min(refusals), high=max(refusals)))
    made += _accepted(before.crowd.accepted + after.crowd.accepted, flood.crowd.accepted)
    wrong = report.judged("overload.wrong", len(faults), "requests", 1, lower_is_better=True)
    wrong.reason = "; ".join(sorted(set(faults)))[:300]
    return [*made, wrong]
