"""`MultiSyncCollector`: processes that wait for one another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from flambeau.rl.collectors._multi_base import MultiCollector

__all__ = ["MultiSyncCollector"]


class MultiSyncCollector(MultiCollector):
    """Collectors in several processes; a batch has the steps of all, which were taken with the same weights.

    Batches are (processes, *environments, time), or concatenated along a dimension that `cat_results` names. While the
    caller works with a batch, nothing is collected.

    Args: see `MultiCollector`.
    """

    def _parts(self) -> Iterator[tuple[list[int], list[Any]]]:
        return together(self)

    def _joined(self, parts: list[Any]) -> Any:
        return joined(parts, self.cat_results)


def together(collector: Any) -> Iterator[tuple[list[int], list[Any]]]:
    """Batches of all workers at once: their numbers, and what each gave.

    Args:
        collector: a `MultiCollector`.
    """
    interruptor = collector._interruptor
    while collector._frames < collector.total_frames:
        collector._check_open()
        if collector.update_at_each_batch:
            collector.update_policy_weights_()
        collector.take_weights()
        if interruptor is not None:
            interruptor.start_collection()
        for worker in list(collector._workers):
            if not worker.batches and not worker.is_busy:
                collector._collect(worker)
        enough = collector.num_workers
        if collector.preemptive_threshold is not None:
            enough = math.ceil(collector.preemptive_threshold * enough)
        while waiting := [worker for worker in collector._workers if not worker.batches]:
            if interruptor is not None and collector.num_workers - len(waiting) >= enough:
                interruptor.stop_collection()
            collector._heard(waiting)
        parts = []
        for worker in collector._workers:
            frames, part = worker.taken()
            collector._count(worker, frames)
            parts.append(part)
        yield list(range(collector.num_workers)), parts


def joined(parts: list[Any], cat_results: str | int | None) -> Any:
    """One batch of those of several workers.

    Args:
        parts: what each gave.
        cat_results: "stack", or the dimension along which they are concatenated; None to stack them.

    Raises:
        RuntimeError: they differ in size, and are to be stacked.
    """
    how = "stack" if cat_results is None else cat_results
    batch: Any
    if how == "stack":
        sizes = {tuple(part.batch_size) for part in parts}
        if len(sizes) > 1:
            raise RuntimeError(
                f"Batches of processes have the sizes {sorted(sizes)}, and cannot be stacked; give cat_results=-1."
            )
        batch = torch.stack(parts, 0)
    else:
        batch = torch.cat(parts, how)  # type: ignore[arg-type]
    batch.names = [*([None] * (batch.ndim - 1)), "time"]
    return batch
