"""Weight updaters: how new weights come to the policies of collectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.weight_update._weights import load_weights, weights_of

__all__ = [
    "MultiProcessedWeightUpdater",
    "RayWeightUpdater",
    "RemoteModuleWeightUpdater",
    "VanillaWeightUpdater",
    "WeightUpdaterBase",
]


class WeightUpdaterBase(ABC):
    """Brings new weights to the policies of a collector.

    A subclass defines where weights come from, how each worker gets them, and which workers there are.
    """

    def __init__(self) -> None:
        self._collector: Any = None
        self._hooks: list[Callable[[], None]] = []

    @classmethod
    def from_policy(cls, policy: Any) -> WeightUpdaterBase | None:
        """An updater for a policy; None where a class makes none by itself.

        Args:
            policy: a module of tensordicts.
        """
        return None

    @property
    def collector(self) -> Any:
        """The collector that it serves; None before `register_collector`."""
        return self._collector

    @property
    def post_hooks(self) -> list[Callable[[], None]]:
        """What is called after each update."""
        return self._hooks

    def register_collector(self, collector: Any) -> None:
        """Serve a collector.

        Raises:
            RuntimeError: it serves another one.
        """
        if self._collector is not None and self._collector is not collector:
            raise RuntimeError("This weight updater serves another collector already; make one for each.")
        self._collector = collector

    @property
    def collectors(self) -> list[Any]:
        """The collectors that it serves: one, or none."""
        return [] if self._collector is None else [self._collector]

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        for collector in self.collectors:
            collector.increment_version()

    def register_post_hook(self, hook: Callable[[], None]) -> None:
        """Call a function after each update."""
        self._hooks.append(hook)

    def init(self, *args: Any, **kwargs: Any) -> None:
        """Get ready, with what `collector.init_updater` is given; there is nothing to do by default."""
        return

    @abstractmethod
    def _get_server_weights(self) -> TensorDictBase:
        """New weights, where none were given."""

    @abstractmethod
    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> Any:
        """Give weights to a worker; None for one that is in this process."""

    @abstractmethod
    def all_worker_ids(self) -> list[int] | list[torch.device] | None:
        """All workers; None for one that is in this process."""

    def push_weights(self, policy_or_weights: Any = None, worker_ids: Any = None) -> None:
        """Give new weights to workers.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict; default: those that the updater
                finds by itself.
            worker_ids: one or several of `all_worker_ids`; default: all.
        """
        weights = self._get_server_weights() if policy_or_weights is None else weights_of(policy_or_weights)
        if worker_ids is None:
            worker_ids = self.all_worker_ids()
        elif not isinstance(worker_ids, (list, tuple)):
            worker_ids = [worker_ids]
        for worker in [None] if worker_ids is None else worker_ids:
            self._sync_weights_with_worker(worker_id=worker, server_weights=weights)
        for hook in self._hooks:
            hook()

    def __call__(self, policy_or_weights: Any = None, worker_ids: Any = None) -> None:
        """Give new weights to workers, see `push_weights`."""
        self.push_weights(policy_or_weights, worker_ids)


class VanillaWeightUpdater(WeightUpdaterBase):
    """Writes weights into others in this process.

    Args:
        weight_getter: returns new weights where none are given.
        policy_weights: what is written into: a tensordict of weights, or the module that has them.

    Raises:
        RuntimeError: from an update without weights, and without `weight_getter`.
    """

    def __init__(self, *, weight_getter: Callable[[], TensorDictBase] | None = None, policy_weights: Any) -> None:
        super().__init__()
        self.weight_getter, self.policy_weights = weight_getter, policy_weights

    @classmethod
    def from_policy(cls, policy: Any) -> Self:
        """An updater of a module's weights."""
        return cls(policy_weights=policy)

    def _get_server_weights(self) -> TensorDictBase:
        if self.weight_getter is None:
            raise RuntimeError("Give weights to the update, or weight_getter= to the updater.")
        return self.weight_getter()

    def _sync_weights_with_worker(self, *, worker_id: Any = None, server_weights: Any) -> None:
        if isinstance(self.policy_weights, nn.Module):
            load_weights(self.policy_weights, server_weights)
        else:
            self.policy_weights.data.update_(server_weights)

    def all_worker_ids(self) -> None:
        """None: there is one, in this process."""
        return


class MultiProcessedWeightUpdater(WeightUpdaterBase):
    """Writes weights into those that processes share, one tensordict a device.

    Args:
        get_server_weights: returns new weights where none are given.
        policy_weights: what is written into, by device; processes have it in shared memory.

    Raises:
        RuntimeError: from an update without weights, and without `get_server_weights`.
    """

    def __init__(
        self,
        *,
        get_server_weights: Callable[[], TensorDictBase] | None,
        policy_weights: dict[torch.device, TensorDictBase],
    ) -> None:
        super().__init__()
        self.weight_getter, self.policy_weights = get_server_weights, policy_weights

    def _get_server_weights(self) -> TensorDictBase:
        if self.weight_getter is None:
            raise RuntimeError("Give weights to the update, or get_server_weights= to the updater.")
        return self.weight_getter()

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        self.policy_weights[worker_id].data.update_(server_weights.to(worker_id))

    def all_worker_ids(self) -> list[torch.device]:
        """The devices."""
        return list(self.policy_weights)


class RemoteModuleWeightUpdater(WeightUpdaterBase):
    """Calls `update_weights(weights)` of a collector's policy, which is somewhere else, or stands for what is."""

    def _get_server_weights(self) -> TensorDictBase:
        return weights_of(self.collector.policy)

    def _sync_weights_with_worker(self, *, worker_id: Any = None, server_weights: Any) -> Any:
        return self.collector.policy.update_weights(server_weights)

    def all_worker_ids(self) -> None:
        """None: there is one."""
        return


class RayWeightUpdater(WeightUpdaterBase):
    """Gives weights to collectors that are actors of Ray, through its object store.

    Args:
        policy_weights: the weights where none are given.
        remote_collectors: actors that have `deliver(model_id, weights)`, as those of `RayCollector` do.
        max_interval: kept for upstream's signature.
    """

    def __init__(self, policy_weights: TensorDictBase, remote_collectors: list[Any], max_interval: int = 0) -> None:
        super().__init__()
        self.policy_weights, self.remote_collectors = policy_weights, remote_collectors

    def _get_server_weights(self) -> TensorDictBase:
        return self.policy_weights.data

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        import ray

        ray.get(self.remote_collectors[worker_id].deliver.remote("policy", server_weights.cpu()))

    def all_worker_ids(self) -> list[int]:
        """The numbers of all actors."""
        return list(range(len(self.remote_collectors)))
