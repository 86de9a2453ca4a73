"""Estimators of returns: one step ahead, to the end of trajectories, and the means between them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.value import functional
from flambeau.rl.objectives.value._estimator import ValueEstimatorBase, cut_off, kept
from flambeau.rl.objectives.value._network_values import after
from flambeau.rl.objectives.value._standardizing import standardized


class _Bootstrapped(ValueEstimatorBase):
    """Estimators whose target is made of rewards and of the values after the steps."""

    def __init__(
        self, *, gamma: float | Tensor, value_network: Any, average_rewards: bool = False, **options: Any
    ) -> None:
        super().__init__(value_network=value_network, **options)
        self._register("gamma", gamma)
        self.average_rewards = average_rewards

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any, *, params: Any = None, target_params: Any = None) -> Any:
        """Write the advantage, the target of values, and both values.

        Args:
            tensordict: of one batch dimension or more, one of which is time.
            params: of the value network, for what states are worth.
            target_params: of it, for what the states after them are worth.

        Returns:
            The same tensordict.

        Raises:
            RuntimeError: no batch dimension.
            KeyError: an entry is missing.
        """
        self._checked(tensordict)
        with self._graph():
            time = self._time_dim(None, tensordict)
            value, next_value, valid = self._values(tensordict, params, target_params, time)
            target = self._target(tensordict, next_value, time, valid)
            tensordict.set(self._tensor_keys.advantage, kept(target - value, valid))
            tensordict.set(self._tensor_keys.value_target, kept(target, valid))
        return tensordict

    def value_estimate(
        self, tensordict: TensorDictBase, target_params: Any = None, next_value: Tensor | None = None,
        time_dim: int | None = None, **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """The target of values alone; nothing but standardized rewards is written.

        Args:
            tensordict: as `forward` takes it.
            target_params: of the value network.
            next_value: what the states after the steps are worth, instead of what the network says.
            time_dim: which batch dimension is time.
            **kwargs: none; estimators of others may take more.

        Returns:
            The shape of the reward.
        """
        following = self._next_value(tensordict, target_params) if next_value is None else next_value
        return self._target(tensordict, following, self._time_dim(time_dim, tensordict))

    def _target(self, tensordict: TensorDictBase, following: Tensor, time: int, valid: Tensor | None = None) -> Tensor:
        key = after(self._tensor_keys.reward)
        reward = self._read(tensordict, key)
        if self.average_rewards:
            reward = standardized(reward, groups=self._groups(tensordict))
            tensordict.set(key, reward)  # whatever reads it later reads the same
        done, terminated = self._ends(tensordict)
        gamma = self._discount(tensordict, reward)
        return self._estimate(gamma, following, reward, cut_off(done, valid, time), terminated, time)

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        raise NotImplementedError


class TD0Estimator(_Bootstrapped):
    """Returns that look one step ahead (Sutton, 1988): see `functional.td0_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
    """

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.td0_return_estimate(gamma, following, reward, terminated)


class TD1Estimator(_Bootstrapped):
    """Returns to the end of trajectories: see `functional.td1_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(self, *, time_dim: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.time_dim = time_dim

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.vec_td1_return_estimate(gamma, following, reward, done, terminated, time_dim=time)


class TDLambdaEstimator(TD1Estimator):
    """Means of returns of all lengths: see `functional.td_lambda_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        lmbda: how much of later steps counts, alike.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
        vectorized: kept from upstream; both forms are one computation.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(self, *, lmbda: float | Tensor, vectorized: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._register("lmbda", lmbda)
        self.vectorized = vectorized

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.vec_td_lambda_return_estimate(
            gamma, self.lmbda, following, reward, done, terminated, time_dim=time
        )


class TD0Estimate(TD0Estimator):
    """The former name of `TD0Estimator`."""


class TD1Estimate(TD1Estimator):
    """The former name of `TD1Estimator`."""


class TDLambdaEstimate(TDLambdaEstimator):
    """The former name of `TDLambdaEstimator`."""
