"""`LoggerMonitor`: keeps what collectors and replay buffers tell of themselves, as `Every` says when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flambeau.core.errors import describe
from flambeau.rl._utils import logger as log

__all__ = ["Every", "LoggerMonitor"]

_COUNTERS = ("batches", "episodes", "extend_count", "frames", "sample_count", "steps", "trajectories", "write_count")
"""What only grows, so that it has a rate."""


@dataclass(frozen=True)
class Every:
    """When a monitor logs.

    Args:
        kind: "seconds" or "counter".
        interval: seconds, or how far the counter goes on; > 0.
        key: name of the counter.

    Raises:
        ValueError: the interval is not above 0, the kind another one, or a counter has no name.
    """

    kind: Literal["seconds", "counter"]
    interval: float
    key: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("seconds", "counter"):
            raise ValueError(f"kind must be 'seconds' or 'counter'; got {self.kind!r}.")
        if self.interval <= 0:
            raise ValueError(f"interval must be above 0; got {self.interval}.")
        if self.kind == "counter" and not self.key:
            raise ValueError("A counter needs its name: Every.counter('frames', 1000).")

    @classmethod
    def seconds(cls, interval: float) -> Every:
        """Every so many seconds."""
        return cls("seconds", float(interval))

    @classmethod
    def counter(cls, key: str, interval: int) -> Every:
        """Whenever a counter passes a multiple of `interval`."""
        return cls("counter", interval, key)


@dataclass
class _Watch:
    """What is watched, and how far it has come."""

    name: str
    stats: Callable[[], Mapping[str, Any]]
    schedule: Every | None
    step: str | None
    rate_keys: tuple[str, ...] | None
    log_on_start: bool
    log_on_close: bool
    polled: bool = False
    mark: float = 0.0
    last: dict[str, float] = field(default_factory=dict)
    last_at: float = 0.0
    failing: bool = False


class LoggerMonitor:
    """Logs what objects tell of themselves by `stats()`, names and numbers, and the rates of what they count.

    Names are "WATCH/ENTRY", rates "WATCH/ENTRY_per_second". The monitor owns neither the logger nor what it watches.

    Args:
        logger: where numbers go.
        poll_interval: seconds between looks, > 0.
        background: look from a thread, between `start` and `stop`; else whenever `step` is called.
        on_error: what to do where a look fails: "warn" once until it works again, "raise", or "ignore".

    Raises:
        ValueError: an argument is not one of these.

    Example:
        >>> import tempfile
        >>> from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
        >>> from flambeau.rl.record import CSVLogger
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=2)
        >>> monitor = LoggerMonitor(CSVLogger("run", tempfile.mkdtemp()), background=False)
        >>> monitor.watch(buffer, name="buffer", stats_fn=lambda: {"size": len(buffer)})
        'buffer'
        >>> monitor.step()
        {'buffer': {'buffer/size': 0.0}}
    """

    def __init__(
        self,
        logger: Any,
        *,
        poll_interval: float = 1.0,
        background: bool = True,
        on_error: Literal["warn", "raise", "ignore"] = "warn",
    ) -> None:
        if poll_interval <= 0:
            raise ValueError(f"poll_interval must be above 0; got {poll_interval}.")
        if on_error not in ("warn", "raise", "ignore"):
            raise ValueError(f"on_error must be 'warn', 'raise' or 'ignore'; got {on_error!r}.")
        self.logger = logger
        self.poll_interval = poll_interval
        self.background = background
        self.on_error = on_error
        self._watches: dict[str, _Watch] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._stopped = False

    def watch(
        self,
        target: Any,
        *,
        name: str | None = None,
        schedule: Every | None = None,
        step: str | None = None,
        stats_fn: Callable[..., Mapping[str, Any]] | None = None,
        stats_kwargs: dict[str, Any] | None = None,
        rate_keys: tuple[str, ...] | None = None,
        log_on_start: bool = True,
        log_on_close: bool = True,
    ) -> str:
        """Watch an object.

        Args:
            target: has `stats()`.
            name: its name, which no other has; default: that of its class, in lower case and with a number where it
                is taken.
            schedule: when it is logged; default: at every look.
            step: the entry that is the step; default: the schedule's counter.
            stats_fn: called in the place of `target.stats`.
            stats_kwargs: arguments for it.
            rate_keys: entries whose rates are logged; default: those that are known to be counters.
            log_on_start: log the first look, whatever the schedule.
            log_on_close: log when the monitor stops.

        Returns:
            The name.

        Raises:
            ValueError: the name is taken.
            TypeError: the object tells nothing of itself.
        """
        tell = stats_fn or getattr(target, "stats", None)
        if not callable(tell):
            raise TypeError(f"{type(target).__name__} has no stats(); give stats_fn=, which returns names and numbers.")
        arguments = dict(stats_kwargs or {})
        with self._lock:
            if name is None:
                stem, number = type(target).__name__.lower(), 0
                name = stem
                while name in self._watches:
                    number += 1
                    name = f"{stem}_{number}"
            elif name in self._watches:
                raise ValueError(f"{name!r} is watched already; give another name, or unwatch it.")
            if step is None and schedule is not None and schedule.kind == "counter":
                step = schedule.key
            self._watches[name] = _Watch(
                name, lambda: tell(**arguments), schedule, step, rate_keys, log_on_start, log_on_close
            )
        return name

    def unwatch(self, name: str) -> None:
        """Watch an object no longer.

        Raises:
            KeyError: none has that name.
        """
        with self._lock:
            if name not in self._watches:
                raise KeyError(f"nothing is watched as {name!r}; watched are {sorted(self._watches)}.")
            del self._watches[name]

    def step(self) -> dict[str, dict[str, float]]:
        """Look at everything once, and log what is due.

        Returns:
            What was logged, by name of what is watched.
        """
        with self._lock:
            return self._look(force=False)

    def _look(self, force: bool, only: set[str] | None = None) -> dict[str, dict[str, float]]:
        logged: dict[str, dict[str, float]] = {}
        for watch in list(self._watches.values()):
            if only is not None and watch.name not in only:
                continue
            try:
                numbers = self._poll(watch, force)
                watch.failing = False
            except Exception as error:
                if self.on_error == "raise":
                    raise
                if self.on_error == "warn" and not watch.failing:
                    log.warning("The monitor cannot log %r: %s", watch.name, describe(error))
                watch.failing = True
                continue
            if numbers is not None:
                logged[watch.name] = numbers
        return logged

    def _poll(self, watch: _Watch, force: bool) -> dict[str, float] | None:
        found = {name: float(value) for name, value in watch.stats().items()}
        now = time.monotonic()
        first = not watch.polled
        watch.polled = True
        if not force and not self._due(watch, found, now, first):
            if first:
                watch.last, watch.last_at = found, now
            return None
        numbers = {f"{watch.name}/{name}": value for name, value in found.items()}
        numbers |= self._rates(watch, found, now)
        step = None if watch.step is None or watch.step not in found else int(found[watch.step])
        self.logger.log_metrics(numbers, step=step)
        watch.last, watch.last_at = found, now
        return numbers

    def _due(self, watch: _Watch, found: dict[str, float], now: float, first: bool) -> bool:
        schedule = watch.schedule
        if schedule is None:
            return watch.log_on_start or not first
        if schedule.kind == "seconds":
            due = now - watch.mark >= schedule.interval
            if first or due:
                watch.mark = now
            return watch.log_on_start if first else due
        reached = found[str(schedule.key)] // schedule.interval
        due = reached > watch.mark
        watch.mark = reached  # a counter that went back begins anew
        return watch.log_on_start if first else due

    def _rates(self, watch: _Watch, found: dict[str, float], now: float) -> dict[str, float]:
        keys = watch.rate_keys if watch.rate_keys is not None else tuple(key for key in found if key in _COUNTERS)
        passed = now - watch.last_at
        if not watch.last or passed <= 0:
            return {}
        changes = {key: found[key] - watch.last[key] for key in keys if key in found and key in watch.last}
        return {f"{watch.name}/{key}_per_second": by / passed for key, by in changes.items() if by >= 0}

    # In the background

    def start(self) -> LoggerMonitor:
        """Begin to look from a thread, where `background` is so."""
        self._stopped = False
        if self.background and (self._thread is None or not self._thread.is_alive()):
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="flambeau-monitor", daemon=True)
            self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while True:
                self.step()
                if self._stop.wait(self.poll_interval):
                    return
        except Exception as error:  # told by `stop`
            self._failure = error

    def stop(self, *, log_final: bool | None = None) -> None:
        """Stop to look, and log everything once more; nothing where it has stopped already.

        Args:
            log_final: whether it is logged; default: as each was watched with `log_on_close`.

        Raises:
            Exception: what ended the thread, with on_error="raise".
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            thread.join()
        if self._stopped:
            return
        self._stopped = True
        with self._lock:
            final = {
                watch.name
                for watch in self._watches.values()
                if (watch.log_on_close if log_final is None else log_final)
            }
            self._look(force=True, only=final)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> LoggerMonitor:
        """The monitor, which looks until the end of a `with` block."""
        return self.start()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        """Stop it."""
        self.stop()
