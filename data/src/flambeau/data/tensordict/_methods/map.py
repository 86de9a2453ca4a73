"""`map` and `map_iter`: a function on parts of a tensordict, in a pool of processes."""

from __future__ import annotations

import contextlib
import multiprocessing.pool
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch

from flambeau.core.progress import progress
from flambeau.data.tensordict._tensorcollection import CollectionMethods


class MapMethods(CollectionMethods):
    """Work in parallel processes."""

    def map(
        self,
        fn: Callable[[Any], Any],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        out: Any = None,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = False,
        pbar: bool = False,
        mp_start_method: str | None = None,
    ) -> Self | None:
        """Call a function on parts of this tensordict in worker processes, and put the results together along `dim`.

        Tensors in shared or memory-mapped memory reach the workers without a copy.

        Args:
            fn: (part) -> tensordict or tensor, or None; it must pickle.
            dim: a batch dimension, along which the parts are cut.
            num_workers: processes; the number of CPUs by default, 0 works in this process. Excludes `pool`.
            out: a tensordict that takes the results; workers write to it themselves where it is shared.
            chunksize: elements in a part; 0 gives single elements, whose results are stacked.
            num_chunks: parts, as many as workers by default. Excludes `chunksize`.
            pool: of processes, to use instead of a new one.
            generator: of the seed; worker i is seeded with a number drawn from it plus i.
            max_tasks_per_child: parts that a process does before it is replaced.
            worker_threads: of torch in every process.
            index_with_generator: cut the parts one by one while the workers run, instead of all at once before.
            pbar: show progress.
            mp_start_method: "fork", "spawn" or "forkserver"; multiprocessing's default if None.

        Returns:
            The results along `dim`; None where `fn` gave only None.

        Raises:
            ValueError: arguments that exclude one another.
        """
        where = self._dim(dim)
        sizes = _sizes(self.batch_size[where], chunksize, num_chunks, num_workers, pool)
        parts = _parts(self, where, sizes, index_with_generator)
        work: Callable[[Any], Any] = fn
        if out is not None:
            parts = zip(parts, _parts(out, where, sizes, index_with_generator), strict=True)
            work = _WriteInto(fn, out.is_shared() or out.is_memmap())
        options = (num_workers, generator, max_tasks_per_child, worker_threads, mp_start_method)
        count = self.batch_size[where] if sizes is None else len(sizes)
        results = []
        with _pool(pool, *options) as run, progress("map", count, show=pbar) as step:
            for place, result in enumerate(run(work, parts)):
                if out is not None and result is not None:
                    _write(out, where, sizes, place, result)
                elif result is not None:
                    results.append(result)
                step(1)
        if out is not None:
            return out
        if not results:
            return None
        combined: Any = torch.stack(results, where) if sizes is None else torch.cat(results, where)
        return combined

    def map_iter(
        self,
        fn: Callable[[Any], Any],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        shuffle: bool = False,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = True,
        pbar: bool = False,
        mp_start_method: str | None = None,
    ) -> Iterator[Any]:
        """As `map`, but gives the results one after another, in the order of the parts.

        Args:
            fn: (part) -> anything that pickles.
            dim: a batch dimension, along which the parts are cut.
            num_workers: see `map`.
            shuffle: cut parts of a random permutation of the elements; needs `index_with_generator`.
            chunksize: see `map`.
            num_chunks: see `map`.
            pool: see `map`.
            generator: of the seed, and of the permutation.
            max_tasks_per_child: see `map`.
            worker_threads: see `map`.
            index_with_generator: see `map`.
            pbar: show progress.
            mp_start_method: see `map`.

        Raises:
            ValueError: arguments that exclude one another.
        """
        if shuffle and not index_with_generator:
            raise ValueError("map_iter: shuffle=True cuts parts as it goes; leave index_with_generator=True.")
        where = self._dim(dim)
        length = self.batch_size[where]
        sizes = _sizes(length, chunksize, num_chunks, num_workers, pool)
        order = torch.randperm(length, generator=generator) if shuffle else None
        parts = _parts(self, where, sizes, index_with_generator, order)
        options = (num_workers, generator, max_tasks_per_child, worker_threads, mp_start_method)
        count = length if sizes is None else len(sizes)
        with _pool(pool, *options) as run, progress("map", count, show=pbar) as step:
            for result in run(fn, parts):
                yield result
                step(1)


class _WriteInto:
    """The function of a worker that has a place for its result."""

    def __init__(self, fn: Callable[[Any], Any], shared: bool) -> None:
        self.fn, self.shared = fn, shared

    def __call__(self, pair: tuple[Any, Any]) -> Any:
        part, place = pair
        result = self.fn(part)
        if result is None or not self.shared:
            return result
        place.update_(result)
        return None


class _Inline:
    """A function whose results travel as bytes.

    Tensors usually travel as handles of shared memory, which nobody can open any more once the worker is gone.
    """

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, part: Any) -> bytes:
        return pickle.dumps(self.fn(part))


def _sizes(length: int, chunksize: int | None, num_chunks: int | None, num_workers: int | None, pool: Any) -> Any:
    """The sizes of the parts; None for single elements."""
    if chunksize is not None and num_chunks is not None:
        raise ValueError("map: give chunksize or num_chunks, not both.")
    if pool is not None and num_workers is not None:
        raise ValueError("map: give num_workers or pool, not both.")
    if chunksize == 0:
        return None
    if chunksize is None:
        if num_chunks is None:
            num_chunks = num_workers or getattr(pool, "_processes", None) or os.cpu_count() or 1
        chunksize = max(1, -(-length // num_chunks))
    if chunksize < 0:
        raise ValueError(f"map: chunksize is {chunksize}; it is 0 or more.")
    whole, rest = divmod(length, chunksize)
    return [chunksize] * whole + ([rest] if rest else [])


def _parts(td: Any, dim: int, sizes: Sequence[int] | None, lazily: bool, order: Any = None) -> Any:
    if not lazily:
        return td.unbind(dim) if sizes is None else td.split(list(sizes), dim)
    return _cut_one_by_one(td, dim, sizes, order)


def _cut_one_by_one(td: Any, dim: int, sizes: Sequence[int] | None, order: Any) -> Iterator[Any]:
    start = 0
    before = (slice(None),) * dim
    for size in [None] * td.batch_size[dim] if sizes is None else sizes:
        stop = start + (size or 1)
        if order is not None:
            chosen = order[start:stop] if size is not None else int(order[start])
        else:
            chosen = slice(start, stop) if size is not None else start
        yield td[(*before, chosen)]
        start = stop


def _write(out: Any, dim: int, sizes: Sequence[int] | None, place: int, result: Any) -> None:
    before = (slice(None),) * dim
    if sizes is None:
        out[(*before, place)] = result
    else:
        start = sum(sizes[:place])
        out[(*before, slice(start, start + sizes[place]))] = result


@contextlib.contextmanager
def _pool(
    pool: Any,
    num_workers: int | None,
    generator: torch.Generator | None,
    max_tasks_per_child: int | None,
    worker_threads: int,
    mp_start_method: str | None,
) -> Iterator[Callable[[Any, Any], Iterator[Any]]]:
    """What runs a function on parts: a pool that is given or made, or this process."""
    if pool is not None:
        yield pool.imap
        return
    if num_workers == 0:
        yield map
        return
    import torch.multiprocessing as mp

    context = mp.get_context(mp_start_method)
    workers = num_workers or os.cpu_count() or 1
    # Small enough that no worker's seed, which is this one plus the worker's number, overflows.
    seed = int(torch.empty((), dtype=torch.int64).random_(0, 2**62, generator=generator))
    numbers = context.Value("q", 0)
    made = multiprocessing.pool.Pool(
        workers, _proc_init, (seed, numbers, worker_threads), max_tasks_per_child, context=context
    )
    try:
        if max_tasks_per_child is None:
            yield made.imap
        else:
            yield lambda fn, parts: map(pickle.loads, made.imap(_Inline(fn), parts))
    finally:
        made.terminate()
        made.join()


def _proc_init(base_seed: int, numbers: Any, num_threads: int) -> None:
    """Prepare a worker: a number of its own, with which torch, numpy and random are seeded, and few threads."""
    import random

    import numpy as np

    with numbers.get_lock():
        number = numbers.value
        numbers.value += 1
    seed = base_seed + number
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.set_num_threads(num_threads)
