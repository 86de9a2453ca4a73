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
        turn = 0
        while self._frames < self.total_frames:
            self._check_open()
            self.take_weights()
            for worker in list(self._workers):
                self._begin(worker)
            while not any(worker.batches for worker in self._workers):
                self._heard([worker for worker in self._workers if worker.is_busy])
            # None is left waiting while others are served twice.
            order = [*range(turn, self.num_workers), *range(turn)]
            worker = next(self._workers[number] for number in order if self._workers[number].batches)
            turn = (worker.number + 1) % self.num_workers
            frames, part = worker.taken()
            self._count(worker, frames)
            part = None if part is None else part.clone()
            if self.update_at_each_batch:
                self.update_policy_weights_()
            self._begin(worker)
            yield [worker.number], [part]

    def _begin(self, worker: Any) -> None:
        """Let a worker that is idle collect, if its batch is not one too many."""
        if worker.is_busy or worker.batches:
            return
        running = sum(self._frames_of[each.number] for each in self._workers if each.is_busy or each.batches)
        if self._frames + running < self.total_frames:
            self._collect(worker)

    def _joined(self, parts: list[Any]) -> Any:
        (batch,) = parts
        batch.names = [*([None] * (batch.ndim - 1)), "time"]
        return batch
