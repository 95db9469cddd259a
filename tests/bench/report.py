"""Rows of a bench run: their judgement, the table for people, the JSON lines, and docs/develop/benchmarks.md. Called by run.py."""
import dataclasses
import json
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
SERVED = re.compile(r"served\.(?P<server>\w+)\.(?P<streams>\d+)\.(?P<what>tok_s|ttft_p50|ttft_p99|itl_p50|itl_p99)$")
SERVED_COLUMNS = (("tok_s", "tokens/s"), ("ttft_p50", "TTFT p50 ms"), ("ttft_p99", "TTFT p99 ms"), ("itl_p50", "ITL p50 ms"),
                  ("itl_p99", "ITL p99 ms"))


@dataclasses.dataclass
class Row:
    """`bar` is what `value` must reach, or with lower_is_better stay under; None: for information."""
    row: str
    value: object
    unit: str
    bar: float = None
    ok: bool = True
    min: float = None
    max: float = None
    rounds: int = 0
    reason: str = ""
    lower_is_better: bool = False

    def as_json(self):
        fields = {k: rounded(v) for k, v in dataclasses.asdict(self).items() if k not in ("reason", "lower_is_better")}
        if self.reason:
            fields["reason"] = self.reason
        return json.dumps(fields)


def commit():
    """The measured commit, for the heading of written results."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown commit"


def rounded(value):
    return float(f"{value:.4g}") if isinstance(value, float) else value


def judged(name, value, unit, bar=None, lower_is_better=False, low=None, high=None, rounds=1):
    ok = bar is None or (value < bar if lower_is_better else value >= bar)
    return Row(name, value, unit, bar, ok, low, high, rounds, lower_is_better=lower_is_better)


def missing(name, reason, unit="", bar=None, lower_is_better=False):
    return Row(name, None, unit, bar, False, reason=" ".join(reason.split())[:300], lower_is_better=lower_is_better)


def skipped(name, reason, unit=""):
    """A row that was not requested; not a failure."""
    return Row(name, None, unit, reason=reason)


def median_row(name, values, unit, bar=None, lower_is_better=False):
    """Median of the rounds with the extremes; a missing row if no round has a value."""
    values = [v for v in values if v is not None]
    if not values:
        return missing(name, "no round gave a value", unit, bar, lower_is_better)
    return judged(name, statistics.median(values), unit, bar, lower_is_better, min(values), max(values), len(values))


def ratio_row(name, ours, theirs, bar=None, lower_is_better=False):
    """Ratio of the medians; its extremes are those of the rounds' own ratios. Both lists are by round."""
    pairs = [(a, b) for a, b in zip(ours, theirs) if a and b]
    if not pairs:
        return missing(name, "one side has no value", "x", bar, lower_is_better)
    each = [a / b for a, b in pairs]
    value = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    return judged(name, value, "x", bar, lower_is_better, min(each), max(each), len(pairs))


def row_from_tool(fields, section):
    """A row that a bench binary judged itself, under the name of its section."""
    name = re.sub(r"[, ]+", "_", fields["row"].replace(" / ", "/"))
    value, bar, ok = fields.get("value"), fields.get("bar") or None, bool(fields.get("ok", True))  # their bar of 0: none
    # The line does not show which side of the bar is good, but its verdict does.
    lower_is_better = None not in (value, bar) and (value < bar if ok else value > bar)
    return Row(name if name.startswith(f"{section}.") else f"{section}.{name}", value, fields.get("unit", ""), bar, ok, fields.get("min"),
               fields.get("max"), fields.get("rounds") or 0, fields.get("reason", ""), lower_is_better)


def number(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def bar_text(row):
    return "" if row.bar is None else f"{'<' if row.lower_is_better else '>='} {number(row.bar)}"


def verdict(row):
    if row.ok and row.value is None:
        return f"skipped: {row.reason}"
    if row.ok:
        return "ok" if row.bar is not None else ""
    return "FAIL" + (f": {row.reason}" if row.reason else "")


def span(row):
    return "" if row.min is None or row.min == row.max else f"{number(row.min)} .. {number(row.max)}"


def split(rows):
    """-> (plain rows, {(server, streams): {what: Row}} of those that fit one line per server)"""
    plain, served = [], {}
    for row in rows:
        found = SERVED.match(row.row)
        if found and row.value is not None:
            served.setdefault((found["server"], int(found["streams"])), {})[found["what"]] = row
        else:
            plain.append(row)
    return plain, served


def served_table(served):
    head = ["server", "streams", *(title for _, title in SERVED_COLUMNS)]
    cell = lambda row: "-" if row is None else number(row.value) + (f" ({span(row)})" if span(row) else "")
    lines = [[server, str(streams), *(cell(columns.get(key)) for key, _ in SERVED_COLUMNS)]
             for (server, streams), columns in sorted(served.items(), key=lambda item: item[0][::-1])]
    return [head, *lines]


def plain_table(rows):
    return [["row", "value", "unit", "min .. max", "rounds", "bar", ""],
            *([r.row, number(r.value), r.unit, span(r), str(r.rounds or ""), bar_text(r), verdict(r)] for r in rows)]


def as_text(table):
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in table)


def as_markdown(table):
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table]
    lines.insert(1, "|" + " --- |" * len(table[0]))
    return "\n".join(lines)


def render(rows, table_as):
    plain, served = split(rows)
    tables = [table_as(plain_table(plain))] + ([table_as(served_table(served))] if served else [])
    return "\n\n".join(tables)


def write_results(path, heading, rows):
    """Rewrites what is between the marks. Raises ValueError if the document has no marks."""
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{path}: wants {BEGIN} and {END}, once each")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{heading}\n\n{render(rows, as_markdown)}\n{END}{after}")
