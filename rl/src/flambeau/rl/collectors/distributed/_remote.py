"""What collectors on several machines have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from flambeau.rl.collectors._multi_async import one_by_one
from flambeau.rl.collectors._multi_base import MultiCollector
from flambeau.rl.collectors._multi_sync import MultiSyncCollector, joined, together
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme


class RemoteCollector(MultiCollector):
    """Collectors in several places, each of which may have several processes.

    Args:
        create_env_fn: functions that make environments, one a place.
        policy: as in `Collector`.
        sync: places wait for one another, as in `MultiSyncCollector`; else as in `MultiAsyncCollector`.
        collector_kwargs: further arguments of the collectors: for all, or in a list.
        num_workers_per_collector: number of processes in each place.
        update_after_each_batch: update the policy's weights after each batch.
        max_weight_update_interval: update them after so many batches at most; -1 for never by itself.
        options: as in `MultiCollector`.
    """

    _gives_schemes = False

    def __init__(
        self,
        create_env_fn: Any,
        policy: Any,
        *,
        sync: bool,
        collector_class: Any = None,
        collector_kwargs: Any = None,
        num_workers_per_collector: int = 1,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        **options: Any,
    ) -> None:
        self._sync = sync
        self._per_place = num_workers_per_collector
        self._further = collector_kwargs
        self._update_interval = 1 if update_after_each_batch else max_weight_update_interval
        if num_workers_per_collector > 1 and not _has_processes(collector_class):
            collector_class = MultiSyncCollector
        makers = create_env_fn if isinstance(create_env_fn, Sequence) else [create_env_fn]
        super().__init__(makers, policy, collector_class=collector_class, **options)

    def _shares(self, frames: int) -> list[int]:
        return super()._shares(frames) if self._sync else [frames] * self.num_workers

    def _arguments(self, at: int, arguments: dict[str, Any]) -> dict[str, Any]:
        further = self._further
        if isinstance(further, Sequence):
            if len(further) != self.num_workers:
                raise ValueError(f"collector_kwargs has {len(further)} entries, for {self.num_workers} places.")
            further = further[at]
        arguments = arguments | dict(further or {})
        if self._per_place > 1:
            makers = arguments["create_env_fn"]
            arguments["create_env_fn"] = makers if isinstance(makers, Sequence) else [makers] * self._per_place
        return arguments

    def _parts(self) -> Iterator[tuple[list[int], list[Any]]]:
        since = 0
        for numbers, parts in together(self) if self._sync else one_by_one(self):
            yield numbers, parts
            since += 1
            if 0 < self._update_interval <= since:
                self.update_policy_weights_()
                since = 0

    def _joined(self, parts: list[Any]) -> Any:
        if self._sync:
            return joined(parts, self.cat_results)
        (batch,) = parts
        batch.names = [*([None] * (batch.ndim - 1)), "time"]
        return batch

    # Weights

    def _scheme(self) -> WeightSyncScheme:
        """What brings weights where the user says nothing."""
        raise NotImplementedError

    def _chosen_schemes(self, given: dict[str, WeightSyncScheme] | None) -> dict[str, WeightSyncScheme]:
        if given is not None:
            return dict(given)
        has_weights = isinstance(self.policy, nn.Module) and any(True for _ in self.policy.parameters())
        return {"policy": self._scheme()} if has_weights else {}

    def _open_schemes(self) -> None:
        """Workers are told of schemes when they run."""

    @property
    def remote_collectors(self) -> list[Any]:
        """The workers."""
        return list(self._workers)


def _has_processes(collector_class: type | Callable[..., Any] | None) -> bool:
    return isinstance(collector_class, type) and issubclass(collector_class, MultiCollector)
