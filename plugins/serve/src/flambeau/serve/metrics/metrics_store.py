"""Where a handler's measurements gather until its worker hands them to the front."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from flambeau.serve.metrics.dimension import Dimension
from flambeau.serve.metrics.metric_type_enum import MetricTypes

__all__ = ["CustomMetric", "MetricsStore"]

logger = logging.getLogger(__name__)

_MOST_KEPT = 10_000
_TIME_UNITS = {"ms": "ms", "s": "s"}
_SIZE_UNITS = {"MB": "MB", "kB": "kB", "GB": "GB", "B": "B"}


class CustomMetric:
    """A metric of the handler's own.

    Args:
        store: where its values go.
        name: of the metric.
        unit: of its values.
        dimension_names: its labels.
        metric_type: of the metric.
    """

    def __init__(
        self, store: MetricsStore, name: str, unit: str, dimension_names: Sequence[str], metric_type: MetricTypes
    ) -> None:
        self._store = store
        self.metric_name, self.unit = name, unit
        self.dimension_names = list(dimension_names)
        self.metric_type = metric_type

    def add_or_update(
        self, value: float, dimension_values: Sequence[str] = (), request_id: str = "", **_: object
    ) -> None:
        """Take a value.

        Args:
            value: what was measured; added up by a counter, kept by a gauge.
            dimension_values: one for each label, in order.
            request_id: what it was measured for.

        Raises:
            ValueError: another number of values than there are labels.
        """
        if len(dimension_values) != len(self.dimension_names):
            raise ValueError(
                f"{self.metric_name}: {len(dimension_values)} values for the labels {self.dimension_names}."
            )
        labels = dict(zip(self.dimension_names, map(str, dimension_values), strict=True))
        self._store.take(self.metric_name, value, self.unit, labels, self.metric_type, request_id)

    update = add_or_update


class MetricsStore:
    """Handed to handlers as `context.metrics`.

    Args:
        request_ids: number in the batch -> id of the request.
        model_name: a label of what has no other.
    """

    def __init__(self, request_ids: dict[int, str] | None, model_name: str) -> None:
        self.request_ids = request_ids
        self.model_name = model_name
        self.cache: dict[tuple[str, MetricTypes], CustomMetric] = {}
        self._values: list[dict[str, Any]] = []

    def taken(self) -> list[dict[str, Any]]:
        """What was measured since the last call: `name`, `value`, `unit`, `labels`, `type`, `request`."""
        values, self._values = self._values, []
        return values

    def add_counter(
        self, name: str, value: float, idx: int | None = None, dimensions: list[Dimension] | None = None
    ) -> None:
        """Add to a count."""
        self._add(name, value, "count", idx, dimensions, MetricTypes.COUNTER)

    def add_time(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        unit: str = "ms",
        dimensions: list[Dimension] | None = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        """Note a time.

        Raises:
            ValueError: the unit is neither "ms" nor "s".
        """
        self._add(name, value, _unit(unit, _TIME_UNITS), idx, dimensions, metric_type)

    def add_size(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        unit: str = "MB",
        dimensions: list[Dimension] | None = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        """Note a size.

        Raises:
            ValueError: the unit is none of "B", "kB", "MB", "GB".
        """
        self._add(name, value, _unit(unit, _SIZE_UNITS), idx, dimensions, metric_type)

    def add_percent(
        self,
        name: str,
        value: float,
        idx: int | None = None,
        dimensions: list[Dimension] | None = None,
        metric_type: MetricTypes = MetricTypes.GAUGE,
    ) -> None:
        """Note a percentage."""
        self._add(name, value, "percent", idx, dimensions, metric_type)

    def add_error(self, name: str, value: object, dimensions: list[Dimension] | None = None) -> None:
        """Note an error; it is logged, and counted."""
        logger.error("%s: %s", name, value)
        self._add(name, 1, "count", None, dimensions, MetricTypes.COUNTER)

    def add_metric(
        self,
        name: str,
        value: float,
        unit: str,
        idx: int | None = None,
        dimensions: list[Dimension] | None = None,
        metric_type: MetricTypes = MetricTypes.COUNTER,
    ) -> None:
        """Note a value of any unit."""
        self._add(name, value, unit, idx, dimensions, metric_type)

    def add_metric_to_cache(
        self,
        metric_name: str,
        unit: str,
        dimension_names: Sequence[str] = (),
        metric_type: MetricTypes = MetricTypes.COUNTER,
    ) -> CustomMetric:
        """Declare a metric; its `add_or_update` takes values."""
        metric = CustomMetric(self, metric_name, unit, dimension_names, metric_type)
        self.cache[metric_name, metric_type] = metric
        return metric

    def get_metric(self, metric_name: str, metric_type: MetricTypes = MetricTypes.COUNTER) -> CustomMetric:
        """A metric that was declared.

        Raises:
            KeyError: it was not.
        """
        return self.cache[metric_name, metric_type]

    def take(
        self, name: str, value: float, unit: str, labels: dict[str, str], kind: MetricTypes, request_id: str
    ) -> None:
        """Keep a value until the worker hands it on; of a flood the first ones."""
        if len(self._values) < _MOST_KEPT:
            self._values.append(
                {
                    "name": str(name), "value": float(value), "unit": unit, "labels": labels, "type": kind.value,
                    "request": request_id,
                }
            )  # fmt: skip

    def _add(
        self,
        name: str,
        value: float,
        unit: str,
        idx: int | None,
        dimensions: list[Dimension] | None,
        kind: MetricTypes,
    ) -> None:
        labels = {one.name: str(one.value) for one in dimensions or []}
        labels.setdefault("ModelName", self.model_name)
        labels.setdefault("Level", "Model")
        self.take(name, value, unit, labels, kind, (self.request_ids or {}).get(idx if idx is not None else 0, ""))


def _unit(unit: str, known: dict[str, str]) -> str:
    if unit not in known:
        raise ValueError(f"the unit is {unit!r}, expected one of {', '.join(known)}.")
    return known[unit]
