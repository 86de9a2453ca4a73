"""What planners share: rollouts of many candidates in a model of the environment, and their returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.tensordict_module.common import SafeModule

__all__ = ["MPCPlannerBase"]


class MPCPlannerBase(SafeModule, ABC):
    """The root of planners by model predictive control.

    A subclass chooses actions in `planning`. Imagined rollouts are as long as the horizon; rewards after an episode's
    end do not count.

    Args:
        env: a model of the environment that takes batches of any size.
        action_key: where actions go.

    Raises:
        ValueError: the environment takes batches of one size alone.
    """

    def __init__(self, env: Any, action_key: Any = "action") -> None:
        if env.batch_locked:
            raise ValueError(
                f"{type(self).__name__}: the environment is locked to the batch size {tuple(env.batch_size)}; planners "
                "need one that takes any, see batch_locked."
            )
        super().__init__(env, in_keys=list(env.observation_spec.keys(True, True)), out_keys=[action_key])
        self.action_spec = env.action_spec

    @property
    def env(self) -> Any:
        """The model of the environment."""
        return self.module

    @abstractmethod
    def planning(self, td: Any) -> Tensor:
        """The action (*batch, ...) to take in states (*batch,)."""

    def forward(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Write the planned action."""
        target = tensordict if tensordict_out is None else tensordict_out
        return target.set(self.out_keys[0], self.planning(tensordict))

    # --- for subclasses

    def _candidates(self, batch: torch.Size, count: int, horizon: int, like: Any) -> tuple[Tensor, Tensor]:
        """Mean 0 and deviation 1 of sequences of actions, (*batch, 1, horizon, *action)."""
        event = self.action_spec.shape[len(self.env.batch_size) :]
        dtype = self.action_spec.dtype if self.action_spec.dtype.is_floating_point else torch.get_default_dtype()
        mean = torch.zeros(*batch, 1, horizon, *event, dtype=dtype, device=like.device)
        return mean, torch.ones_like(mean)

    def _imagined(self, tensordict: Any, actions: Tensor) -> Any:
        """What follows sequences of actions (*batch, N, horizon, ...): a tensordict (*batch, N, horizon)."""
        dims = tensordict.ndim
        count, horizon = actions.shape[dims], actions.shape[dims + 1]
        start = tensordict.unsqueeze(-1).expand(*tensordict.batch_size, count).clone()
        steps = iter(actions.unbind(dims + 1))
        key = self.out_keys[0]
        imagined = self.env.rollout(
            max_steps=horizon, policy=lambda td: td.set(key, next(steps)), auto_reset=False, tensordict=start,
            break_when_any_done=False,
        )  # fmt: skip
        return imagined.contiguous()

    def _rewards(self, imagined: Any, reward_key: Any) -> Tensor:
        """Rewards (*batch, N, horizon, 1), 0 after the end of an episode."""
        rewards: Tensor = imagined.get(reward_key)
        time = imagined.ndim - 1
        ended = torch.zeros(imagined.batch_size, dtype=torch.bool, device=rewards.device)
        for key in self._done_keys():
            done = imagined.get(("next", *key), None)
            if done is not None:
                ended = ended | done.reshape(*imagined.batch_size, -1).any(-1)
        before = ended.cumsum(time) - ended.to(torch.int64) > 0
        shape = [*before.shape, *[1] * (rewards.ndim - before.ndim)]
        return rewards.masked_fill(before.view(shape), 0.0)

    def _done_keys(self) -> list[tuple[str, ...]]:
        """Of the ends of groups that lie in no other group."""
        keys = [(key,) if isinstance(key, str) else tuple(key) for key in self.env.done_keys]
        ends = [key for key in keys if key[-1] == "done"]
        groups = [key[:-1] for key in ends]
        return [
            key for key in ends if not any(len(g) < len(key) - 1 and key[: len(g)] == g for g in groups)
        ]  # fmt: skip


def best_of(values: Tensor, actions: Tensor, count: int, dim: int) -> tuple[Tensor, Tensor]:
    """The candidates of highest value, with their values.

    Args:
        values: (*batch, N, 1, 1).
        actions: (*batch, N, horizon, *action).
        count: how many, <= N.
        dim: of the candidates.
    """
    top = values.topk(count, dim=dim)
    shape = list(actions.shape)
    shape[dim] = count
    index = top.indices.reshape(*top.indices.shape[: dim + 1], *[1] * (actions.ndim - dim - 1)).expand(shape)
    kept = top.values.reshape(*top.values.shape[: dim + 1], *[1] * (actions.ndim - dim - 1))
    return actions.gather(dim, index), kept


def check_counts(name: str, **counts: int) -> None:
    """Raise ValueError for numbers that are not positive, and for more best candidates than there are."""
    for what, value in counts.items():
        if value < 1:
            raise ValueError(f"{name}: {what} is {value}, expected a positive number.")
    if counts["top_k"] > counts["num_candidates"]:
        raise ValueError(f"{name}: top_k is {counts['top_k']}, more than num_candidates, {counts['num_candidates']}.")
