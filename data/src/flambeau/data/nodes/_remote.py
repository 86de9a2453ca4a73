"""Functions that run in processes of their own."""

from __future__ import annotations

import multiprocessing
import pickle
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch.multiprocessing  # noqa: F401 - tensors then travel through shared memory

from flambeau.core.errors import FlambeauError
from flambeau.data.nodes._pool import OwnedFunction


class WorkerDiedError(FlambeauError, RuntimeError):
    """A worker process ended without an answer, twice over the same item."""


class RemoteFunction(OwnedFunction):
    """A function in a child process, called from one thread at a time.

    A child that dies (killed, out of memory, a crash in native code) is replaced, with a warning that says how it died,
    and the item is given to the new one. An item that kills that one too raises.

    Args:
        function: what to call; it is pickled unless the start method is fork.
        context: a start method, or None for the platform's.
    """

    def __init__(self, function: Callable[[Any], Any], context: str | None) -> None:
        self._function = function
        self._context: Any = multiprocessing.get_context(context)
        self._closed = False
        self._start()

    def __call__(self, item: Any) -> Any:
        for attempt in range(2):
            try:
                self._connection.send(item)
                good, value = self._connection.recv()
            except (EOFError, ConnectionError) as error:
                if self._closed:
                    raise
                how = self._how_it_ended()
                if attempt:
                    self._start()  # for the items that follow
                    raise WorkerDiedError(
                        f"A worker process {how} while it worked on an item, and so did the one that took its place. "
                        f"The item is not lost: the state leads to it. It was {_short(item)}."
                    ) from error
                warnings.warn(f"A worker process {how}; its item goes to a new one.", RuntimeWarning, stacklevel=2)
                self._start()
                continue
            if good:
                return value
            raise value
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the process."""
        self._closed = True
        # Not by closing the connection: a thread may wait on it, and a sibling, forked later, may hold a copy of it.
        self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _start(self) -> None:
        self._connection, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve, args=(theirs, self._connection, self._function), daemon=True, name="flambeau-worker"
        )
        self._process.start()
        theirs.close()

    def _how_it_ended(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        self._connection.close()
        return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"


def _serve(connection: Connection, parents: Connection, function: Callable[[Any], Any]) -> None:
    parents.close()
    parent = multiprocessing.parent_process()
    watched: list[Any] = [connection] if parent is None else [connection, parent.sentinel]
    while True:
        if connection not in wait(watched):
            return  # the parent has died
        try:
            item = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = (True, function(item))
        except Exception as error:  # raised again where the item is waited for
            answer = (False, _portable(error))
        connection.send(answer)


def _portable(error: Exception) -> Exception:
    """The error with its traceback written down, since that does not travel; a plain one if it does not either."""
    trace = "".join(traceback.format_exception(error))
    error.add_note(f"Raised in a worker process:\n{trace}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__} in a worker process:\n{trace}")
    return error


def _short(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 200 else text[:200] + "..."
