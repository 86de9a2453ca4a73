"""Draws that prefer what recent versions of a policy did."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.samplers.base import Sampler, dump_json, load_json, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["StalenessAwareSampler"]


class StalenessAwareSampler(Sampler):
    """Draws items with probabilities that fall with their staleness.

    A batch has no item twice unless there are fewer that can be drawn than it needs.

    An item's staleness is the consumer's version minus the version of the policy that wrote it, at least 0. Batches
    come with "staleness" (batch_size,), float32.

    Args:
        max_staleness: items that are older are not drawn; -1 for no bound.
        staleness_weight_fn: staleness (n,) -> weights (n,), >= 0; by default 1 / (1 + staleness).
        version_key: the entry of the policy's version, a number for each item.
    """

    def __init__(
        self,
        max_staleness: int = -1,
        staleness_weight_fn: Callable[[Tensor], Tensor] | None = None,
        version_key: Any = "policy_version",
    ) -> None:
        self._max_staleness = max_staleness
        self._staleness_weight_fn = staleness_weight_fn
        self._version_key = version_key
        self._consumer_version = 0

    @property
    def max_staleness(self) -> int:
        """Up to which staleness items are drawn; -1 for no bound."""
        return self._max_staleness

    @max_staleness.setter
    def max_staleness(self, value: int) -> None:
        self._max_staleness = value

    @property
    def consumer_version(self) -> int:
        """The version of the policy that learns."""
        return self._consumer_version

    @consumer_version.setter
    def consumer_version(self, value: int) -> None:
        self._consumer_version = value

    def increment_consumer_version(self) -> None:
        """The policy that learns has gone on by one version."""
        self._consumer_version += 1

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places, with "staleness".

        Raises:
            RuntimeError: the storage is empty, or every item is too stale.
            KeyError: the items have no version.
        """
        if not len(storage):
            raise no_items()
        staleness = (self._consumer_version - self._versions(storage)).clamp_min(0)
        bound = self._max_staleness
        eligible = torch.arange(len(staleness)) if bound < 0 else (staleness <= bound).nonzero().squeeze(-1)
        weigh = self._staleness_weight_fn
        weights = 1.0 / (1.0 + staleness[eligible]) if weigh is None else weigh(staleness[eligible])
        possible = int((weights > 0).sum())
        if not possible:
            raise RuntimeError(
                f"All {len(staleness)} items are staler than max_staleness={bound} at "
                f"consumer_version={self._consumer_version}; raise it, or let collectors follow the policy more often."
            )
        drawn = torch.multinomial(weights, batch_size, replacement=possible < batch_size, generator=self._rng)
        places = eligible[drawn]
        info = {"staleness": staleness[places]}
        shape = storage.shape
        if storage.ndim > 1 and shape is not None:
            return torch.unravel_index(places, shape), info
        return places, info

    def _versions(self, storage: Storage) -> Tensor:
        """(n,), float32."""
        content: Any = storage.get(slice(None))
        if isinstance(content, list) and content and is_tensor_collection(content[0]):
            content = torch.stack(content)
        found = content.get(self._version_key, None) if is_tensor_collection(content) else None
        if not isinstance(found, Tensor):
            raise KeyError(
                f"The items have no entry {self._version_key!r} that tells the policy's version; write it when they "
                "are collected, or give version_key."
            )
        return found.reshape(len(storage), -1)[:, 0].to(torch.float32).cpu()

    def state_dict(self) -> dict[str, Any]:
        """The consumer's version and the bound."""
        return OrderedDict(consumer_version=self._consumer_version, max_staleness=self._max_staleness)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        self._consumer_version = state_dict["consumer_version"]
        self._max_staleness = state_dict["max_staleness"]

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as JSON."""
        dump_json(path, self.state_dict())

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        self.load_state_dict(load_json(path))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(consumer_version={self._consumer_version}, max_staleness={self._max_staleness})"
