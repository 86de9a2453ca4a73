"""`MultiAsyncCollector`: processes that do not wait for one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.rl.collectors._frames import frames_of_each
from flambeau.rl.collectors._multi_base import MultiCollector

__all__ = ["MultiAsyncCollector"]


class MultiAsyncCollector(MultiCollector):
    """Collectors in several processes; a batch has the steps of one, whose next batch is collected meanwhile.

    Batches come as soon as they are there. Each has `frames_per_batch` steps of one process.

    Args: see `MultiCollector`.

    Raises:
        ValueError: cat_results is given: batches are those of one process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("cat_results") is not None:
            raise ValueError("cat_results is for MultiSyncCollector: batches here are of one process.")
        super().__init__(*args, **kwargs)

    def _shares(self, frames: int) -> list[int]:
        return [frames_of_each(frames, 1, "processes")] * self.num_workers

    def _parts(self) -> Iterator[tuple[list[int], list[Any]]]:
        return one_by_one(self)

    def _joined(self, parts: list[Any]) -> Any:
        (batch,) = parts
        batch.names = [*([None] * (batch.ndim - 1)), "time"]
        return batch


def one_by_one(collector: Any) -> Iterator[tuple[list[int], list[Any]]]:
    """Batches of one worker each, as they come: its number, and what it gave.

    Args:
        collector: a `MultiCollector`.
    """
    turn, count = 0, collector.num_workers
    while collector._frames < collector.total_frames:
        collector._check_open()
        collector.take_weights()
        for worker in list(collector._workers):
            _begin(collector, worker)
        while not any(worker.batches for worker in collector._workers):
            collector._heard([worker for worker in collector._workers if worker.is_busy])
        # None is left waiting while others are served twice.
        order = [*range(turn, count), *range(turn)]
        worker = next(collector._workers[number] for number in order if collector._workers[number].batches)
        turn = (worker.number + 1) % count
        frames, part = worker.taken()
        collector._count(worker, frames)
        part = None if part is None else part.clone()
        if collector.update_at_each_batch:
            collector.update_policy_weights_()
        _begin(collector, worker)
        yield [worker.number], [part]


def _begin(collector: Any, worker: Any) -> None:
    """Let a worker that is idle collect, if its batch is not one too many."""
    if worker.is_busy or worker.batches:
        return
    running = [each for each in collector._workers if each.is_busy or each.batches]
    if collector._frames + sum(collector._frames_of[each.number] for each in running) < collector.total_frames:
        collector._collect(worker)
