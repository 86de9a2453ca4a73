"""Threads that read a node, apply functions, and give the results out in order.

Each thread takes a token, reads one item under a lock, works on it and puts the numbered result into one queue. A
token goes back with each item given out, so that no more than a set number are under way. Beside the lock there is one
queue hop an item.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from flambeau.data.nodes._intraop import OneCoreEach
from flambeau.data.nodes.base_node import BaseNode
from flambeau.data.nodes.snapshot_store import QueueSnapshotStore

_ITEM, _ERROR, _BROKEN, _END = range(4)


class OwnedFunction:
    """A function that holds something, such as a process, which has to be let go of when its thread ends."""

    def __call__(self, item: Any) -> Any:
        """Work on an item."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go; a call that is under way raises."""
        raise NotImplementedError


class Pool:
    """Workers over one pass of a node.

    Args:
        source: the node, already reset to `state["source"]`.
        functions: one for each thread, applied to the items it reads.
        state: where to begin: `source` with the source's state, `skip` items behind it that had been given out, and
            `beyond`, which further ones had (counted from the source's state).
        ahead: items under way at most.
        every: how many items to read between two snapshots of the source.
        in_order: whether results come in the order of the items.
    """

    def __init__(
        self, source: BaseNode[Any], functions: list[Callable[[Any], Any]], state: dict[str, Any], *, ahead: int,
        every: int, in_order: bool,
    ) -> None:  # fmt: skip
        self._reading = _Reading(source, state["skip"], set(state["beyond"]), every)
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()
        self._in_order = in_order
        self._snapshot, self._snapshot_at = state["source"], 0
        self._low: int = state["skip"]  # everything below has been given out
        self._beyond: set[int] = set(state["beyond"])
        self._waiting: dict[int, tuple[int, Any]] = {}
        self._end: tuple[int, BaseException | None] | None = None
        self._failed: int | None = None  # number of the item whose error was raised last
        for _ in range(ahead):
            self._tokens.put(True)
        cores = OneCoreEach(len(functions))
        self._threads = [
            threading.Thread(
                target=_work,
                args=(cores, self._reading, function, self._tokens, self._results),
                name="flambeau-node",
                daemon=True,
            )
            for function in functions
        ]
        for thread in self._threads:
            thread.start()
        cores.in_caller()

    def take(self) -> Any:
        """The next result.

        Raises:
            StopIteration: the pass is over.
            Exception: what the function raised for this item: the state leads to it until the next is asked for, and
                is beyond it then. What the source raised is raised again and again.
        """
        if self._failed is not None:  # nobody tried again
            failed, self._failed = self._failed, None
            self._given(failed)
            self._tokens.put(True)
        while True:
            number, kind, value = self._next_result()
            if kind == _ITEM:
                self._given(number)
                self._tokens.put(True)
                return value
            if kind == _ERROR:
                self._failed = number
                raise value
            if kind == _BROKEN:
                self._waiting[number] = (kind, value)  # asked again, it says the same
                raise value
            self._end = (number, None)

    def state(self) -> dict[str, Any]:
        """Where to begin another pool to get what this one has not given out."""
        beyond = sorted(number - self._snapshot_at for number in self._beyond)
        return {"source": self._snapshot, "skip": self._low - self._snapshot_at, "beyond": beyond}

    def stop(self) -> None:
        """End the threads, after what each is doing."""
        self._reading.stopped = True
        for _ in self._threads:
            self._tokens.put(False)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _next_result(self) -> tuple[int, int, Any]:
        if self._end is not None and self._all_given(self._end[0]):
            raise StopIteration
        if self._in_order:
            while self._low in self._beyond:
                self._given(self._low)
            wanted = self._low
            while wanted not in self._waiting:
                if self._end is not None and wanted >= self._end[0]:
                    raise StopIteration
                number, kind, value = self._results.get()
                if kind == _END:
                    self._end = (number, None)
                else:
                    self._waiting[number] = (kind, value)
            return (wanted, *self._waiting.pop(wanted))
        if self._waiting:
            number = next(iter(self._waiting))
            return (number, *self._waiting.pop(number))
        return self._results.get()

    def _all_given(self, end: int) -> bool:
        return self._low + len(self._beyond) >= end

    def _given(self, number: int) -> None:
        if number != self._low:
            self._beyond.add(number)
            return
        while True:
            self._beyond.discard(self._low)
            self._low += 1
            if (snapshot := self._reading.snapshots.pop_version(self._low)) is not None:
                self._snapshot, self._snapshot_at = snapshot, self._low
            if self._low not in self._beyond:
                return


class _Reading:
    """The source, and the number of the item that is read next."""

    def __init__(self, source: BaseNode[Any], skip: int, beyond: set[int], every: int) -> None:
        self.lock = threading.Lock()
        self.snapshots = QueueSnapshotStore()
        self.stopped = False
        self._source = source
        self._left_out = beyond
        self._skip = skip
        self._every = every
        self._number = 0

    def read(self) -> tuple[int, int, Any]:
        """The next item with its number, or the end, or what the source raised."""
        try:
            while self._number < self._skip or self._number in self._left_out:
                next(self._source)
                self._count()
            item = next(self._source)
            return self._count(), _ITEM, item
        except StopIteration:
            self.stopped = True
            return self._number, _END, None
        except BaseException as error:
            self.stopped = True
            return self._number, _BROKEN, error

    def _count(self) -> int:
        self._number += 1
        if self._number % self._every == 0:
            self.snapshots.append(self._source.state_dict(), self._number)
        return self._number - 1


def _work(
    cores: OneCoreEach,
    reading: _Reading,
    function: Callable[[Any], Any],
    tokens: queue.SimpleQueue[bool],
    results: queue.SimpleQueue[Any],
) -> None:
    cores.in_worker()
    while tokens.get():
        with reading.lock:
            if reading.stopped:
                return
            number, kind, value = reading.read()
        if kind == _ITEM:
            try:
                value = function(value)
            except BaseException as error:  # to be raised where the item is waited for
                kind, value = _ERROR, error
        results.put((number, kind, value))
