"""Draws of groups of items that answer one prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers.samplers.base import Sampler, dump_json, load_json, no_items

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["PromptGroupSampler"]

_STRATEGIES = ("random", "recency", "reward", "variance")


class PromptGroupSampler(Sampler):
    """Draws groups of items with the same prompt, and from each as many items, for group-relative objectives.

    Groups are drawn without replacement while there are enough. A group that has too few items gives some twice.

    Args:
        num_groups: how many groups make up a batch, whose size must be divisible by it.
        samples_per_group: how many items of each; exactly one of the two must be given.
        group_key: the entry of the prompt: text, or numbers.
        strategy: which of a group's items: "random"; "recency", the last written; "reward", the highest; "variance",
            those whose rewards are farthest from the group's mean.
        reward_key: the entry of rewards, which are summed up over an item.
        cache_groups: keep what is known of groups until something is written.

    Raises:
        TypeError: not exactly one of `num_groups` and `samples_per_group`.
        ValueError: another strategy.
    """

    def __init__(
        self,
        *,
        num_groups: int | None = None,
        samples_per_group: int | None = None,
        group_key: Any = "query",
        strategy: Literal["random", "recency", "reward", "variance"] = "random",
        reward_key: Any = ("next", "reward"),
        cache_groups: bool = True,
    ) -> None:
        if (num_groups is None) == (samples_per_group is None):
            raise TypeError(
                "PromptGroupSampler takes one of num_groups and samples_per_group, "
                f"got num_groups={num_groups} and samples_per_group={samples_per_group}."
            )
        if strategy not in _STRATEGIES:
            raise ValueError(f"PromptGroupSampler: strategy is {strategy!r}, expected one of {', '.join(_STRATEGIES)}.")
        self.num_groups, self.samples_per_group = num_groups, samples_per_group
        self.group_key, self.reward_key = group_key, reward_key
        self.strategy = strategy
        self.cache_groups = cache_groups
        self._groups: list[Tensor] | None = None

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw places, group by group.

        Raises:
            RuntimeError: the storage is empty.
            ValueError: a batch cannot be made of whole groups.
            KeyError: the items lack the prompt, or the reward that the strategy needs.
        """
        if not len(storage):
            raise no_items()
        divisor = self.num_groups or self.samples_per_group
        assert divisor is not None
        if batch_size % divisor:
            name = "num_groups" if self.num_groups else "samples_per_group"
            raise ValueError(f"batch_size={batch_size} cannot be divided by {name}={divisor}.")
        count = self.num_groups or batch_size // divisor
        size = batch_size // count
        content = self._content(storage)
        groups = self._groups
        if groups is None or not self.cache_groups or storage.publication is not None:
            groups = self._groups = self._grouped(content)
        rewards = self._rewards(content) if self.strategy in ("reward", "variance") else None
        if count <= len(groups):
            drawn = torch.randperm(len(groups), generator=self._rng)[:count]
        else:
            drawn = torch.randint(len(groups), (count,), generator=self._rng)
        return torch.cat([self._chosen(groups[at], size, rewards) for at in drawn.tolist()]), {}

    def _chosen(self, group: Tensor, size: int, rewards: Tensor | None) -> Tensor:
        count = len(group)
        if count < size:
            return group[torch.randint(count, (size,), generator=self._rng)]
        if self.strategy == "recency":
            return group[-size:]
        if rewards is None:
            return group[torch.randperm(count, generator=self._rng)[:size]]
        ranks = rewards[group]
        if self.strategy == "variance":
            ranks = (ranks - ranks.mean()).abs()
        return group[ranks.topk(size).indices]

    def _content(self, storage: Storage) -> Any:
        content: Any = storage.get(slice(None))
        if isinstance(content, list):
            content = torch.stack(content) if content and is_tensor_collection(content[0]) else None
        if content is None or not is_tensor_collection(content):
            raise KeyError("PromptGroupSampler: the storage holds no tensordicts, whose entries tell the prompts.")
        return content

    def _grouped(self, content: Any) -> list[Tensor]:
        """Places of each group, in the order in which the groups appear."""
        found = content.get(self.group_key, None)
        if found is None:
            raise KeyError(
                f"PromptGroupSampler: the items have no entry {self.group_key!r}, which tells the prompt; there are "
                f"{', '.join(map(repr, content.keys(True, True)))}. Give group_key."
            )
        if isinstance(found, Tensor):
            names = [row.tobytes() for row in found.reshape(len(found), -1).cpu().numpy()]
        else:
            listed = found.tolist() if hasattr(found, "tolist") else list(found)
            names = listed if isinstance(listed, list) else [listed] * content.shape[0]
        groups: dict[Any, list[int]] = {}
        for place, name in enumerate(names):
            groups.setdefault(str(name) if not isinstance(name, (str, bytes)) else name, []).append(place)
        return [torch.tensor(places) for places in groups.values()]

    def _rewards(self, content: Any) -> Tensor:
        found = content.get(self.reward_key, None)
        if not isinstance(found, Tensor):
            raise KeyError(f"PromptGroupSampler: the items have no entry {self.reward_key!r} to rank them by.")
        return found.reshape(len(found), -1).sum(-1).to(torch.float64).cpu()

    def add(self, index: Any) -> None:
        """An item was written at a place: groups are looked up anew."""
        self._groups = None

    def extend(self, index: Any) -> None:
        """Items were written at places: groups are looked up anew."""
        self._groups = None

    def mark_update(self, index: Any, *, storage: Storage | None = None) -> None:
        """Items at places were changed: groups are looked up anew."""
        self._groups = None

    def _empty(self) -> None:
        self._groups = None

    def state_dict(self) -> dict[str, Any]:
        """What was asked for."""
        return {
            "num_groups": self.num_groups,
            "samples_per_group": self.samples_per_group,
            "group_key": self.group_key,
            "strategy": self.strategy,
            "reward_key": self.reward_key,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what another sampler's `state_dict` asks for."""
        for name, value in state_dict.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self._groups = None

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as JSON."""
        dump_json(path, self.state_dict())

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        self.load_state_dict(load_json(path))

    def __repr__(self) -> str:
        shown = ("num_groups", "samples_per_group", "group_key", "strategy")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
