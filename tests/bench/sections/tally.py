"""The outcome of the injections of one row of faults.py, and its verdict."""
import fault_client
import report


class Tally:
    """Texts always count. Gaps and recovery times count only if the host left the injection alone; `disturbed` is the number of the others."""

    def __init__(self):
        self.gaps, self.back, self.returns, self.faults, self.compared, self.different, self.injections, self.disturbed = [], [], 0, [], 0, 0, 0, 0

    def add(self, client, text):
        """A client whose stream is over, and the text of the undisturbed one."""
        self.faults += client.faults()
        self.compared += 1
        self.different += client.text != text
        self.returns += client.returns


def of_texts(name, tally):
    wrong = report.judged(f"{name}.streams_wrong", len(tally.faults), "streams", 1, lower_is_better=True, rounds=tally.injections)
    wrong.reason = "" if wrong.ok else "; ".join(sorted(set(tally.faults)))[:300]
    same = (tally.compared - tally.different) / max(1, tally.compared)
    rows = [wrong, report.judged(f"{name}.streams_same_text", same, "share", 1, rounds=tally.injections)]
    return rows + ([report.judged(f"{name}.disturbed", tally.disturbed, "injections", rounds=tally.injections)] if tally.disturbed else [])


def gap(name, tally, p, bar):
    if not tally.gaps:
        return report.missing(f"{name}.gap.p{p}", "no stream lived through it, or the host took the processor away each time", "s", bar)
    return report.judged(f"{name}.gap.p{p}", fault_client.percentile(tally.gaps, p), "s", bar, lower_is_better=True, low=min(tally.gaps),
                         high=max(tally.gaps), rounds=tally.injections - tally.disturbed)


def back(name, tally, bar):
    if not tally.back:
        return report.missing(f"{name}.back", "the host took the processor away each time", "s", bar)
    return report.judged(f"{name}.back", max(tally.back), "s", bar, lower_is_better=True, low=min(tally.back), high=max(tally.back),
                         rounds=tally.injections - tally.disturbed)
