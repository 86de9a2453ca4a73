"""Reports of durations and amounts of data, and timers that do not wait for what they time."""

from __future__ import annotations

import abc
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

import torch

from flambeau.rec.errors import OptionError

__all__ = [
    "AsyncSeriesTimer",
    "AsyncSeriesTimerRecordedContext",
    "StdLogStatsReporter",
    "StdLogStatsReporterConfig",
    "TBEStatsReporter",
    "TBEStatsReporterConfig",
]

T = TypeVar("T")

logger = logging.getLogger("flambeau.rec.tbe")


class TBEStatsReporter(abc.ABC):
    """Takes what tables report of themselves somewhere."""

    @abc.abstractmethod
    def should_report(self, iteration_step: int) -> bool:
        """Whether reports of a step are wanted.

        Args:
            iteration_step: number of the step.
        """

    @abc.abstractmethod
    def register_stats(self, stats_name: str, amplifier: int = 1) -> None:
        """Announce what will be reported.

        Args:
            stats_name: its name.
            amplifier: what values are multiplied by.
        """

    @abc.abstractmethod
    def report_duration(
        self,
        iteration_step: int,
        event_name: str,
        duration_ms: float,
        embedding_id: str = "",
        tbe_id: str = "",
        time_unit: str = "ms",
        enable_tb_metrics: bool = False,
    ) -> None:
        """Report how long something took.

        Args:
            iteration_step: number of the step.
            event_name: what it was.
            duration_ms: how long, in `time_unit`.
            embedding_id: which table.
            tbe_id: which group of tables.
            time_unit: "ms", "us" or "ns".
            enable_tb_metrics: whether it is wanted in TensorBoard, too.
        """

    @abc.abstractmethod
    def report_data_amount(
        self,
        iteration_step: int,
        event_name: str,
        data_bytes: int,
        embedding_id: str = "",
        tbe_id: str = "",
        enable_tb_metrics: bool = False,
    ) -> None:
        """Report how much data something was, or another number.

        Args:
            iteration_step: number of the step.
            event_name: what it was.
            data_bytes: how much.
            embedding_id: which table.
            tbe_id: which group of tables.
            enable_tb_metrics: whether it is wanted in TensorBoard, too.
        """


class StdLogStatsReporter(TBEStatsReporter):
    """Writes reports to the log, at level INFO.

    Args:
        report_interval: steps between those that are reported, 1 or more.

    Raises:
        AssertionError: it is less; also a ValueError.
    """

    def __init__(self, report_interval: int) -> None:
        if report_interval <= 0:
            raise OptionError(f"report_interval is {report_interval}; expected 1 or more.")
        self.report_interval = report_interval
        self._amplifiers: dict[str, int] = {}

    def register_stats(self, stats_name: str, amplifier: int = 1) -> None:
        """Announce what will be reported."""
        self._amplifiers[stats_name] = amplifier

    def should_report(self, iteration_step: int) -> bool:
        """Whether the step's number is a multiple of the interval."""
        return iteration_step % self.report_interval == 0

    def _report(self, step: int, event: str, value: float, unit: str, embedding_id: str, tbe_id: str) -> None:
        if self.should_report(step):
            value *= self._amplifiers.get(event, 1)
            logger.info("step %d, tables %s, table %s: %s %s %s", step, tbe_id, embedding_id, event, value, unit)

    def report_duration(
        self,
        iteration_step: int,
        event_name: str,
        duration_ms: float,
        embedding_id: str = "",
        tbe_id: str = "",
        time_unit: str = "ms",
        enable_tb_metrics: bool = False,
    ) -> None:
        """Write a duration to the log."""
        self._report(iteration_step, event_name, duration_ms, time_unit, embedding_id, tbe_id)

    def report_data_amount(
        self,
        iteration_step: int,
        event_name: str,
        data_bytes: int,
        embedding_id: str = "",
        tbe_id: str = "",
        enable_tb_metrics: bool = False,
    ) -> None:
        """Write an amount to the log."""
        self._report(iteration_step, event_name, data_bytes, "bytes", embedding_id, tbe_id)


@dataclass(frozen=True)
class TBEStatsReporterConfig:
    """How reports are made.

    Args:
        interval: steps between those that are reported; none are where it is 0 or less.
    """

    interval: int = -1

    def create_reporter(self) -> TBEStatsReporter | None:
        """The reporter; None where nothing is reported.

        Raises:
            ValueError: there is an interval, and this class has no reporter for it; its subclasses have.
        """
        if self.interval <= 0:
            return None
        raise OptionError(
            f"interval is {self.interval}, and {type(self).__name__} has no reporter; use StdLogStatsReporterConfig, "
            "or a subclass whose create_reporter gives one."
        )


@dataclass(frozen=True)
class StdLogStatsReporterConfig(TBEStatsReporterConfig):
    """Reports to the log."""

    def create_reporter(self) -> TBEStatsReporter | None:
        """A `StdLogStatsReporter`; None where nothing is reported."""
        return StdLogStatsReporter(self.interval) if self.interval > 0 else None


class AsyncSeriesTimerRecordedContext(Generic[T]):
    """Times a block of code by an `AsyncSeriesTimer`.

    Args:
        timer: that timer.
        context: what its function is told of this block.
        stream: what the block runs on; the current one by default.
    """

    def __init__(self, timer: AsyncSeriesTimer[T], context: T, stream: torch.cuda.Stream | None = None) -> None:
        self._timer, self._context, self._stream = timer, context, stream

    def __enter__(self) -> None:
        self._timer.start(self._stream)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.stop(self._context, self._stream)


class _Moment:
    """When a stream, or without an accelerator the program, came to a place."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        self._event = torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else None
        self._ns = time.perf_counter_ns()
        if self._event is not None:
            self._event.record(stream or torch.cuda.current_stream())

    def is_past(self) -> bool:
        return self._event is None or bool(self._event.query())

    def until_ms(self, other: _Moment) -> float:
        if self._event is not None and other._event is not None:
            return float(self._event.elapsed_time(other._event))
        return (other._ns - self._ns) / 1e6


class AsyncSeriesTimer(Generic[T]):
    """Times one thing after another, without waiting for an accelerator: a duration is told once it is known.

    Args:
        report_functor: called with the context of a measurement and its milliseconds.
    """

    def __init__(self, report_functor: Callable[[T, float], None]) -> None:
        self._report = report_functor
        self._begun: _Moment | None = None
        self._done: deque[tuple[_Moment, _Moment, T]] = deque()

    def start(self, stream: torch.cuda.Stream | None = None) -> None:
        """Begin to measure.

        Args:
            stream: what runs there is measured; the current one by default.

        Raises:
            AssertionError: a measurement has begun already; also a ValueError.
        """
        if self._begun is not None:
            raise OptionError("start was called twice; call stop in between.")
        self._begun = _Moment(stream)

    def stop(self, context: T, stream: torch.cuda.Stream | None = None) -> None:
        """End a measurement, and report those that are known by now.

        Args:
            context: what the function is told of it.
            stream: as at the start.

        Raises:
            AssertionError: none has begun; also a ValueError.
        """
        if self._begun is None:
            raise OptionError("stop was called before start.")
        self._done.append((self._begun, _Moment(stream), context))
        self._begun = None
        while self._done and self._done[0][1].is_past():
            begin, end, told = self._done.popleft()
            self._report(told, begin.until_ms(end))

    def recording(self, context: T, stream: torch.cuda.Stream | None = None) -> AsyncSeriesTimerRecordedContext[T]:
        """Measure a block: `with timer.recording(context): ...`."""
        return AsyncSeriesTimerRecordedContext(self, context, stream)
