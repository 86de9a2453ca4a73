"""Generalized advantages, of one agent and of several."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.value import functional
from flambeau.rl.objectives.value._estimator import ValueEstimatorBase, cut_off, kept
from flambeau.rl.objectives.value._network_values import after
from flambeau.rl.objectives.value._standardizing import standardized


class GAE(ValueEstimatorBase):
    """Generalized advantages: see `functional.generalized_advantage_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        lmbda: how much of later steps counts, alike.
        value_network: as in `ValueEstimatorBase`, which has all other options; None where values are there already.
        average_gae: standardize advantages.
        vectorized: kept from upstream; both forms are one computation.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
        auto_reset_env: the states after steps that were cut off are those of the next episode, so that the state before
            such a step stands for the one after it. Steps are cut off where ("next", "truncated") says so, or, without
            that entry, where they are done but not terminated.
    """

    def __init__(
        self, *, gamma: float | Tensor, lmbda: float | Tensor, value_network: Any, average_gae: bool = False,
        vectorized: bool | None = None, time_dim: int | None = None, auto_reset_env: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_network=value_network, **options)
        self._register("gamma", gamma)
        self._register("lmbda", lmbda)
        self.average_gae, self.vectorized, self.time_dim = average_gae, vectorized, time_dim
        self.auto_reset_env = auto_reset_env

    @dispatch  # type: ignore[untyped-decorator]
    def forward(
        self, tensordict: Any, *, params: Any = None, target_params: Any = None, time_dim: int | None = None
    ) -> Any:
        """Write the advantage, the target of values, and both values.

        Args:
            tensordict: of one batch dimension or more, one of which is time.
            params: of the value network, for what states are worth.
            target_params: of it, for what the states after them are worth.
            time_dim: which batch dimension is time.

        Returns:
            The same tensordict.

        Raises:
            RuntimeError: no batch dimension.
            KeyError: an entry is missing.
            ValueError: neither a network nor values.
        """
        self._checked(tensordict)
        with self._graph():
            advantage, target, valid = self._advantage(tensordict, params, target_params, time_dim)
            if self.average_gae:
                advantage = standardized(advantage, valid, self._groups(tensordict))
            tensordict.set(self._tensor_keys.advantage, kept(advantage, valid))
            tensordict.set(self._tensor_keys.value_target, kept(target, valid))
        return tensordict

    def value_estimate(
        self, tensordict: TensorDictBase, params: Any = None, target_params: Any = None, time_dim: int | None = None,
        **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """The target of values alone, of the shape of the values."""
        self._checked(tensordict)
        return self._advantage(tensordict.copy(), params, target_params, time_dim)[1]

    def _advantage(
        self, tensordict: TensorDictBase, params: Any, target_params: Any, time_dim: int | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        reward = self._read(tensordict, after(self._tensor_keys.reward))
        time = self._time_dim(time_dim, tensordict)
        value, next_value, valid = self._values(tensordict, params, target_params, time)
        if self.auto_reset_env:
            next_value = torch.where(self._truncated(tensordict, value), value, next_value)
        reward, done, terminated = self._signals(reward, *self._ends(tensordict), value)
        gamma = self._discount(tensordict, reward)
        results = functional.generalized_advantage_estimate(
            gamma, self.lmbda, value, next_value, reward, cut_off(done, valid, time), terminated, time_dim=time
        )
        return *results, valid

    def _truncated(self, tensordict: TensorDictBase, value: Tensor) -> Tensor:
        done, terminated = self._ends(tensordict)
        beside = after(self._tensor_keys.done)[:-1]
        truncated = tensordict.get((*beside, "truncated"), None)
        return self._signals(value, done, done & ~terminated if truncated is None else truncated, value)[2]

    def _signals(
        self, reward: Tensor, done: Tensor, terminated: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return reward, done, terminated


class MultiAgentGAE(GAE):
    """`GAE` for values of several agents; what they share, such as ends, goes to each of them.

    Args:
        agent_dim: which dimension of the values is the agents'.
        **kwargs: of `GAE`.
    """

    def __init__(self, *, agent_dim: int = -2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.agent_dim = agent_dim

    def _signals(
        self, reward: Tensor, done: Tensor, terminated: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dim = self.agent_dim % value.dim()
        reward, done, terminated = (
            (one.unsqueeze(dim) if one.dim() < value.dim() else one).expand(value.shape)
            for one in (reward, done, terminated)
        )
        return reward, done, terminated
