"""Events: one for each call of the runner, for whoever wants to count them. They go nowhere unless a logger says so."""

from __future__ import annotations

import json
import logging
import time
import traceback
from types import TracebackType

from flambeau.launch.runner.events.api import SourceType, TorchxEvent
from flambeau.launch.runner.events.handlers import get_logging_handler

__all__ = ["SourceType", "TorchxEvent", "log_event", "record"]

_events_logger: logging.Logger | None = None


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """The one logger of this process; the first destination counts."""
    global _events_logger
    if _events_logger is None:
        _events_logger = logging.getLogger(f"flambeau-launch-event-{destination}")
        _events_logger.setLevel(logging.INFO)
        _events_logger.propagate = False
        _events_logger.addHandler(get_logging_handler(destination))
    return _events_logger


def record(event: TorchxEvent, destination: str = "null") -> None:
    """Tell an event; what cannot be written as JSON is told to the log instead, and breaks nothing."""
    try:
        serialized = event.serialize()
    except (TypeError, ValueError):
        logging.getLogger(__name__).exception("an event of %s cannot be written as JSON", event.api)
    else:
        _get_or_create_logger(destination).info(serialized)


class log_event:
    """A block that is told as one event, with the time it took and the error it raised, which goes on.

    Example:
        >>> with log_event("dryrun", scheduler="slurm") as context:
        ...     context._torchx_event.app_id = "1234"
    """

    def __init__(
        self,
        api: str,
        scheduler: str | None = None,
        app_id: str | None = None,
        app_image: str | None = None,
        runcfg: str | None = None,
        workspace: str | None = None,
    ) -> None:
        self._torchx_event = TorchxEvent(
            "", scheduler or "", api, app_id, app_image, runcfg, source=SourceType.UNKNOWN, workspace=workspace
        )
        self._began_cpu = self._began = 0

    def __enter__(self) -> log_event:
        self._began_cpu, self._began = time.process_time_ns(), time.perf_counter_ns()
        self._torchx_event.start_epoch_time_usec = time.time_ns() // 1000
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        event = self._torchx_event
        event.cpu_time_usec = (time.process_time_ns() - self._began_cpu) // 1000
        event.wall_time_usec = (time.perf_counter_ns() - self._began) // 1000
        if error is not None:
            event.raw_exception = json.dumps("".join(traceback.format_exception(kind, error, trace)))
        record(event)
        return None
