"""Losses of networks that give the value of each action, or its distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.modules.tensordict_module.actors import QValueActor
from flambeau.rl.modules.tensordict_module.common import is_tensordict_compatible
from flambeau.rl.objectives._keys import action_of, after, each_once
from flambeau.rl.objectives._spaces import action_space_of
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.utils import ValueEstimators, distance_loss

__all__ = ["DQNLoss", "DistributionalDQNLoss"]


class DQNLoss(LossModule):
    """Q-learning: the value of what was done moves towards the reward and the best value after it.

    loss = distance(q(s, a), r + gamma * (1 - terminated) * max_b q_target(s', b))

    Mnih et al., 2015; with `double_dqn` the trained network chooses b (van Hasselt et al., 2016, arXiv:1509.06461).
    The squared difference is written to the input as "td_error", (*batch, 1), for prioritized replay.

    Args:
        value_network: such as `QValueActor`; a plain network becomes one that reads "observation".
        loss_function: "l2", "l1" or "smooth_l1".
        delay_value: let target parameters follow by `SoftUpdate` or `HardUpdate`.
        double_dqn: see above; needs `delay_value`.
        gamma: an argument of `make_value_estimator`.
        action_space: "one-hot", "mult-one-hot", "binary", "categorical", or the spec of actions; that of the network by
            default.
        priority_key: a key of `set_keys`.
        reduction: "mean" (default), "sum" or "none".
        use_prioritized_weights: see `LossModule`.

    Raises:
        ValueError: `double_dqn` without `delay_value`, or no action space.
        TypeError: `gamma` is given.

    Example:
        >>> from flambeau.rl.data import OneHot
        >>> actor = QValueActor(torch.nn.Linear(3, 4), spec=OneHot(4), in_keys=["observation"])
        >>> DQNLoss(actor).out_keys
        ['loss']
    """

    @dataclass
    class _AcceptedKeys:
        advantage: Any = "advantage"
        value_target: Any = "value_target"
        value: Any = "chosen_action_value"
        action_value: Any = "action_value"
        action: Any = "action"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        priority_weight: Any = "priority_weight"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (
        ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda,
    )  # fmt: skip
    out_keys: Any = ["loss"]

    def __init__(
        self, value_network: Any, *, loss_function: str | None = "l2", delay_value: bool = True,
        double_dqn: bool = False, gamma: float | None = None, action_space: Any = None, priority_key: str | None = None,
        reduction: str | None = None, use_prioritized_weights: str | bool = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_deprecated_ctor_keys(priority=priority_key)
        if double_dqn and not delay_value:
            raise ValueError("double_dqn=True needs target parameters of their own; leave delay_value=True.")
        if gamma is not None:
            raise TypeError(f"gamma belongs to the value estimator: call make_value_estimator(gamma={gamma}) instead.")
        network = (
            value_network
            if is_tensordict_compatible(value_network)
            else QValueActor(value_network, action_space=action_space)
        )
        self.convert_to_functional(network, "value_network", create_target_params=delay_value)
        self.value_network_in_keys = network.in_keys
        self.loss_function = "l2" if loss_function is None else loss_function
        self.double_dqn, self.delay_value = double_dqn, delay_value
        self.reduction = "mean" if reduction is None else reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.action_space = action_space_of(action_space, network, type(self).__name__)

    @property
    def in_keys(self) -> list[Any]:
        """What is read: the network's inputs before and after the step, the action, reward and ends."""
        keys, inputs = self.tensor_keys, self.value_network.in_keys
        signals = (keys.reward, keys.done, keys.terminated)
        return each_once(keys.action, map(after, signals), inputs, map(after, inputs))

    def _estimated_network(self) -> Any:
        return self.value_network

    def _estimator_keys(self) -> dict[str, Any]:
        value, written = self.tensor_keys.value, self.value_network.out_keys
        if value not in written:
            raise KeyError(f"The network writes {written}, which lacks the value {value!r}; call set_keys(value=...).")
        return super()._estimator_keys()

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch.

        Args:
            tensordict: of any batch size. "td_error" (*batch, 1) is written to it.

        Returns:
            "loss": one number, or the batch's shape with `reduction="none"`.
        """
        keys, network = self.tensor_keys, self.value_network
        inputs = tensordict.select(*network.in_keys, strict=False)
        with self.value_network_params.to_module(network):
            values = network(inputs).get(keys.action_value)
        chosen = self._of(values, action_of(tensordict, keys.action))
        target = self._target(tensordict).squeeze(-1)
        tensordict.set(keys.priority, (chosen - target).square().detach().unsqueeze(-1), inplace=True)
        loss = distance_loss(chosen, target, loss_function=self.loss_function)
        weights = self._maybe_get_priority_weight(tensordict)
        return TensorDict({"loss": self._reduce_loss(loss, tensordict, weights=weights)})

    def _of(self, values: Tensor, action: Tensor) -> Tensor:
        """The value of an action, of those of all."""
        if self.action_space == "categorical":
            if action.dim() < values.dim():
                action = action.unsqueeze(-1)
            return values.gather(-1, action).squeeze(-1)
        return (values * action.to(values.dtype)).sum(-1)

    def _target(self, tensordict: TensorDictBase) -> Tensor:
        data, params = tensordict.copy(), self.target_value_network_params
        if not self.double_dqn:
            return self.value_estimator.value_estimate(data, target_params=params)  # type: ignore[no-any-return]
        keys, network = self.tensor_keys, self.value_network
        following = tensordict.get("next").select(*network.in_keys, strict=False)
        with torch.no_grad():
            with self.value_network_params.to_module(network):
                action = network(following.copy()).get(keys.action)
            with params.to_module(network):
                values = network(following).get(keys.action_value)
            next_value = self._of(values, action).unsqueeze(-1)
        return self.value_estimator.value_estimate(data, next_value=next_value)  # type: ignore[no-any-return]


class DistributionalDQNLoss(LossModule):
    """Q-learning of distributions over fixed values: cross entropy with the projected distribution of targets.

    Bellemare et al., 2017 (arXiv:1707.06887), algorithm 1; the trained network chooses the action after the step, as in
    Rainbow (Hessel et al., 2018, arXiv:1710.02298). The loss of each step is written to the input as "td_error",
    (*batch, 1).

    Args:
        value_network: such as `DistributionalQValueActor`, whose "action_value" are log-probabilities (*batch, atoms,
            actions), over `value_network.support`.
        gamma: discount.
        delay_value: let target parameters follow by `SoftUpdate` or `HardUpdate`.
        priority_key: a key of `set_keys`.
        reduction: "mean" (default), "sum" or "none".
        use_prioritized_weights: see `LossModule`.
    """

    @dataclass
    class _AcceptedKeys:
        action_value: Any = "action_value"
        action: Any = "action"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        steps_to_next_obs: Any = "steps_to_next_obs"
        priority_weight: Any = "priority_weight"

    default_keys = _AcceptedKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (ValueEstimators.TD0,)
    _schedulable_buffers = frozenset({"gamma"})

    def __init__(
        self, value_network: Any, *, gamma: float, delay_value: bool = True, priority_key: str | None = None,
        reduction: str | None = None, use_prioritized_weights: str | bool = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_deprecated_ctor_keys(priority=priority_key)
        self.register_buffer("gamma", torch.tensor(float(gamma)))
        network = value_network
        self.convert_to_functional(network, "value_network", create_target_params=delay_value)
        self.delay_value = delay_value
        self.reduction = "mean" if reduction is None else reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.action_space = action_space_of(None, network, type(self).__name__)

    def make_value_estimator(self, value_type: Any = None, **hyperparams: Any) -> Any:
        """Change the discount; the target is that of one step (or of as many as a step stands for), always.

        Args:
            value_type: `ValueEstimators.TD0` or nothing.
            **hyperparams: `gamma`.

        Raises:
            NotImplementedError: another estimator.
        """
        if value_type is not None and value_type not in (ValueEstimators.TD0, "td0"):
            raise NotImplementedError(f"DistributionalDQNLoss looks one step ahead (TD0), not as {value_type} does.")
        if "gamma" in hyperparams:
            self.gamma.fill_(hyperparams["gamma"])
        self.value_type = ValueEstimators.TD0
        return self

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The loss of a batch.

        Args:
            tensordict: of one batch dimension. Where there is "steps_to_next_obs", gamma is raised to it. "td_error"
                (batch, 1) is written to it.

        Returns:
            "loss": one number, or (batch,) with `reduction="none"`.

        Raises:
            ValueError: the batch has not one dimension.
        """
        keys, network = self.tensor_keys, self.value_network
        if tensordict.ndim != 1:
            raise ValueError(f"The batch has size {tuple(tensordict.shape)}, expected one dimension; flatten it.")
        with self.value_network_params.to_module(network):
            values = network(tensordict.select(*network.in_keys, strict=False)).get(keys.action_value)
        log_probs = self._of(values, action_of(tensordict, keys.action))
        target = self._projected(tensordict, values.detach())
        loss = -(target * log_probs).sum(-1)
        tensordict.set(keys.priority, loss.detach().unsqueeze(-1), inplace=True)
        weights = self._maybe_get_priority_weight(tensordict)
        return TensorDict({"loss": self._reduce_loss(loss, tensordict, weights=weights)})

    def _of(self, values: Tensor, action: Tensor) -> Tensor:
        """The row of an action, (batch, atoms), of those of all, (batch, atoms, actions)."""
        index = action.argmax(-1) if self.action_space != "categorical" else action.reshape(values.shape[0])
        return values.gather(-1, index.view(-1, 1, 1).expand(-1, values.shape[-2], 1)).squeeze(-1)

    @torch.no_grad()
    def _projected(self, tensordict: TensorDictBase, values: Tensor) -> Tensor:
        """Probabilities, (batch, atoms), of rewards and discounted values after the step, on the support."""
        keys, network = self.tensor_keys, self.value_network
        support = network.support.to(values.device)
        following = tensordict.get("next").select(*network.in_keys, strict=False)
        with self.value_network_params.to_module(network):
            action = network(following.copy()).get(keys.action)
        with self.target_value_network_params.to_module(network):
            probs = self._of(network(following).get(keys.action_value), action).exp()
        reward = tensordict.get(after(keys.reward)).view(-1, 1)
        over = tensordict.get(after(keys.terminated), tensordict.get(after(keys.done))).view(-1, 1)
        steps = tensordict.get(keys.steps_to_next_obs, None)
        discount = self.gamma if steps is None else self.gamma ** steps.view(-1, 1)
        low, high, atoms = support[0], support[-1], support.numel()
        moved = (reward + discount * (~over).to(values.dtype) * support).clamp(low, high)
        # Where each value lies between atoms, counted in atoms: its probability goes to both neighbours, by nearness.
        place = (moved - low) / ((high - low) / (atoms - 1))
        nearness = 1 - (place.unsqueeze(1) - torch.arange(atoms, device=place.device).view(1, -1, 1)).abs()
        return (nearness.clamp_min(0) * probs.unsqueeze(1)).sum(-1)  # type: ignore[no-any-return]
