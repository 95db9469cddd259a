"""`context.metrics` of a TorchServe handler: its counters and gauges, with their dimensions as labels.

As TorchServe tells them in its Prometheus mode: a counter grows by each value, a gauge (times, sizes, percentages) is the last
one; the host is a label more. Units and request ids are no labels, there as here. Histograms are refused: the
gateway knows counters and gauges.
"""

from __future__ import annotations

import enum
import socket
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .handler import Context
from .metrics import COUNTER, GAUGE, Family, MetricError

TIME_UNITS, SIZE_UNITS = ("ms", "s"), ("B", "kB", "MB", "GB")


class MetricTypes(enum.Enum):
    """ts.metrics.metric_type_enum's."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


def type_of(said: Any) -> MetricTypes:
    """Also of TorchServe's own enumeration, where it is installed."""
    return MetricTypes(getattr(said, "value", said))


class Dimension:
    """ts.metrics.dimension's."""

    def __init__(self, name: str, value: Any):
        self.name, self.value = name, value

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"


class CachingMetric:
    """One that is made once and updated by the values of its dimensions."""

    def __init__(self, all: "ModelMetrics", name: str, unit: str, dimension_names: Sequence[str], kind: MetricTypes):
        self._all = all
        self.metric_name, self.unit, self.metric_type = name, unit, kind
        self.dimension_names = list(dimension_names)
        all.family(name, unit, kind)  # a name that cannot be is refused here

    def add_or_update(self, value: float, dimension_values: Sequence[Any] = (), request_id: str = "") -> None:
        if len(dimension_values) != len(self.dimension_names):
            raise MetricError(f"the metric '{self.metric_name}' has the dimensions {self.dimension_names}, not {list(dimension_values)}")
        dimensions = [Dimension(n, v) for n, v in zip(self.dimension_names, dimension_values)]
        self._all.tell(self.metric_name, value, self.unit, dimensions, self.metric_type)

    def update(self, value: float, request_id: str = "", dimensions: Sequence[Dimension] = ()) -> None:
        self.dimension_names = [d.name for d in dimensions]
        self.add_or_update(value, [d.value for d in dimensions], request_id)


class ModelMetrics:
    """ts.metrics.metric_cache_yaml_impl's."""

    def __init__(self, context: Context):
        self._metrics, self._model = context.metrics, context.model
        self._host = socket.gethostname()
        self.cache: Dict[MetricTypes, Dict[str, CachingMetric]] = {}

    def add_counter(self, metric_name: str, value: float, idx: Any = None, dimensions: Optional[List[Dimension]] = None) -> None:
        self.add_metric(metric_name, value, "count", idx, dimensions, MetricTypes.COUNTER)

    def add_gauge(self, metric_name: str, value: float, idx: Any = None, unit: str = "count", dimensions: Optional[List[Dimension]] = None) -> None:
        self.add_metric(metric_name, value, unit, idx, dimensions, MetricTypes.GAUGE)

    def add_time(
        self,
        metric_name: str,
        value: float,
        idx: Any = None,
        unit: str = "ms",
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self._add_of_unit(metric_name, value, idx, unit, TIME_UNITS, dimensions, metric_type)

    def add_size(
        self,
        metric_name: str,
        value: float,
        idx: Any = None,
        unit: str = "MB",
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self._add_of_unit(metric_name, value, idx, unit, SIZE_UNITS, dimensions, metric_type)

    def add_percent(
        self,
        metric_name: str,
        value: float,
        idx: Any = None,
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        self.add_metric(metric_name, value, "percent", idx, dimensions, metric_type)

    def add_error(self, metric_name: str, value: float, dimensions: Optional[List[Dimension]] = None) -> None:
        self.add_metric(metric_name, value, "", None, dimensions or self._dimensions("Error"), MetricTypes.COUNTER)

    def add_metric(
        self,
        metric_name: str,
        value: float,
        unit: str = "count",
        idx: Any = None,
        dimensions: Optional[List[Dimension]] = None,
        metric_type: MetricTypes = MetricTypes.COUNTER,
    ) -> None:
        self.tell(metric_name, value, unit, dimensions or self._dimensions("Model"), metric_type)

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

    # -- What is told --

    def family(self, name: str, unit: str, kind: MetricTypes) -> Family:
        if type_of(kind) == MetricTypes.HISTOGRAM:
            raise MetricError(f"the metric '{name}' cannot be a histogram here: a counter or a gauge can be told")
        told = COUNTER if type_of(kind) == MetricTypes.COUNTER else GAUGE
        return self._metrics.family(told, name, f"Torchserve prometheus {told} metric with unit: {unit}")

    def tell(self, name: str, value: float, unit: str, dimensions: Sequence[Dimension], kind: MetricTypes) -> None:
        labels = {str(d.name): str(d.value) for d in dimensions}
        one = self.family(name, unit, kind).of({**labels, "Hostname": self._host})
        if type_of(kind) == MetricTypes.COUNTER:
            one.increment(value)
        else:
            one.set(value)

    def _add_of_unit(self, name: str, value: float, idx: Any, unit: str, units: Tuple[str, ...], dimensions: Any, kind: MetricTypes) -> None:
        if unit not in units:
            raise MetricError(f"the metric '{name}' cannot have the unit '{unit}', only {', '.join(units)}")
        self.add_metric(name, value, unit, idx, dimensions, kind)

    def _dimensions(self, level: str) -> List[Dimension]:
        return [Dimension("ModelName", self._model), Dimension("Level", level)]
