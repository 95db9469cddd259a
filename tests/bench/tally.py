"""What came of the blows of one row of faults.py, and its judgement."""
import fault_client
import report


class Tally:
    def __init__(self):
        self.gaps, self.back, self.returns, self.faults, self.compared, self.different, self.injections = [], [], 0, [], 0, 0, 0

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
    return [wrong, report.judged(f"{name}.streams_same_text", same, "share", 1, rounds=tally.injections)]


def gap(name, tally, p, bar):
    if not tally.gaps:
        return report.missing(f"{name}.gap.p{p}", "no stream lived through it", "s", bar)
    return report.judged(f"{name}.gap.p{p}", fault_client.percentile(tally.gaps, p), "s", bar, lower_is_better=True, low=min(tally.gaps),
                         high=max(tally.gaps), rounds=tally.injections)


def back(name, tally, bar):
    return report.judged(f"{name}.back", max(tally.back), "s", bar, lower_is_better=True, low=min(tally.back), high=max(tally.back),
                         rounds=tally.injections)
