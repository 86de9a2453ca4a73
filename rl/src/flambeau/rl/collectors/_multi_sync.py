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
        while self._frames < self.total_frames:
            self._check_open()
            if self.update_at_each_batch:
                self.update_policy_weights_()
            self.take_weights()
            if self._interruptor is not None:
                self._interruptor.start_collection()
            for worker in list(self._workers):
                if not worker.batches and not worker.is_busy:
                    self._collect(worker)
            enough = self.num_workers
            if self.preemptive_threshold is not None:
                enough = math.ceil(self.preemptive_threshold * self.num_workers)
            while waiting := [worker for worker in self._workers if not worker.batches]:
                if self._interruptor is not None and self.num_workers - len(waiting) >= enough:
                    self._interruptor.stop_collection()
                self._heard(waiting)
            parts = []
            for worker in self._workers:
                frames, part = worker.taken()
                self._count(worker, frames)
                parts.append(part)
            yield list(range(self.num_workers)), parts

    def _joined(self, parts: list[Any]) -> Any:
        how = "stack" if self.cat_results is None else self.cat_results
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
