"""Metrics of a handler, shown at the gateway's /metrics under their own names. A thread of the link sends new values once a second. Errors
raise MetricError here, in the handler.

    served = context.metrics.counter("answers_served", "Answers, by kind.")
    served.labels(kind="short").increment()

    seconds = context.metrics.histogram("answer_seconds", "Of an answer.", buckets=(0.1, 1, 10))
    seconds.observe(0.4)
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

NAMES_MAX, SERIES_MAX, LABELS_MAX = 128, 2048, 32  # per process; as in gateway/metrics/metric_registry.hpp
NAME_BYTES_MAX, VALUE_BYTES_MAX, HELP_BYTES_MAX = 256, 256, 1024
BYTES_MAX, NODE_BYTES = 1 << 20, 64  # for names, helps, labels and their values, plus a charge per name and per set
RESERVED = ("baton_", "vllm:", "tgi_", "nv_", "ts_", "http_requests_total", "http_request_duration_")  # the server's own
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)  # of Prometheus' own libraries
BUCKETS_MAX = 64
NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*\Z", re.ASCII)
LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


class MetricError(ValueError):
    """An invalid metric: which one, and why."""


@dataclass
class Update:
    """The update of one metric for the gateway."""

    name: str
    help: str
    kind: str
    labels: List[Tuple[str, str]]
    sets: bool
    value: float
    of: "Metric"

    @property
    def size(self) -> int:
        return _size(self.name, self.help) + _size(*(text for label in self.labels for text in label))


class Metric:
    """A metric with one name and one set of labels. Usable from any thread."""

    def __init__(self, family: "Family", labels: Mapping[str, str]):
        self._family, self._labels = family, dict(labels)
        self._value = self._added = 0.0
        self._was_set = self._sets = False
        self._is_new = True  # reported as 0 before the first count

    @property
    def value(self) -> float:
        """The value in this process."""
        return self._value

    def increment(self, by: float = 1.0) -> None:
        amount = _number(by, self._family.name)
        if amount < 0 and self._family.kind == COUNTER:
            raise MetricError(f"the counter '{self._family.name}' cannot go down by {-amount:g}")
        with self._family.lock:
            _number(self._value + amount, self._family.name)
            _number(self._added + amount, self._family.name)
            self._value += amount
            self._added += amount
            self._is_new = True

    def set(self, to: float) -> None:
        amount = _number(to, self._family.name)
        if self._family.kind == COUNTER:
            raise MetricError(f"the counter '{self._family.name}' cannot be set, only incremented")
        with self._family.lock:
            self._value = amount
            self._sets = self._was_set = self._is_new = True

    def report_again(self) -> None:
        """For a new gateway without values: a counter starts there at 0, a gauge keeps its value."""
        self._is_new = True
        if self._family.kind == GAUGE:
            self._sets, self._added = self._was_set, self._value

    def take(self) -> Update:
        update = Update(
            self._family.name,
            self._family.help,
            self._family.kind,
            sorted(self._labels.items()),
            self._sets,
            self._value if self._sets else self._added,
            self,
        )
        self._is_new, self._sets, self._added = False, False, 0.0
        return update

    def put_back(self, update: Update) -> None:
        """Takes back an update that was not received; it is sent again together with later changes."""
        self._is_new = True
        self._sets = self._sets or update.sets
        if not update.sets:
            self._added += update.value

    @property
    def is_new(self) -> bool:
        return self._is_new


class Family:
    """The metrics with one name."""

    def __init__(self, metrics: "Metrics", kind: str, name: str, help: str):
        self._metrics, self.kind, self.name, self.help = metrics, kind, name, help
        self.lock = metrics.lock
        self.all: Dict[Tuple[Tuple[str, str], ...], Metric] = {}

    def labels(self, **labels: str) -> Metric:
        return self.of(labels)

    def of(self, labels: Mapping[str, str]) -> Metric:
        if len(labels) > LABELS_MAX:
            raise MetricError(f"the metric '{self.name}' has {len(labels)} labels, at most {LABELS_MAX} are possible")
        for label, value in labels.items():
            if not isinstance(label, str) or not LABEL.match(label) or len(label) > NAME_BYTES_MAX:
                raise MetricError(f"the metric '{self.name}' cannot have the label {label!r}: letters, digits and _, no digit first, not __")
            if not _is_text(value) or len(value.encode()) > VALUE_BYTES_MAX:
                raise MetricError(f"the label '{label}' of the metric '{self.name}' is a text of up to {VALUE_BYTES_MAX} bytes")
        with self.lock:
            key = tuple(sorted(labels.items()))
            if key not in self.all:
                self._metrics.count_series(self.name, labels)
                self.all[key] = Metric(self, labels)
            return self.all[key]

    def increment(self, by: float = 1.0) -> None:
        self.of({}).increment(by)

    def set(self, to: float) -> None:
        self.of({}).set(to)


class Histogram:
    """A histogram with one name and one set of labels. It is sent in Prometheus' form: cumulative counters NAME_bucket with the label
    `le`, NAME_sum and NAME_count. The gateway makes one histogram of them. So processes add up, and no count falls when a process
    restarts."""

    def __init__(self, of: "HistogramFamily", labels: Mapping[str, str], bounds: Tuple[float, ...]):
        if "le" in labels:
            raise MetricError(f"the histogram '{of.name}' cannot have the label 'le': it is its buckets'")
        self._of, self.bounds = of, bounds
        self._buckets = [of.bucket.of({**labels, "le": _bound(bound)}) for bound in (*bounds, math.inf)]
        self._sum, self._count = of.sum.of(labels), of.count.of(labels)

    def observe(self, value: float) -> None:
        amount = _number(value, self._of.name)
        if amount < 0:
            raise MetricError(f"the histogram '{self._of.name}' takes what is 0 or more, not {amount:g}")
        with self._of.lock:
            self._sum.increment(amount)  # may exceed the maximum
            self._count.increment()
            for bound, bucket in zip((*self.bounds, math.inf), self._buckets):
                if amount <= bound:
                    bucket.increment()


class HistogramFamily:
    """The histograms with one name."""

    def __init__(self, metrics: "Metrics", name: str, help: str, bounds: Tuple[float, ...]):
        self.name, self.lock, self.bounds = name, metrics.lock, bounds
        self.bucket, self.sum, self.count = (metrics.family(COUNTER, f"{name}_{part}", help) for part in ("bucket", "sum", "count"))
        self._all: Dict[Tuple[Tuple[str, str], ...], Histogram] = {}

    def labels(self, **labels: str) -> Histogram:
        return self.of(labels)

    def of(self, labels: Mapping[str, str], buckets: Optional[Sequence[float]] = None) -> Histogram:
        """`buckets`: default is the family's, unless the set of labels has its own."""
        bounds = self.bounds if buckets is None else _bounds(self.name, buckets)
        with self.lock:
            key = tuple(sorted(labels.items()))
            if key not in self._all:
                self._all[key] = Histogram(self, labels, bounds)
            elif buckets is not None and self._all[key].bounds != bounds:
                raise MetricError(f"the histogram '{self.name}' has other buckets for these labels")
            return self._all[key]

    def observe(self, value: float) -> None:
        self.of({}).observe(value)


class Metrics:
    """The metrics of a process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._families: Dict[str, Family] = {}
        self._histograms: Dict[str, HistogramFamily] = {}
        self._series = self._bytes = 0

    def counter(self, name: str, help: str = "") -> Family:
        """A value that only grows. The same name returns the same one."""
        return self.family(COUNTER, name, help)

    def gauge(self, name: str, help: str = "") -> Family:
        return self.family(GAUGE, name, help)

    def histogram(self, name: str, help: str = "", buckets: Sequence[float] = BUCKETS) -> HistogramFamily:
        """`buckets`: ascending upper bounds; +Inf follows the last one."""
        bounds = _bounds(name, buckets)
        with self.lock:
            known = self._histograms.get(name)
            if known is None:
                self.family(HISTOGRAM, name, help)  # reserves the name; no value is sent under it
                known = self._histograms[name] = HistogramFamily(self, name, help, bounds)
            return known

    def family(self, kind: str, name: str, help: str = "") -> Family:
        if not isinstance(name, str) or not NAME.match(name) or len(name) > NAME_BYTES_MAX:
            raise MetricError(f"a metric cannot be called {name!r}: letters, digits, _ and :, no digit first, up to {NAME_BYTES_MAX}")
        if name.startswith(RESERVED):
            raise MetricError(f"a metric cannot be called '{name}': the server's own begin with {', '.join(RESERVED)}")
        with self.lock:
            known = self._families.get(name)
            if known is None:
                if len(self._families) == NAMES_MAX:
                    raise MetricError(f"'{name}' is one metric too many: {NAMES_MAX} are possible")
                text = str(help).encode(errors="replace")[:HELP_BYTES_MAX].decode(errors="ignore")
                self._count_bytes(name, _size(name, text))
                known = self._families[name] = Family(self, kind, name, text)
            elif known.kind != kind:
                raise MetricError(f"the metric '{name}' is a {known.kind}, and cannot be a {kind} as well")
            return known

    def _count_bytes(self, name: str, more: int) -> None:
        if self._bytes + more > BYTES_MAX:
            raise MetricError(f"the metric '{name}' has labels too many or too long: {BYTES_MAX} bytes are possible, of all metrics together")
        self._bytes += more

    def count_series(self, name: str, labels: Mapping[str, str]) -> None:
        if self._series == SERIES_MAX:
            raise MetricError(f"the metric '{name}' has one set of labels too many: {SERIES_MAX} are possible, of all metrics together")
        self._count_bytes(name, _size(*labels.keys(), *labels.values()))
        self._series += 1

    def take(self) -> List[Update]:
        """Changes since the last call."""
        with self.lock:
            return [m.take() for f in self._families.values() for m in f.all.values() if m.is_new]

    def put_back(self, update: Sequence[Update]) -> None:
        """Takes back updates that were not received."""
        with self.lock:
            for one in update:
                one.of.put_back(one)

    def report_again(self) -> None:
        with self.lock:
            for family in self._families.values():
                for metric in family.all.values():
                    metric.report_again()


def _bounds(name: str, buckets: Sequence[float]) -> Tuple[float, ...]:
    bounds = tuple(_number(bound, name) for bound in buckets)
    if not 0 < len(bounds) <= BUCKETS_MAX or any(a >= b for a, b in zip(bounds, bounds[1:])):
        raise MetricError(f"the histogram '{name}' has 1 to {BUCKETS_MAX} buckets, whose bounds ascend")
    return bounds


def _bound(bound: float) -> str:
    """As Prometheus' own libraries write it: 1.0, 0.005, +Inf."""
    return "+Inf" if bound == math.inf else repr(float(bound))


def _size(*texts: str) -> int:
    return NODE_BYTES + sum(len(text.encode()) for text in texts)


def _is_text(value: object) -> bool:
    """A lone surrogate is a str in Python, but not valid text."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _number(value: float, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, str) or not math.isfinite(number):
        raise MetricError(f"the metric '{name}' takes finite numbers, not {value!r}")
    return number
