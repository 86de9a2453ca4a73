"""A function over the items."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from flambeau.data.nodes._pool import OwnedFunction, Pool
from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.batch import Batcher, Unbatcher

X = TypeVar("X")


def Mapper(source: BaseNode[X], map_fn: Callable[[X], T]) -> ParallelMapper[T]:
    """`map_fn(item)` for each item, in the thread that asks."""
    return ParallelMapper(source, map_fn, num_workers=0)


class ParallelMapper(BaseNode[T]):
    """`map_fn(item)` for each item, in several threads or processes.

    The state does not depend on the number of workers, nor on their kind: it can be loaded with others. Items that were
    read or worked on but not given out belong to it. Loading it reads the few items since the last snapshot of the
    source again, and does not map them again.

    Args:
        source: node of items; read by the workers, one at a time.
        map_fn: what to do with an item. In processes it has to pickle, unless they are forked.
        num_workers: threads or processes; 0 works where the items are asked for.
        in_order: whether results come in the order of the items; else as they are ready.
        method: "thread" for functions that release the interpreter lock (decoders, NumPy, torch), else "process".
            Each of several threads runs torch's operators on one core.
        multiprocessing_context: start method of processes: "fork", "forkserver", "spawn"; None: the platform's.
        max_concurrent: items under way at most, 1 to `num_workers`; None: 2 * `num_workers`.
        snapshot_frequency: read this many items between two snapshots of the source, > 0.
        prebatch: hand items to workers by this many at a time; good for cheap functions.

    Raises:
        ValueError: an argument out of range.
        WorkerDiedError: on reading, where a worker process and its replacement died over an item.
    """

    def __init__(
        self,
        source: BaseNode[X],
        map_fn: Callable[[X], T],
        num_workers: int,
        in_order: bool = True,
        method: Literal["thread", "process"] = "thread",
        multiprocessing_context: str | None = None,
        max_concurrent: int | None = None,
        snapshot_frequency: int = 1,
        prebatch: int | None = None,
    ) -> None:
        super().__init__()
        _check(num_workers, method, max_concurrent, snapshot_frequency, prebatch)
        self.source = source
        self.map_fn = map_fn
        self.num_workers = num_workers
        self.in_order = in_order
        self.method = method
        self.multiprocessing_context = multiprocessing_context
        self.max_concurrent = max_concurrent
        self.snapshot_frequency = snapshot_frequency
        self.prebatch = prebatch
        work: Callable[[Any], Any] = map_fn if prebatch is None else _EachOf(map_fn)
        read: BaseNode[Any] = source if prebatch is None else Batcher(source, prebatch, drop_last=False)
        mapped: BaseNode[Any] = _Inline(read, work) if num_workers == 0 else _Pooled(self, read, work)
        self._inner = mapped if prebatch is None else Unbatcher(mapped)

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._inner.reset(None if initial_state is None else initial_state["map"])

    def next(self) -> T:
        """As `BaseNode.next`."""
        item: T = self._inner.next()
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return {"map": self._inner.state_dict()}

    def shutdown(self) -> None:
        """As `BaseNode.shutdown`."""
        self._inner.shutdown()


class _Inline(BaseNode[T]):
    """The function in the thread that asks. Its state can be loaded by workers, and theirs here."""

    def __init__(self, source: BaseNode[X], map_fn: Callable[[X], T]) -> None:
        super().__init__()
        self.source = source
        self.map_fn = map_fn
        self._place: dict[str, Any] | None = None
        self._left_out: set[int] = set()
        self._read = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        state = initial_state or _BEGINNING
        self.source.reset(state["source"])
        self._place, self._read = initial_state, state["skip"]
        self._left_out = set(state["beyond"])
        for _ in range(state["skip"]):
            next(self.source, None)

    def next(self) -> T:
        """As `BaseNode.next`."""
        while self._left_out:
            if self._read not in self._left_out:
                return self._with_state_of_workers()
            self._left_out.discard(self._read)
            next(self.source)
            self._read += 1
        item = self.map_fn(next(self.source))
        self._place = None
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return self._place or {"source": self.source.state_dict(), "skip": 0, "beyond": []}

    def _with_state_of_workers(self) -> T:
        """One item while some that follow were given out already, by workers without order."""
        item = self.map_fn(next(self.source))
        self._read += 1
        assert self._place is not None
        self._place = {**self._place, "skip": self._read, "beyond": sorted(self._left_out)}
        return item


# Nothing of the source has been read.
_BEGINNING: dict[str, Any] = {"source": None, "skip": 0, "beyond": []}


class _Pooled(BaseNode[T]):
    """The function in threads or processes, as a mapper says."""

    def __init__(self, mapper: ParallelMapper[Any], source: BaseNode[X], map_fn: Callable[[X], T]) -> None:
        super().__init__()
        self.source = source
        self._workers = (map_fn, mapper.num_workers, mapper.method, mapper.multiprocessing_context)
        self._options = {
            "ahead": mapper.max_concurrent or 2 * mapper.num_workers,
            "every": mapper.snapshot_frequency,
            "in_order": mapper.in_order,
        }
        self._running = Running()

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._running.stop()
        functions = make_functions(*self._workers)  # processes first: the source may start threads, which forks break
        self._running.restart(self.source, functions, initial_state, **self._options)

    def next(self) -> T:
        """As `BaseNode.next`."""
        item: T = self._running.pool().take()
        return item

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return self._running.pool().state()

    def shutdown(self) -> None:
        """As `BaseNode.shutdown`."""
        self._running.stop()
        self._ready = False
        super().shutdown()


class Running:
    """A pool that ends when its owner does."""

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._finish: Any = None

    def restart(
        self, source: BaseNode[Any], functions: list[Callable[[Any], Any]], state: dict[str, Any] | None, **how: Any
    ) -> None:
        """Reset the source and start threads, which end when this object is forgotten."""
        source.reset((state or _BEGINNING)["source"])
        if state is None:
            state = {**_BEGINNING, "source": source.state_dict()}
        self._pool = Pool(source, functions, state, **how)
        self._finish = weakref.finalize(self, _end, self._pool, functions)
        self._finish.atexit = False  # a thread that waits for a file must not keep the interpreter from ending

    def pool(self) -> Pool:
        """The pool that runs."""
        assert self._pool is not None, "started by reset"
        return self._pool

    def stop(self) -> None:
        """End the threads and processes, if any run."""
        if self._finish is not None:
            self._finish()
            self._pool = self._finish = None


def make_functions(
    function: Callable[[Any], Any], count: int, method: str, context: str | None
) -> list[Callable[[Any], Any]]:
    """One callable for each of `count` threads: the function itself, or a process's."""
    if method == "thread":
        return [function] * count
    from flambeau.data.nodes._remote import RemoteFunction

    return [RemoteFunction(function, context) for _ in range(count)]


def _end(pool: Pool, functions: list[Callable[[Any], Any]]) -> None:
    for function in functions:
        if isinstance(function, OwnedFunction):
            function.close()  # first, so that no thread waits for an answer
    pool.stop()


class _EachOf:
    """A function over a list's items; a class, so that it pickles."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, items: list[Any]) -> list[Any]:
        return [self._function(item) for item in items]


def _check(
    num_workers: int, method: str, max_concurrent: int | None, snapshot_frequency: int, prebatch: int | None
) -> None:
    if num_workers < 0:
        raise ValueError(f"num_workers is {num_workers}, expected 0 or more.")
    if method not in ("thread", "process"):
        raise ValueError(f"method is {method!r}, expected 'thread' or 'process'.")
    if max_concurrent is not None and num_workers > 0 and not 0 < max_concurrent <= num_workers:
        raise ValueError(
            f"max_concurrent is {max_concurrent}, expected 1 to num_workers ({num_workers}), or None for twice as many."
        )
    if snapshot_frequency < 1:
        raise ValueError(f"snapshot_frequency is {snapshot_frequency}, expected at least 1.")
    if prebatch is not None and prebatch < 1:
        raise ValueError(f"prebatch is {prebatch}, expected at least 1, or None.")
