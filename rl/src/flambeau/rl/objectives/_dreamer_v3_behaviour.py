"""The losses of DreamerV3's actor and critic, on what its world model imagines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.modules.functional import symlog
from flambeau.rl.modules.models.model_based import two_hot_cross_entropy
from flambeau.rl.modules.value_norm import PercentileValueNorm
from flambeau.rl.objectives._dreamer_v3_model import symexp_bins
from flambeau.rl.objectives._imagination import imagined, over_time, returns_of
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators, hold_out_net

__all__ = ["DreamerV3ActorLoss", "DreamerV3ValueLoss"]


class DreamerV3ActorLoss(LossModule):
    """The loss of DreamerV3's actor (Hafner et al., 2023, arXiv:2301.04104, equations 11 and 12).

    Minus imagined returns, on the scale of their percentiles, less the entropy of the policy.

    Args:
        actor_model: acts on what the environment imagines, and has `get_dist`.
        value_model: writes "state_value".
        model_based_env: such as `DreamerEnv`.
        continuation_model: writes "continuation", the probability to go on, of imagined states.
        imagination_horizon: how many steps are imagined.
        discount_loss: later steps, and those that are unlikely to be reached, count less.
        entropy_bonus: how much the entropy counts.
        use_reinforce: train by the log-probabilities of actions and their advantages, for choices; otherwise by the
            gradients of returns.
        return_normalization: divide by the distance of the returns' percentiles.
        return_normalization_rate: weight of a batch in these, in [0, 1].
        return_normalization_quantiles: which percentiles.
        return_normalization_min_scale: the least that is divided by, > 0.
        gamma: use `make_value_estimator(gamma=...)`.
        lmbda: use `make_value_estimator(lmbda=...)`.

    Returns of `forward`:
        "loss_actor"; "actor_entropy", "return_low", "return_high", "return_scale" and "continuation_mean" without
        gradients; and what was imagined, (*batch, imagination_horizon), with "lambda_target" and "discount_weight",
        without gradients.

    Raises:
        TypeError: `gamma` or `lmbda` is given.
        ValueError: a number is out of range.
    """

    @dataclass
    class _AcceptedKeys:
        state: Any = "state"
        belief: Any = "belief"
        reward: Any = "reward"
        value: Any = "state_value"
        action: Any = "action"
        action_log_prob: Any = "action_log_prob"
        done: Any = "done"
        terminated: Any = "terminated"
        continuation: Any = "continuation"
        discount_weight: Any = "discount_weight"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.TDLambda
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (
        ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda,
    )  # fmt: skip

    def __init__(
        self, actor_model: Any, value_model: Any, model_based_env: Any, *, continuation_model: Any = None,
        imagination_horizon: int = 15, discount_loss: bool = True, entropy_bonus: float = 3e-4,
        use_reinforce: bool = False, return_normalization: bool = True, return_normalization_rate: float = 0.01,
        return_normalization_quantiles: tuple[float, float] = (0.05, 0.95),
        return_normalization_min_scale: float = 1.0, gamma: float | None = None, lmbda: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if gamma is not None or lmbda is not None:
            raise TypeError(
                f"gamma={gamma} and lmbda={lmbda} are arguments of the value estimator: call make_value_estimator."
            )
        self.actor_model = actor_model
        self.__dict__["value_model"], self.__dict__["continuation_model"] = value_model, continuation_model
        self.model_based_env = model_based_env
        self.imagination_horizon, self.discount_loss = imagination_horizon, discount_loss
        self.entropy_bonus, self.use_reinforce = entropy_bonus, use_reinforce
        self.return_normalization = return_normalization
        self.retnorm = PercentileValueNorm(
            quantiles=return_normalization_quantiles, rate=return_normalization_rate,
            min_scale=return_normalization_min_scale,
        )  # fmt: skip

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return [self._tensor_keys.state, self._tensor_keys.belief]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return ["loss_actor", "actor_entropy", "return_low", "return_high", "return_scale", "continuation_mean"]

    @property
    def return_low(self) -> Tensor:
        """The lower percentile of returns."""
        return self.retnorm.low.squeeze(-1)

    @property
    def return_high(self) -> Tensor:
        """The upper percentile of returns."""
        return self.retnorm.high.squeeze(-1)

    @property
    def return_normalization_rate(self) -> float:
        """How much a batch changes the percentiles."""
        return self.retnorm.rate

    @property
    def return_normalization_quantiles(self) -> tuple[float, float]:
        """Which percentiles these are."""
        return self.retnorm.quantiles

    @property
    def return_normalization_min_scale(self) -> float:
        """The least that returns are divided by."""
        return self.retnorm.min_scale

    def _estimated_network(self) -> Any:
        return None

    def forward(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The loss of a batch of latent states, and what was imagined from there; see the class."""
        keys = self._tensor_keys
        start = tensordict.select(*self.in_keys).detach()
        data = imagined(self.model_based_env, self.actor_model, start, self.imagination_horizon)
        going_on = self._going_on(data)
        value = self._value(data.get("next"))
        target = self.lambda_target(data.get(after(keys.reward)), value, going_on)
        weight = self._weight(data, target)
        data.set("lambda_target", target)
        data.set(keys.discount_weight, weight)
        scale = self._scale(target)
        gain = self._reinforced(data, target) if self.use_reinforce else target
        loss = -(gain / scale * weight).mean()
        entropy = torch.zeros_like(loss)
        if self.entropy_bonus:
            entropy = (self._entropy(data) * weight).mean()
            loss = loss - self.entropy_bonus * entropy
        found = {"loss_actor": loss, "actor_entropy": entropy.detach()}
        found |= {"return_low": self.return_low.clone(), "return_high": self.return_high.clone(), "return_scale": scale}
        found["continuation_mean"] = torch.ones_like(scale) if going_on is None else going_on.detach().mean()
        return TensorDict(self._selected(found)), data.detach()

    def lambda_target(self, reward: Tensor, value: Tensor, continuation: Tensor | None = None) -> Tensor:
        """Imagined returns.

        Args:
            reward: (*batch, time, 1).
            value: of the states after the steps, alike.
            continuation: how likely these are reached, alike; it multiplies the discount.

        Returns:
            (*batch, time, 1).
        """
        if continuation is None:
            return returns_of(self.value_estimator, reward, value)
        discount = self.value_estimator.gamma * continuation
        lmbda = self._lambda()
        following, found = value[..., -1, :], []
        for step in reversed(range(reward.shape[-2])):
            mixed = (1 - lmbda) * value[..., step, :] + lmbda * following
            following = reward[..., step, :] + discount[..., step, :] * mixed
            found.append(following)
        return torch.stack(found[::-1], -2)

    def _lambda(self) -> Tensor | float:
        """How far the estimator looks ahead: one step (0), to the end (1), or between."""
        if self.value_type is ValueEstimators.TD0:
            return 0.0
        return getattr(self.value_estimator, "lmbda", 1.0)

    def _value(self, states: TensorDictBase) -> Tensor:
        with hold_out_net(self.value_model):
            return self.value_model(states.select(*self.value_model.in_keys)).get(self._tensor_keys.value)  # type: ignore[no-any-return]

    def _going_on(self, data: TensorDictBase) -> Tensor | None:
        """The probabilities to go on after the steps, which the imagined data keep for both sides of a step."""
        if self.continuation_model is None:
            return None
        key = self._tensor_keys.continuation
        with hold_out_net(self.continuation_model):
            for states in (data, data.get("next")):
                states.set(key, self.continuation_model(states.select(*self.continuation_model.in_keys)).get(key))
        return data.get(after(key))  # type: ignore[no-any-return]

    def _weight(self, data: TensorDictBase, target: Tensor) -> Tensor:
        """How much each step counts, without gradients."""
        if not self.discount_loss:
            return torch.ones_like(target)
        weight = over_time(self.value_estimator.gamma, target).expand_as(target)
        if self.continuation_model is None:
            return weight
        return weight * data.get(self._tensor_keys.continuation).detach().cumprod(-2)  # type: ignore[no-any-return]

    def _scale(self, target: Tensor) -> Tensor:
        if not self.return_normalization:
            return target.new_ones(())
        self.retnorm.update(target)
        return self.retnorm.scale().squeeze(-1)

    def _reinforced(self, data: TensorDictBase, target: Tensor) -> Tensor:
        log_prob = self._policy(data).log_prob(data.get(self._tensor_keys.action).detach())
        advantage = target - self._value(data)
        return log_prob.reshape(*data.shape, -1).sum(-1, keepdim=True) * advantage.detach()  # type: ignore[no-any-return]

    def _policy(self, data: TensorDictBase) -> Any:
        """The distribution of actions; gradients do not pass to the states."""
        return self.actor_model.get_dist(data.select(*self.actor_model.in_keys).detach())

    def _entropy(self, data: TensorDictBase) -> Tensor:
        """The entropy of the policy, estimated from one action where it has no formula; (*batch, time, 1)."""
        dist = self._policy(data)
        try:
            entropy = dist.entropy()
        except NotImplementedError:
            entropy = -dist.log_prob(dist.rsample())
        return entropy.reshape(*data.shape, -1).sum(-1, keepdim=True)  # type: ignore[no-any-return]


class DreamerV3ValueLoss(LossModule):
    """The loss of DreamerV3's critic (Hafner et al., 2023, arXiv:2301.04104, equations 8 to 10).

    Args:
        value_model: writes "state_value", (*batch, time, 1), and "state_value_logits", (*batch, time, bins), for
            "two_hot".
        value_loss: "symlog_mse", (symlog(v) - symlog(target))^2, or "two_hot", the cross entropy with the target
            between two of the values `symexp` of numbers from -20 to 20.
        discount_loss: later steps count less, unless "discount_weight" says how much; batches of one dimension have no
            later steps.
        gamma: by how much.
        num_value_bins: how many logits there are.
        actor_loss: whose discount counts instead of `gamma`.
        slow_critic_regularization: how much the distance from a slow critic counts, whose parameters `SoftUpdate`
            moves.
        reduction: "mean" (default), "sum" or "none".

    Reads what `DreamerV3ActorLoss` imagined, with "lambda_target".

    Returns of `forward`:
        "loss_value"; "value_slow_loss" without gradients; and what it was called with.

    Raises:
        ValueError: another name of a loss.
    """

    @dataclass
    class _AcceptedKeys:
        value: Any = "state_value"
        value_logits: Any = "state_value_logits"
        discount_weight: Any = "discount_weight"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        bootstrap: Any = "bootstrap"

    default_keys = _AcceptedKeys

    def __init__(
        self, value_model: Any, value_loss: str = "symlog_mse", discount_loss: bool = True, gamma: float = 0.99,
        num_value_bins: int = 255, actor_loss: DreamerV3ActorLoss | None = None,
        slow_critic_regularization: float = 0.0, reduction: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if value_loss not in ("symlog_mse", "two_hot"):
            raise ValueError(f"value_loss is {value_loss!r}, expected 'symlog_mse' or 'two_hot'.")
        self.reduction = "mean" if reduction is None else reduction
        self.slow_critic_regularization = slow_critic_regularization
        self.value_loss, self.discount_loss, self.num_value_bins = value_loss, discount_loss, num_value_bins
        self.__dict__["_gamma"], self.__dict__["_actor_loss"] = gamma, actor_loss
        self.register_buffer("value_bins", symexp_bins(num_value_bins))
        self.convert_to_functional(value_model, "value_model", create_target_params=slow_critic_regularization > 0)

    @property
    def gamma(self) -> float:
        """The discount."""
        if self._actor_loss is not None:
            return float(self._actor_loss.value_estimator.gamma)
        return float(self._gamma)

    def sync_gamma_with_actor_loss(self, actor_loss: DreamerV3ActorLoss) -> None:
        """Take the discount that an actor's loss has now.

        Args:
            actor_loss: whose value estimator says it.
        """
        self.__dict__["_gamma"] = float(actor_loss.value_estimator.gamma)

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return [*self.value_model.in_keys, "lambda_target"]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return ["loss_value", "value_slow_loss"]

    def forward(self, fake_data: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The loss of what was imagined; see the class."""
        target = fake_data.get("lambda_target")
        loss, slow = self._losses(fake_data, target)
        weight = fake_data.get(self._tensor_keys.discount_weight, None)
        if weight is not None:
            weight = weight.squeeze(-1)
        elif self.discount_loss and fake_data.ndim > 1:
            weight = over_time(torch.as_tensor(self.gamma), target).squeeze(-1).expand_as(loss)
        if weight is not None:
            loss, slow = loss * weight, slow * weight
        total = loss + self.slow_critic_regularization * slow
        found = {
            name: self._reduce_loss(each, fake_data) for name, each in zip(self.out_keys, (total, slow), strict=True)
        }
        found["value_slow_loss"] = found["value_slow_loss"].detach()
        return TensorDict(self._selected(found)), fake_data

    def replay_value_loss(
        self, tensordict: TensorDictBase, *, horizon: float = 333.0, lmbda: float = 0.95
    ) -> TensorDictBase:
        """The critic's loss on recorded trajectories, whose gradients pass to the states that it reads.

        Args:
            tensordict: (*batch, time), with what the value model reads, reward and ends in "next", and "bootstrap",
                (*batch, time), what each state is imagined to return.
            horizon: of the discount, 1 - 1 / horizon.
            lmbda: how much later steps count, in [0, 1].

        Returns:
            "loss_replay_value", of all states but the last, and 0 of those after which an episode ends.
        """
        keys = self._tensor_keys
        reward, done, terminated = (
            tensordict.get(after(key)).squeeze(-1)[..., 1:] for key in (keys.reward, keys.done, keys.terminated)
        )
        bootstrap = tensordict.get(keys.bootstrap)
        bootstrap = (bootstrap.squeeze(-1) if bootstrap.ndim > tensordict.ndim else bootstrap).detach()
        discount = (1 - 1 / horizon) * (~terminated).to(reward.dtype)
        following, found = bootstrap[..., -1], []
        for step in reversed(range(reward.shape[-1])):
            share = lmbda * (~done[..., step]).to(reward.dtype)
            mixed = (1 - share) * bootstrap[..., step + 1] + share * following
            following = reward[..., step] + discount[..., step] * mixed
            found.append(following)
        target = torch.stack(found[::-1], -1).unsqueeze(-1)
        loss, slow = self._losses(tensordict[..., :-1], target)
        going = ~tensordict.get(after(keys.done)).squeeze(-1)[..., :-1]
        loss = (loss + self.slow_critic_regularization * slow) * going.to(loss.dtype)
        return TensorDict({"loss_replay_value": self._reduce_loss(loss)})

    def _losses(self, data: TensorDictBase, target: Tensor) -> tuple[Tensor, Tensor]:
        """How far the critic is from a target, and from the slow critic; (*batch, time) each."""
        keys, network = self._tensor_keys, self.value_model
        inputs = data.select(*network.in_keys)
        with self.value_model_params.to_module(network):
            predicted = network(inputs.copy())
        loss = self._distance(predicted, target)
        if not self.slow_critic_regularization:
            return loss, torch.zeros_like(loss)
        with torch.no_grad(), self.target_value_model_params.to_module(network):
            slow = network(inputs).get(keys.value)
        return loss, self._distance(predicted, slow)

    def _distance(self, predicted: TensorDictBase, target: Tensor) -> Tensor:
        if self.value_loss == "two_hot":
            return two_hot_cross_entropy(predicted.get(self._tensor_keys.value_logits), target, self.value_bins)
        return (symlog(predicted.get(self._tensor_keys.value)) - symlog(target)).square().squeeze(-1)
