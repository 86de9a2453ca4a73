"""`ProcessLogger`: a logger in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
import traceback
from typing import Any, Self

from torch import multiprocessing

from flambeau.core.errors import describe
from flambeau.rl.record.loggers._service import LoggerClient

__all__ = ["ProcessLogger"]

_POLL_S = 0.2


class _ProcessLoggerClient(LoggerClient):
    """Sends calls to a logger's process through a queue; it can be sent to other processes itself.

    Args:
        commands: where calls go.
        facts: the logger's name, folder and representation.
    """

    def __init__(self, commands: Any, facts: dict[str, str]) -> None:
        self._commands = commands
        self._facts = facts
        self.exp_name = facts["exp_name"]
        self.log_dir = facts["log_dir"]
        self.experiment = None

    def _submit(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], wait: bool = False) -> Any:
        # A client elsewhere has no way back: what fails is told to the owner, by its next `flush`.
        self._commands.put((None, method, args, kwargs))

    @property
    def is_alive(self) -> bool:
        """Whether the queue takes calls."""
        return not getattr(self._commands, "_closed", False)

    @property
    def service_backend(self) -> str:
        """Where the logger is: "process"."""
        return "process"

    def __repr__(self) -> str:
        return self._facts["repr"]


class ProcessLogger(_ProcessLoggerClient):
    """Owns a logger in a process of its own, so that what it writes or sends does not hold up training.

    Calls are sent and not waited for, but for histograms and parameters; what they raise is raised by the next `flush`.

    Args:
        logger_cls: the logger's class.
        args: its arguments, as `kwargs`.
        mp_context: how the process is started; default: "spawn".
        max_queue_size: calls that may wait; a further one waits for its place.
        startup_timeout: seconds that the logger has to begin.

    Raises:
        RuntimeError: the logger could not be made; the message has its traceback.

    Example:
        >>> from flambeau.rl.record import CSVLogger
        >>> logger = ProcessLogger(CSVLogger, "run", "logs")  # doctest: +SKIP
        >>> logger.log_scalar("loss", 1.0, step=0)  # doctest: +SKIP
        >>> logger.shutdown()  # doctest: +SKIP
    """

    def __init__(
        self,
        logger_cls: type,
        *args: Any,
        mp_context: Any = None,
        max_queue_size: int = 1000,
        startup_timeout: float = 60.0,
        **kwargs: Any,
    ) -> None:
        if max_queue_size < 1:
            raise ValueError(f"max_queue_size must be 1 or more; got {max_queue_size}.")
        context = (
            multiprocessing.get_context(mp_context or "spawn") if not hasattr(mp_context, "Process") else mp_context
        )
        self._answers = context.Queue()
        self._tickets = itertools.count()
        self._calling = threading.Lock()
        commands = context.Queue(max_queue_size)
        self._process = context.Process(
            target=_serve, args=(logger_cls, args, kwargs, commands, self._answers), daemon=True, name="flambeau-logger"
        )
        self._stopped = False
        self._process.start()
        try:
            facts = self._answer(None, startup_timeout)
        except BaseException:
            self._end()
            raise
        super().__init__(commands, facts)

    def _answer(self, ticket: int | None, timeout: float | None) -> Any:
        """What the process answers to a call; a process that died is noticed."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                got, error, value = self._answers.get(timeout=_POLL_S)
            except queue.Empty:
                if not self._process.is_alive():
                    raise RuntimeError(f"The logger's process ended with exit code {self._process.exitcode}.") from None
                if end is not None and time.monotonic() > end:
                    raise TimeoutError(f"The logger's process did not answer within {timeout} s.") from None
                continue
            if got != ticket:
                continue  # the answer to a call that was not waited for any longer
            if error is not None:
                raise RuntimeError(f"The logger failed: {error}")
            return value

    def _submit(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], wait: bool = False) -> Any:
        self._check()
        if not wait:
            self._put((None, method, args, kwargs))
            return None
        return self._call(method, args, kwargs, None)

    def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None) -> Any:
        with self._calling:
            ticket = next(self._tickets)
            self._put((ticket, method, args, kwargs))
            return self._answer(ticket, timeout)

    def _put(self, command: Any) -> None:
        while True:
            try:
                self._commands.put(command, timeout=_POLL_S)
                return
            except queue.Full:
                self._check()

    def _check(self) -> None:
        if self._stopped:
            raise RuntimeError("The logger was shut down; make another one.")
        if not self._process.is_alive():
            raise RuntimeError(f"The logger's process ended with exit code {self._process.exitcode}; make another one.")

    def start(self) -> Self:
        """The logger, which has begun already."""
        self._check()
        return self

    def client(self) -> _ProcessLoggerClient:
        """What logs from other processes."""
        return _ProcessLoggerClient(self._commands, self._facts)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return not self._stopped and self._process.is_alive()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is logged.

        Args:
            timeout: seconds; default: as long as it takes.

        Raises:
            RuntimeError: something could not be logged.
            TimeoutError: it took longer.
        """
        self._check()
        self._call("flush", (), {}, timeout)

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """Log what was sent, and end the process.

        Args:
            timeout: seconds that it has; then it is killed.

        Raises:
            RuntimeError: something could not be logged.
        """
        if self._stopped:
            return
        try:
            if self._process.is_alive():
                self._call("shutdown", (), {}, timeout)
        finally:
            self._stopped = True
            self._end(timeout)

    def close(self, timeout: float | None = 5.0) -> None:
        """As `shutdown`."""
        self.shutdown(timeout)

    def _end(self, timeout: float | None = 5.0) -> None:
        self._process.join(timeout)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        for each in (getattr(self, "_commands", None), self._answers):
            if each is not None:
                each.close()
                each.cancel_join_thread()

    def __enter__(self) -> Self:
        """The logger, which is shut down at the end of a `with` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut it down."""
        self.shutdown()

    def __getstate__(self) -> Any:
        raise TypeError("A ProcessLogger stays with its owner; send its client() to other processes.")


def _serve(cls: Any, args: Any, kwargs: Any, commands: Any, answers: Any) -> None:
    """The logger's process: make it, and do what is sent, until it is to stop."""
    try:
        logger = cls(*args, **kwargs)
        facts = {"exp_name": logger.exp_name, "log_dir": str(logger.log_dir), "repr": repr(logger)}
    except BaseException:
        answers.put((None, traceback.format_exc(), None))
        return
    answers.put((None, None, facts))
    failure: str | None = None
    parent = multiprocessing.parent_process()
    while True:
        try:
            ticket, method, args, kwargs = commands.get(timeout=1.0)
        except queue.Empty:
            if parent is not None and not parent.is_alive():
                with contextlib.suppress(Exception):  # nobody is there to be told
                    logger.shutdown()
                return
            continue
        error, value = None, None
        try:
            value = getattr(logger, method)(*args, **kwargs)
        except Exception as raised:
            error = f"{method}: {describe(raised)}"
        if ticket is None:
            failure = failure or error
            continue
        if method in ("flush", "shutdown"):
            error, failure = failure or error, None
        answers.put((ticket, error, value if method == "log_metrics" else None))
        if method == "shutdown":
            return
