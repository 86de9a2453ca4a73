"""The loader itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.fast_loader.assembly import Buffers
from flambeau.data.fast_loader.order import IndexBatches
from flambeau.data.fast_loader.worker import BatchMaker, Layout, OutOfWorker
from flambeau.data.nodes import BaseNode, Batcher, Loader, SamplerWrapper
from flambeau.data.nodes.map import Running, _Inline


class FastLoader:
    """Batches of a data set or node, made by threads or processes, with a state.

    What makes it fast: one task a batch and not a sample; samples copied straight to their row of the batch, in memory
    that is used again as soon as nobody holds it; threads, where decoders release the interpreter lock, so that nothing
    is pickled and all share one cache of files; and a state that is a position, not a history.

    The state leads to exactly the batches that were not given out, on any number of workers, of either kind; with
    `world_size` also on another number of ranks. What workers have ahead does not count.

    Args:
        source: a map-style data set, or a node of samples (which then is read by the workers, one at a time, while they
            decode and batch in parallel).
        batch_size: samples in a batch, > 0.
        workers: threads or processes; 0 works where the batches are asked for.
        mode: "thread" or "process". Each of several threads runs torch's operators on one core.
        shuffle: whether to draw an order each epoch; for data sets.
        sampler: indices instead, for data sets; not with `shuffle`.
        drop_last: whether a shorter batch at the end is left out.
        seed: of the order; None takes one from torch's global generator.
        rank: of this process, for data sets without a sampler.
        world_size: number of processes.
        decode: applied to each sample by the workers.
        collate_fn: list of samples -> batch; None does what torch's default does, into prepared memory.
        layout: name -> (shape, dtype) of a sample; the batch then is a dictionary of tensors that `fill` writes.
        fill: called with (sample, {name: its row}) to write a sample without a tensor of its own.
        pin_memory: whether batches lie in page-locked memory; needs an accelerator.
        prefetch: batches under way for each worker, > 0.
        in_order: whether batches come in order; else as they are ready.
        snapshot_frequency: batches between two descriptions of a node's state.
        multiprocessing_context: start method of processes.

    Raises:
        ValueError: arguments out of range, or that exclude each other.

    Example:
        >>> loader = FastLoader(list(range(10)), batch_size=4, workers=2)
        >>> [batch.tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        source: Any,
        batch_size: int,
        workers: int = 0,
        mode: Literal["thread", "process"] = "thread",
        *,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        drop_last: bool = False,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        decode: Callable[[Any], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        layout: Layout | None = None,
        fill: Callable[[Any, dict[str, Tensor]], object] | None = None,
        pin_memory: bool = False,
        prefetch: int = 2,
        in_order: bool = True,
        snapshot_frequency: int = 1,
        multiprocessing_context: str | None = None,
    ) -> None:
        _check(batch_size, workers, mode, rank, world_size, prefetch, snapshot_frequency)
        node = isinstance(source, BaseNode)
        if (shuffle or sampler is not None or world_size > 1) and node:
            raise ValueError("shuffle, sampler and world_size are for data sets; a node has its order already.")
        if shuffle and sampler is not None:
            raise ValueError("Both shuffle and sampler are given; expected one of them.")
        if (layout is None) != (fill is None) or (layout is not None and collate_fn is not None):
            raise ValueError("layout and fill belong together, and exclude collate_fn.")
        self.batch_size, self.workers, self.mode = batch_size, workers, mode
        self.drop_last = drop_last
        self._sampler = sampler
        if node:
            self._chosen: BaseNode[Any] = Batcher(source, batch_size, drop_last)
        elif sampler is not None:
            self._chosen = Batcher(SamplerWrapper(sampler), batch_size, drop_last)  # type: ignore[arg-type]
        else:
            self._chosen = IndexBatches(
                len(source),
                batch_size,
                shuffle=shuffle,
                drop_last=drop_last,
                seed=seed,
                rank=rank,
                world_size=world_size,
            )
        buffers = Buffers(pin_memory and torch.accelerator.is_available())
        maker = BatchMaker(None if node else source, decode, collate_fn, layout, fill, buffers)
        how = {"ahead": prefetch * max(1, workers), "every": snapshot_frequency, "in_order": in_order}
        self._batches = _Batches(self._chosen, maker, workers, mode, multiprocessing_context, how)
        self._loader = Loader(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)

    def __len__(self) -> int:
        """Batches of an epoch.

        Raises:
            TypeError: the source is a node, whose length is not known.
        """
        if isinstance(self._chosen, IndexBatches):
            return len(self._chosen)
        if self._sampler is None:
            raise TypeError("A FastLoader over a node does not know its length.")
        count = len(self._sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """The place behind the last batch given out, in plain values."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state with the next `iter`.

        Raises:
            RuntimeError: an iterator is under way; it would not notice.
            ValueError: not a state of such a loader.
        """
        self._loader.load_state_dict(state_dict)

    def shutdown(self) -> None:
        """End threads and processes; they end too when the loader is forgotten."""
        self._batches.shutdown()


class _Batches(BaseNode[Any]):
    """Batches of a node of lists. The state of any number of workers, none included, is of one form."""

    def __init__(
        self,
        source: BaseNode[Any],
        maker: BatchMaker,
        workers: int,
        mode: str,
        context: str | None,
        how: dict[str, Any],
    ) -> None:
        super().__init__()
        self.source = source
        self._maker, self._workers, self._mode, self._context, self._how = maker, workers, mode, context, how
        self._running = Running()
        self._inline: Any = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """As `BaseNode.reset`."""
        super().reset(initial_state)
        self._running.stop()
        if self._workers == 0:
            self._inline = _Inline(self.source, self._maker)
            self._inline.reset(initial_state)
        else:
            self._running.restart(self.source, self._functions(), initial_state, **self._how)

    def next(self) -> Any:
        """As `BaseNode.next`."""
        return self._inline.next() if self._inline is not None else self._running.pool().take()

    def get_state(self) -> dict[str, Any]:
        """As `BaseNode.get_state`."""
        return self._inline.state_dict() if self._inline is not None else self._running.pool().state()

    def shutdown(self) -> None:
        """As `BaseNode.shutdown`."""
        self._running.stop()
        self._ready = False
        super().shutdown()

    def _functions(self) -> list[Callable[[Any], Any]]:
        if self._mode == "thread":
            return [self._maker] * self._workers
        return [OutOfWorker(self._maker, self._context, self._maker.buffers) for _ in range(self._workers)]


def _check(
    batch_size: int, workers: int, mode: str, rank: int, world_size: int, prefetch: int, snapshot_frequency: int
) -> None:
    if mode not in ("thread", "process"):
        raise ValueError(f"mode is {mode!r}, expected 'thread' or 'process'.")
    least = {
        "batch_size": (batch_size, 1),
        "workers": (workers, 0),
        "prefetch": (prefetch, 1),
        "snapshot_frequency": (snapshot_frequency, 1),
    }
    for name, (value, minimum) in least.items():
        if value < minimum:
            raise ValueError(f"{name} is {value}, expected at least {minimum}.")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}, expected 0 to {world_size - 1} (world_size is {world_size}).")
