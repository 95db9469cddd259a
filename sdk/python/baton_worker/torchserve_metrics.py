"""`context.metrics` of a TorchServe handler: its counters and gauges, with their dimensions as labels.

The values follow TorchServe's Prometheus mode. A counter grows by each value. A gauge (times, sizes, percentages) keeps the last one. A
histogram counts it in the buckets of Prometheus' own library; the host is an additional label. Units and request ids are no labels, as in
TorchServe. An invalid metric (a name that Prometheus rejects, too many labels from clients' data) is dropped and logged once. It never
fails the batch.
"""

from __future__ import annotations

import enum
import logging
import socket
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from .handler import Context
from .metrics import COUNTER, GAUGE, NAME_BYTES_MAX, Family, HistogramFamily, MetricError

log = logging.getLogger("baton_worker")

# Metric names may come from clients' data as well.
DROPS_LOGGED_MAX, CACHED_MAX = 64, 1024
TIME_UNITS, SIZE_UNITS = ("ms", "s"), ("B", "kB", "MB", "GB")


class MetricTypes(enum.Enum):
    """Counterpart of ts.metrics.metric_type_enum."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


def type_of(metric_type: Any) -> MetricTypes:
    """Accepts TorchServe's own enumeration too, where it is installed."""
    return MetricTypes(getattr(metric_type, "value", metric_type))


class Dimension:
    """Counterpart of ts.metrics.dimension."""

    def __init__(self, name: str, value: Any):
        self.name, self.value = name, value

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"


class CachingMetric:
    """A metric that is created once and updated with the values of its dimensions."""

    def __init__(self, all: "ModelMetrics", name: str, unit: str, dimension_names: Sequence[str], kind: MetricTypes):
        self._all = all
        self.metric_name, self.unit, self.metric_type = name, unit, kind
        self.dimension_names = list(dimension_names)
        all.declare(name, unit, kind)

    def add_or_update(self, value: float, dimension_values: Sequence[Any] = (), request_id: str = "") -> None:
        if len(dimension_values or ()) != len(self.dimension_names):
            return self._all.drop(self.metric_name, f"it has the dimensions {self.dimension_names}, not {list(dimension_values or ())}")
        dimensions = [Dimension(n, v) for n, v in zip(self.dimension_names, dimension_values)]
        self._all.record(self.metric_name, value, self.unit, dimensions, self.metric_type)

    def update(self, value: float, request_id: str = "", dimensions: Sequence[Dimension] = ()) -> None:
        self.dimension_names = [d.name for d in dimensions]
        self.add_or_update(value, [d.value for d in dimensions], request_id)


class ModelMetrics:
    """Counterpart of ts.metrics.metric_cache_yaml_impl."""

    def __init__(self, context: Context):
        self._metrics, self._model = context.metrics, context.model
        self._host = socket.gethostname()
        self.cache: Dict[MetricTypes, Dict[str, CachingMetric]] = {}
        self._dropped: Set[str] = set()

    def add_counter(self, name: str, value: float, idx: Any = None, dimensions: Optional[List[Dimension]] = None) -> None:
        self.add_metric(name, value, "count", idx, dimensions, MetricTypes.COUNTER)

    def add_gauge(self, name: str, value: float, idx: Any = None, unit: str = "count", dimensions: Optional[List[Dimension]] = None) -> None:
        self.add_metric(name, value, unit, idx, dimensions, MetricTypes.GAUGE)

    def add_time(
        self,
        name: str,
        value: float,
        idx: Any = None,
        unit: str = "ms",
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self._add_of_unit(name, value, idx, unit, TIME_UNITS, dimensions, metric_type)

    def add_size(
        self,
        name: str,
        value: float,
        idx: Any = None,
        unit: str = "MB",
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self._add_of_unit(name, value, idx, unit, SIZE_UNITS, dimensions, metric_type)

    def add_percent(
        self,
        name: str,
        value: float,
        idx: Any = None,
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self.add_metric(name, value, "percent", idx, dimensions, metric_type)

    def add_error(self, name: str, value: float, dimensions: Optional[List[Dimension]] = None) -> None:
        self._add(name, value, "", _with(dimensions, Level="Error"), MetricTypes.COUNTER)

    def add_metric(
        self,
        name: str,
        value: float,
        unit: str = "count",
        idx: Any = None,
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.COUNTER,
    ) -> None:
        self._add(name, value, unit, _with(dimensions, ModelName=self._model, Level="Model"), type_of(metric_type))

    def add_metric_to_cache(
        self,
        metric_name: str,
        unit: str,
        dimension_names: Sequence[str] = (),
        metric_type: MetricTypes = MetricTypes.COUNTER,
    ) -> CachingMetric:
        made = CachingMetric(self, metric_name, unit, dimension_names or (), type_of(metric_type))
        self.cache.setdefault(made.metric_type, {})[metric_name] = made
        return made

    def get_metric(self, metric_name: str, metric_type: MetricTypes = MetricTypes.COUNTER) -> CachingMetric:
        found = self.cache.get(type_of(metric_type), {}).get(metric_name)
        if found is None:
            raise MetricError(f"there is no {type_of(metric_type).value} '{metric_name}': add_metric_to_cache makes one")
        return found

    # -- Updates --

    def record(self, name: str, value: float, unit: str, dimensions: Sequence[Dimension], kind: MetricTypes) -> None:
        try:
            labels = {str(d.name): str(d.value) for d in dimensions}
            family, labels = self._family(name, unit, kind), {**labels, "Hostname": self._host}
            if isinstance(family, HistogramFamily):
                family.of(labels).observe(value)
            elif kind == MetricTypes.COUNTER:
                family.of(labels).increment(value)
            else:
                family.of(labels).set(value)
        except MetricError as wrong:
            self.drop(name, str(wrong))

    def declare(self, name: str, unit: str, kind: MetricTypes) -> None:
        """Reserves the name for this kind."""
        try:
            self._family(name, unit, kind)
        except MetricError as wrong:
            self.drop(name, str(wrong))

    def drop(self, name: str, why: str) -> None:
        shown = str(name)[:NAME_BYTES_MAX]
        if shown not in self._dropped and len(self._dropped) < DROPS_LOGGED_MAX:
            self._dropped.add(shown)
            log.warning("the metric %r is not told: %.1024s", shown, why)

    def _family(self, name: str, unit: str, kind: MetricTypes) -> Union[Family, HistogramFamily]:
        help = f"Torchserve prometheus {kind.value} metric with unit: {unit}"
        if kind == MetricTypes.HISTOGRAM:
            return self._metrics.histogram(name, help)
        return self._metrics.family(COUNTER if kind == MetricTypes.COUNTER else GAUGE, name, help)

    def _add(self, name: str, value: float, unit: str, dimensions: List[Dimension], kind: MetricTypes) -> None:
        """Uses the dimensions of this call, whatever the metric was created with; get_metric finds it from now on."""
        known = self.cache.get(kind, {}).get(name)
        if known is None and sum(len(of_kind) for of_kind in self.cache.values()) < CACHED_MAX:
            known = self.add_metric_to_cache(name, unit, [d.name for d in dimensions], kind)
        self.record(name, value, known.unit if known else unit, dimensions, kind)

    def _add_of_unit(self, name: str, value: float, idx: Any, unit: str, units: Tuple[str, ...], dimensions: Any, kind: MetricTypes) -> None:
        if unit not in units:
            raise MetricError(f"the metric '{name}' cannot have the unit '{unit}', only {', '.join(units)}")
        self.add_metric(name, value, unit, idx, dimensions, kind)


def _with(dimensions: Optional[Sequence[Dimension]], **missing: str) -> List[Dimension]:
    """The caller's dimensions, followed by the defaults that it has not named."""
    given = list(dimensions or ())
    names = {d.name for d in given}
    return given + [Dimension(name, value) for name, value in missing.items() if name not in names]
