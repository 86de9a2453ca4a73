"""Dreamer's losses: of a world model, and of an actor and a critic that are trained on what it imagines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.objectives._imagination import imagined, over_time, returns_of
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators, distance_loss, hold_out_net

__all__ = ["DreamerActorLoss", "DreamerModelLoss", "DreamerValueLoss"]


class DreamerModelLoss(LossModule):
    """The loss of Dreamer's world model (Hafner et al., 2019, arXiv:1912.01603, equation 10).

    Args:
        world_model: two modules in sequence, of which the first, a sequence too, ends with the decoder, and the second
            predicts rewards. It writes to "next" the moments of both distributions of states, the reconstruction and
            the reward.
        lambda_kl: how much the divergence of the distributions counts.
        lambda_reco: how much the reconstruction counts.
        lambda_reward: how much the reward counts.
        reco_loss: "l2" (the default), "l1" or "smooth_l1".
        reward_loss: alike.
        free_nats: divergences below count as this.
        delayed_clamp: take the mean over the batch first, and compare that with `free_nats`.
        global_average: take means over features too, not sums.

    Returns of `forward`:
        "loss_model_kl", "loss_model_reco" and "loss_model_reward", (1,) each; and the batch with the predictions,
        without gradients.
    """

    @dataclass
    class _AcceptedKeys:
        reward: Any = "reward"
        true_reward: Any = "true_reward"
        prior_mean: Any = "prior_mean"
        prior_std: Any = "prior_std"
        posterior_mean: Any = "posterior_mean"
        posterior_std: Any = "posterior_std"
        pixels: Any = "pixels"
        reco_pixels: Any = "reco_pixels"

    default_keys = _AcceptedKeys

    def __init__(
        self, world_model: Any, *, lambda_kl: float = 1.0, lambda_reco: float = 1.0, lambda_reward: float = 1.0,
        reco_loss: str | None = None, reward_loss: str | None = None, free_nats: int = 3, delayed_clamp: bool = False,
        global_average: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.world_model = world_model
        self.__dict__["decoder"], self.__dict__["reward_model"] = world_model[0][-1], world_model[1]
        self.lambda_kl, self.lambda_reco, self.lambda_reward = lambda_kl, lambda_reco, lambda_reward
        self.reco_loss = "l2" if reco_loss is None else reco_loss
        self.reward_loss = "l2" if reward_loss is None else reward_loss
        self.free_nats, self.delayed_clamp, self.global_average = free_nats, delayed_clamp, global_average

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        keys = self._tensor_keys
        return [*self.world_model.in_keys, after(keys.reward), after(keys.pixels)]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return ["loss_model_kl", "loss_model_reco", "loss_model_reward"]

    def forward(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The losses of a batch of trajectories, (*batch, time), and the batch with predictions; see the class."""
        keys, data = self._tensor_keys, tensordict.copy()
        data.rename_key_(after(keys.reward), after(keys.true_reward))
        data = self.world_model(data)
        moments = ("prior_mean", "prior_std", "posterior_mean", "posterior_std")
        kl = self.kl_loss(*(data.get(after(getattr(keys, name))) for name in moments))
        reco = self._distance(data, keys.pixels, keys.reco_pixels, self.reco_loss)
        reward = self._distance(data, keys.true_reward, keys.reward, self.reward_loss)
        found = {
            "loss_model_kl": self.lambda_kl * kl,
            "loss_model_reco": self.lambda_reco * reco,
            "loss_model_reward": self.lambda_reward * reward,
        }
        return TensorDict({name: loss.unsqueeze(0) for name, loss in found.items()}), data.detach()

    def _distance(self, data: TensorDictBase, truth: Any, predicted: Any, kind: str) -> Tensor:
        distance = distance_loss(data.get(after(truth)), data.get(after(predicted)), kind)
        if self.global_average:
            return distance.mean()  # type: ignore[no-any-return]
        return distance.flatten(data.ndim).sum(-1).mean()  # type: ignore[no-any-return]

    @staticmethod
    def normal_log_probability(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """The log-density of a normal distribution, but for a constant.

        Args:
            x: any shape.
            mean: the same.
            std: the same, > 0.
        """
        return -std.log() - 0.5 * ((x - mean) / std).square()

    def kl_loss(self, prior_mean: Tensor, prior_std: Tensor, posterior_mean: Tensor, posterior_std: Tensor) -> Tensor:
        """The divergence of the posterior from the prior, in nats, one number.

        Args:
            prior_mean: (*batch, features); all four.
            prior_std: > 0.
            posterior_mean: of what was seen.
            posterior_std: > 0.
        """
        kl = (
            (prior_std / posterior_std).log()
            + (posterior_std.square() + (prior_mean - posterior_mean).square()) / (2 * prior_std.square())
            - 0.5
        )
        if not self.global_average:
            kl = kl.sum(-1)
        return kl.mean().clamp_min(self.free_nats) if self.delayed_clamp else kl.clamp_min(self.free_nats).mean()


class DreamerActorLoss(LossModule):
    """The loss of Dreamer's actor (Hafner et al., 2019, arXiv:1912.01603, equations 6 and 7): minus imagined returns.

    Args:
        actor_model: acts on what the environment imagines.
        value_model: writes "state_value".
        model_based_env: such as `DreamerEnv`.
        imagination_horizon: how many steps are imagined.
        discount_loss: later returns count less.
        gamma: use `make_value_estimator(gamma=...)`.
        lmbda: use `make_value_estimator(lmbda=...)`.

    Returns of `forward`:
        "loss_actor", one number; and what was imagined, (*batch, imagination_horizon), with "lambda_target", without
        gradients.

    Raises:
        TypeError: `gamma` or `lmbda` is given.
    """

    @dataclass
    class _AcceptedKeys:
        belief: Any = "belief"
        reward: Any = "reward"
        value: Any = "state_value"
        done: Any = "done"
        terminated: Any = "terminated"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.TDLambda
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (
        ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda,
    )  # fmt: skip

    def __init__(
        self, actor_model: Any, value_model: Any, model_based_env: Any, *, imagination_horizon: int = 15,
        discount_loss: bool = True, gamma: float | None = None, lmbda: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if gamma is not None or lmbda is not None:
            raise TypeError(
                f"gamma={gamma} and lmbda={lmbda} are arguments of the value estimator: call make_value_estimator."
            )
        self.actor_model = actor_model
        self.__dict__["value_model"] = value_model
        self.model_based_env = model_based_env
        self.imagination_horizon, self.discount_loss = imagination_horizon, discount_loss

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return ["state", self._tensor_keys.belief]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return ["loss_actor"]

    def _estimated_network(self) -> Any:
        return None

    def forward(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The loss of a batch of latent states, and what was imagined from there; see the class."""
        start = tensordict.select(*self.in_keys).detach()
        data = imagined(self.model_based_env, self.actor_model, start, self.imagination_horizon)
        following = data.get("next").select(*self.value_model.in_keys)
        with hold_out_net(self.value_model):
            value = self.value_model(following).get(self._tensor_keys.value)
        target = self.lambda_target(data.get(after(self._tensor_keys.reward)), value)
        data.set("lambda_target", target)
        weighted = target * over_time(self.value_estimator.gamma, target) if self.discount_loss else target
        return TensorDict({"loss_actor": -weighted.sum((-2, -1)).mean()}), data.detach()

    def lambda_target(self, reward: Tensor, value: Tensor) -> Tensor:
        """Imagined returns.

        Args:
            reward: (*batch, time, 1).
            value: of the states after the steps, alike.

        Returns:
            (*batch, time, 1).
        """
        return returns_of(self.value_estimator, reward, value)


class DreamerValueLoss(LossModule):
    """The loss of Dreamer's critic (Hafner et al., 2019, arXiv:1912.01603, equation 8).

    Args:
        value_model: writes "state_value", (*batch, time, 1).
        value_loss: "l2" (the default), "l1" or "smooth_l1".
        discount_loss: later steps count less.
        gamma: by how much.

    Reads what `DreamerActorLoss` imagined, with "lambda_target".

    Returns of `forward`:
        "loss_value", one number; and what it was called with.
    """

    @dataclass
    class _AcceptedKeys:
        value: Any = "state_value"

    default_keys = _AcceptedKeys

    def __init__(
        self, value_model: Any, value_loss: str | None = None, discount_loss: bool = True, gamma: float = 0.99
    ) -> None:
        super().__init__()
        self.value_model = value_model
        self.value_loss = "l2" if value_loss is None else value_loss
        self.gamma, self.discount_loss = gamma, discount_loss

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return [*self.value_model.in_keys, "lambda_target"]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return ["loss_value"]

    def forward(self, fake_data: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The loss of what was imagined; see the class."""
        target = fake_data.get("lambda_target")
        value = self.value_model(fake_data.select(*self.value_model.in_keys)).get(self._tensor_keys.value)
        loss = distance_loss(value, target, self.value_loss)
        if self.discount_loss:
            loss = loss * over_time(torch.as_tensor(self.gamma), loss)
        return TensorDict({"loss_value": loss.sum((-2, -1)).mean()}), fake_data
