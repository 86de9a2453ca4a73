"""Random network distillation: rewards for states that are new (Burda et al. 2018, arXiv:1810.12894)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.data.tensor_specs import Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["RNDTransform", "RunningMeanStd"]


class RunningMeanStd(nn.Module):
    """Mean and variance of all values seen, updated batch by batch (Chan, Golub and LeVeque 1979, STAN-CS-79-773).

    Args:
        shape: of one value.
        epsilon: how many values of mean 0 and variance 1 it begins with.

    Example:
        >>> stats = RunningMeanStd(epsilon=0.0)
        >>> stats.update(torch.tensor([1.0, 3.0]))
        >>> stats.mean, stats.var
        (tensor(2.), tensor(1.))
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.tensor(epsilon))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Take in a batch.

        Args:
            x: (*batch, *shape).
        """
        values = x.reshape(-1, *self.mean.shape).to(self.mean.dtype)
        number = values.shape[0]
        mean, var = values.mean(0), values.var(0, unbiased=False)
        delta, total = mean - self.mean, self.count + number
        spread = self.var * self.count + var * number + delta.square() * (self.count * number / total)
        self.mean += delta * (number / total)
        self.var.copy_(spread / total)
        self.count.copy_(total)

    def normalize(self, x: Tensor) -> Tensor:
        """Values with the mean subtracted, by the standard deviation.

        Args:
            x: (*batch, *shape).
        """
        return (x - self.mean) / (self.var + 1e-8).sqrt()


class RNDTransform(Transform):
    """A reward for observations that a network has not learnt yet: how far its features are from a random network's.

        reward = mean((predictor(x) - target(x))^2)

    While the transform is in training mode (environments set it to evaluation; `env.transform.train()`), running
    statistics of observations and rewards are updated, which both are normalized by. The predictor is trained by
    `RNDLoss`.

    Args:
        target_network: random, and left so: its parameters get no gradients.
        predictor_network: learns what the other gives.
        in_keys: of the observation; default: "observation".
        out_keys: of the reward; default: "intrinsic_reward".
        normalize_obs: subtract the running mean of observations, and divide by their deviation.
        normalize_reward: divide rewards by their running deviation.
        obs_clip: the greatest absolute value of normalized observations.
        reward_clip: the greatest normalized reward.

    Raises:
        ValueError: there is not one key of each.

    References:
        Burda, Edwards, Storkey and Klimov 2018, "Exploration by random network distillation", arXiv:1810.12894,
        sections 2.2 and 2.4.
    """

    obs_rms: RunningMeanStd | None
    reward_rms: RunningMeanStd | None

    def __init__(
        self, target_network: nn.Module, predictor_network: nn.Module, in_keys: list[NestedKey] | None = None,
        out_keys: list[NestedKey] | None = None, normalize_obs: bool = True, normalize_reward: bool = True,
        obs_clip: float = 5.0, reward_clip: float = 5.0,
    ) -> None:  # fmt: skip
        super().__init__(
            ["observation"] if in_keys is None else in_keys, ["intrinsic_reward"] if out_keys is None else out_keys
        )
        if len(self.in_keys) != 1 or len(self.out_keys) != 1:
            raise ValueError(
                f"RNDTransform makes one reward of one observation; got in_keys {self.in_keys} and out_keys "
                f"{self.out_keys}."
            )
        self.target_network = target_network.requires_grad_(False)
        self.predictor_network = predictor_network
        self.normalize_obs, self.normalize_reward = normalize_obs, normalize_reward
        self.obs_clip, self.reward_clip = obs_clip, reward_clip
        self.obs_rms = None
        self.reward_rms = RunningMeanStd() if normalize_reward else None

    def _call(self, next_tensordict: Any) -> Any:
        return self._step(None, next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Reward the observations of any data.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it lacks the observation.
        """
        return self._step(None, tensordict)

    @torch.no_grad()
    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        key = self.in_keys[0]
        observation = next_tensordict.get(key, None)
        if observation is None:
            if self._missing_tolerance:
                return next_tensordict
            raise self._missing(key, next_tensordict)
        if self.normalize_obs:
            observation = self._normalized(observation, next_tensordict.ndim)
        error = self.predictor_network(observation) - self.target_network(observation)
        reward = error.square().mean(-1, keepdim=True)
        if self.reward_rms is not None:
            if self.training:
                self.reward_rms.update(reward)
            reward = reward / (self.reward_rms.var + 1e-8).sqrt()
            reward = reward.clamp(-self.reward_clip, self.reward_clip)
        return next_tensordict.set(self.out_keys[0], reward)

    def _normalized(self, observation: Tensor, batch: int) -> Tensor:
        if self.obs_rms is None:
            self.obs_rms = RunningMeanStd(tuple(observation.shape[batch:])).to(observation.device)
        if self.training:
            self.obs_rms.update(observation)
        return self.obs_rms.normalize(observation).clamp(-self.obs_clip, self.obs_clip)

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specs of rewards with the new one.

        Args:
            reward_spec: a composite.
        """
        shape = torch.Size([*self.parent.batch_size, 1]) if self.parent is not None else torch.Size([1])
        reward_spec[self.out_keys[0]] = Unbounded(shape, device=reward_spec.device)
        return reward_spec

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # Statistics get the shape of the checkpoint's; one without any, such as upstream's, leaves them as they are.
        mean = state_dict.get(f"{prefix}obs_rms.mean")
        if mean is not None and self.obs_rms is None:
            self.obs_rms = RunningMeanStd(tuple(mean.shape)).to(mean.device)
        for name in ("obs_rms", "reward_rms"):
            module = getattr(self, name)
            if module is not None:
                for key, value in module.state_dict().items():
                    state_dict.setdefault(f"{prefix}{name}.{key}", value)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
