"""`TensorDictFuture`: a tensordict that is still being written."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any


class TensorDictFuture:
    """What `return_early=True` returns.

    Args:
        futures: of the work.
        resulting_td: the tensordict it is done for; None where the last future gives it.
    """

    def __init__(self, futures: Sequence[Future[Any]], resulting_td: Any = None) -> None:
        self.futures = list(futures)
        self.resulting_td = resulting_td

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the work, and return the tensordict.

        Raises:
            Exception: what the work raised.
            TimeoutError: it takes longer than `timeout` seconds.
        """
        given = [future.result(timeout) for future in self.futures]
        return given[-1] if self.resulting_td is None else self.resulting_td

    def done(self) -> bool:
        """Whether the work has ended."""
        return all(future.done() for future in self.futures)


def in_background(function: Any, *args: Any, **kwargs: Any) -> TensorDictFuture:
    """Run a function in a thread of its own."""
    import threading

    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    # Not a daemon: the interpreter waits for what is being written.
    threading.Thread(target=run, name="tensordict-save").start()
    return TensorDictFuture([future])
