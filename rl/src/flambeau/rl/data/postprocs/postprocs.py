"""Returns over several steps, and rewards that are spread over an episode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModuleBase
from flambeau.rl.ops.recursion import discounted_sum

__all__ = ["DensifyReward", "MultiStep"]

_FLAGS = ("done", "terminated", "truncated")


class MultiStep(nn.Module):
    """Lets each step look `n_steps` ahead: its reward is the discounted sum of as many, its next observation theirs.

    Steps end with their episode. Time is the last dimension of the batch. Written are ("next", "original_reward"),
    "steps_to_next_obs" int64, "gamma", which is the discount to the power of these steps, and "nonterminal", whether
    there is more than one of them; ("next", "done") and other flags stay as they are.

    Args:
        gamma: discount a step, in [0, 1].
        n_steps: how many steps, > 0.

    Raises:
        ValueError: `gamma` or `n_steps` out of range.

    References:
        Sutton, 1988, "Learning to predict by the methods of temporal differences".
    """

    gammas: Tensor

    def __init__(self, gamma: float, n_steps: int) -> None:
        super().__init__()
        if not 0 <= gamma <= 1:
            raise ValueError(f"MultiStep: gamma is {gamma}, expected 0 to 1.")
        if n_steps < 1:
            raise ValueError(f"MultiStep: n_steps is {n_steps}, expected at least 1.")
        self.gamma = gamma
        self.n_steps = n_steps
        powers = torch.tensor([gamma**power for power in range(n_steps + 1)], dtype=torch.float32)
        self.register_buffer("gammas", powers.reshape(1, 1, -1))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The same data, a shallow copy, with steps that look ahead.

        Args:
            tensordict: [*batch, time], with ("next", "reward") and ("next", "done").

        Raises:
            RuntimeError: no dimension of time.
        """
        if not tensordict.batch_dims:
            raise RuntimeError("MultiStep: the data has no batch dimension, of which the last is time.")
        found = tensordict.clone(False)
        time = tensordict.batch_dims - 1
        length = int(tensordict.shape[-1])
        done = found.get(("next", "done")).reshape(*tensordict.shape, -1).any(-1)
        steps = self._steps(done, length)
        target = torch.arange(length, device=steps.device) + steps - 1
        reward = found.get(("next", "reward"))
        following = found.get("next").clone(False)
        for key, value in following.items(True, True):
            name = key[-1] if isinstance(key, tuple) else key
            if name in _FLAGS or key in ("reward", "original_reward"):
                continue
            index = target.reshape(*target.shape, *[1] * (value.ndim - target.ndim)).expand(value.shape)
            following.set(key, value.gather(time, index))
        # Upstream: the reward moves to another name, so that the new one stands last.
        following.rename_key_("reward", "original_reward")
        following.set("reward", self._summed(reward, steps, time))
        found.set("next", following)
        found.set("steps_to_next_obs", steps)
        found.set("gamma", self.gammas.reshape(-1)[steps])
        several = steps > 1
        mask = found.get(("collector", "mask"), None)
        found.set("nonterminal", several if mask is None else several & mask.reshape(several.shape))
        return found

    def _steps(self, done: Tensor, length: int) -> Tensor:
        """How many steps there are ahead of each, itself included: to the end of its episode, of the data, or n."""
        places = torch.arange(length, device=done.device).expand(done.shape)
        ends = torch.where(done, places, length - 1)
        # The nearest end at or behind each step.
        nearest = ends.flip(-1).cummin(-1).values.flip(-1)
        return (nearest - places + 1).clamp_max(self.n_steps)

    def _summed(self, reward: Tensor, steps: Tensor, time: int) -> Tensor:
        total = torch.zeros_like(reward)
        length = reward.shape[time]
        more = [1] * (reward.ndim - steps.ndim)
        for ahead in range(min(self.n_steps, length)):
            counted = (steps > ahead).reshape(*steps.shape, *more).narrow(time, 0, length - ahead)
            part = reward.narrow(time, ahead, length - ahead) * self.gammas[0, 0, ahead].to(reward.dtype)
            total.narrow(time, 0, length - ahead).add_(part * counted)
        return total


class DensifyReward(TensorDictModuleBase):  # type: ignore[misc]
    """Gives each step the discounted sum of the rewards from it to the end of its episode.

    A reward that comes at an episode's end alone is so spread over the episode.

    Args:
        reward_key: the entry of rewards, under "next".
        done_key: the entry of the ends of episodes, under "next".
        reward_key_out: where the sums are written, under "next"; by default in the rewards' place.
        time_dim: which dimension of the batch is time; the last one if there are not so many.
        discount: what a reward is worth one step earlier, in [0, 1].
    """

    def __init__(
        self,
        *,
        reward_key: Any = "reward",
        done_key: Any = "done",
        reward_key_out: Any = None,
        time_dim: int = 2,
        discount: float = 1.0,
    ) -> None:
        super().__init__()
        self.reward_key, self.done_key = reward_key, done_key
        self.reward_key_out = reward_key if reward_key_out is None else reward_key_out
        self.in_keys = [_next(reward_key), _next(done_key)]
        self.out_keys = [_next(self.reward_key_out)]
        self.time_dim = time_dim
        self.discount = discount

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The same tensordict, with the sums written.

        Raises:
            KeyError: no rewards, or no ends of episodes.
        """
        reward, done = (tensordict.get(key, None) for key in self.in_keys)
        if reward is None or done is None:
            missing = self.in_keys[0] if reward is None else self.in_keys[1]
            raise KeyError(f"DensifyReward: there is no entry {missing!r}; give reward_key and done_key.")
        dims = max(tensordict.batch_dims, 1)
        time = self.time_dim if -dims <= self.time_dim < dims else dims - 1
        factors = self.discount * (~done.to(torch.bool)).to(reward.dtype)
        summed = discounted_sum(reward, factors.expand_as(reward), time % dims)
        return tensordict.set(self.out_keys[0], summed.to(reward.dtype))


def _next(key: Any) -> tuple[Any, ...]:
    return ("next", *key) if isinstance(key, tuple) else ("next", key)
