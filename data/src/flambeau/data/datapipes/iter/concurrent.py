"""Pipes that call a function on many samples at once: in threads, or as coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from flambeau.data.datapipes._columns import (
    argument_getter,
    check_function,
    check_output,
    check_positional,
    column_applier,
    put,
)
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("threadpool_map")
class ThreadPoolMapperIterDataPipe(IterDataPipe[T_co]):
    """Applies a function in threads, samples in the source's order (functional name: `threadpool_map`).

    It pays for functions that wait (for the network, a disk) or release the interpreter's lock. The source is read in
    the consumer's thread.

    Args:
        source_datapipe: source.
        fn: the function.
        input_col, output_col: as for `map`.
        scheduled_tasks: samples at work or waiting at any time, > 0.
        max_workers: threads; Python's default when None. More than `scheduled_tasks` are of no use.
        **threadpool_kwargs: further arguments of `concurrent.futures.ThreadPoolExecutor`.
    """

    state_fields = ("_inputs",)

    def __init__(
        self,
        source_datapipe: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        **threadpool_kwargs: Any,
    ) -> None:
        check_function(fn)
        if scheduled_tasks <= 0:
            raise ValueError(f"scheduled_tasks has to be > 0, got {scheduled_tasks}.")
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers has to be > 0, got {max_workers}.")
        self.source_datapipe = source_datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = check_output(input_col, output_col)
        check_positional(fn, input_col)
        self.scheduled_tasks = scheduled_tasks
        self.max_workers = max_workers
        self.threadpool_kwargs = threadpool_kwargs

    def reset(self) -> None:
        """Go back to the beginning."""
        # Samples that the threads have, or are done with, and nobody has read: they are given out again on a resume.
        self._inputs: deque[Any] = deque()

    def __iter__(self) -> Iterator[T_co]:
        apply = column_applier(self.fn, self.input_col, self.output_col)
        source = iter(self.source_datapipe)
        futures: deque[Future[Any]] = deque()
        pool = ThreadPoolExecutor(max_workers=self.max_workers, **self.threadpool_kwargs)
        try:
            futures.extend(pool.submit(apply, item) for item in self._inputs)
            while True:
                for item in source:
                    self._inputs.append(item)
                    futures.append(pool.submit(apply, item))
                    if len(futures) >= self.scheduled_tasks:
                        break
                if not futures:
                    return
                result = futures.popleft().result()
                self._inputs.popleft()
                yield result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


class _AsyncMapper(IterDataPipe[Any]):
    """Runs a coroutine for each sample of a batch, and yields the batch of results."""

    state_fields = ()

    def __init__(
        self, source_datapipe: Any, async_fn: Callable[..., Any], input_col: Any, output_col: Any, max_concurrency: int
    ) -> None:
        self.source_datapipe = source_datapipe
        self.async_fn = async_fn
        self.input_col = input_col
        self.output_col = output_col
        self.max_concurrency = max_concurrency

    def __iter__(self) -> Iterator[list[Any]]:
        with asyncio.Runner() as runner:
            for batch in self.source_datapipe:
                yield runner.run(self._all(batch))

    async def _all(self, batch: Sequence[Any]) -> list[Any]:
        gate = asyncio.Semaphore(self.max_concurrency)

        async def one(sample: Any) -> Any:
            async with gate:
                return await self._one(sample)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(sample)) for sample in batch]
        return [task.result() for task in tasks]

    async def _one(self, sample: Any) -> Any:
        if self.input_col is None:
            return await self.async_fn(sample)
        arguments = argument_getter(self.input_col)(sample)
        if isinstance(self.input_col, (list, tuple)):
            result = await self.async_fn(*arguments)
        else:
            result = await self.async_fn(arguments)
        return put(sample, result, self.input_col, self.output_col)

    def __len__(self) -> int:
        return len(self.source_datapipe)


@functional_datapipe("async_map_batches")
class BatchAsyncMapperIterDataPipe(IterDataPipe[T_co]):
    """Runs a coroutine for the samples of each batch at the same time (functional name: `async_map_batches`).

    Calling it builds a short pipeline: batches, the coroutine, and single samples again. An exception of a coroutine
    ends the pass as an `ExceptionGroup` of the batch's exceptions.

    Args:
        source_datapipe: source of single samples.
        async_fn: coroutine function.
        batch_size: samples of a batch; the next batch begins when the slowest of these is done.
        input_col, output_col: as for `map`.
        max_concurrency: coroutines that run at the same time.
        flatten: yield single samples; False yields the lists of results.
    """

    def __new__(  # type: ignore[misc]  # upstream: calling the class gives the last pipe of what it built
        cls,
        source_datapipe: Any,
        async_fn: Callable[..., Any],
        batch_size: int,
        input_col: Any = None,
        output_col: Any = None,
        max_concurrency: int = 32,
        flatten: bool = True,
    ) -> IterDataPipe[T_co]:
        """Build the pipes that the class stands for."""
        check_function(async_fn)
        check_positional(async_fn, input_col)
        output_col = check_output(input_col, output_col)
        batches = source_datapipe.batch(batch_size)
        mapped = _AsyncMapper(batches, async_fn, input_col, output_col, max_concurrency)
        return mapped.flatmap() if flatten else mapped

    def __init__(
        self,
        source_datapipe: Any,
        async_fn: Callable[..., Any],
        batch_size: int,
        input_col: Any = None,
        output_col: Any = None,
        max_concurrency: int = 32,
        flatten: bool = True,
    ) -> None:
        """Never called: `__new__` gives another class's object."""
