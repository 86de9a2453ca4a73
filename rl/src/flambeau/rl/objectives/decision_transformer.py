"""Losses of decision transformers, which learn actions from recorded trajectories and what these returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._imitation import ImitationLoss
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives._temperature import TemperedLoss
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["DTLoss", "OnlineDTLoss"]


class DTLoss(ImitationLoss):
    """The decision transformer's loss (Chen et al., 2021, arXiv:2106.01345): how far recorded actions are from its own.

    Args:
        actor_network: writes an action, such as an actor with `DTActor` and `TanhDelta`.
        loss_function: "l1", "l2" or "smooth_l1".
        reduction: "mean" (default), "sum" or "none".
        device: not used, as the loss keeps nothing besides the actor's parameters.

    Returns of `forward`:
        "loss".
    """

    @dataclass
    class _AcceptedKeys:
        action_target: Any = "action"
        action_pred: Any = "action"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss"]
    _recorded = "action_target"

    def __init__(
        self, actor_network: Any, *, loss_function: str = "l2", reduction: str | None = None, device: Any = None
    ) -> None:
        super().__init__(actor_network, reduction)
        self.loss_function = loss_function

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of trajectories; see the class."""
        target = self._target_action(tensordict)
        predicted = self._acted(tensordict, self._tensor_keys.action_pred)
        loss = distance_loss(predicted, target, loss_function=self.loss_function)
        return self._results({"loss": self._reduce_loss(loss, tensordict)})


class OnlineDTLoss(TemperedLoss):
    """The online decision transformer's loss (Zheng et al., 2022, arXiv:2202.05607, equations 5 and 6).

    Recorded actions become more likely, and a temperature that is learnt keeps the policy's entropy above a target.

    Args:
        actor_network: has `get_dist`, such as an actor with `OnlineDTActor` and `TanhNormal`.
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        fixed_alpha: do not train the temperature.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the elements of the actor's action.
        samples_mc_entropy: how many actions are drawn to estimate an entropy that has no formula.
        reduction: "mean" (default), "sum" or "none".
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_log_likelihood", "loss_entropy", "loss_alpha"; "alpha" and "entropy" without gradients.
    """

    @dataclass
    class _AcceptedKeys:
        action_target: Any = "action"
        action_pred: Any = "action"

        @property
        def action(self) -> Any:
            """Where the actor's spec is asked for."""
            return self.action_pred

    default_keys = _AcceptedKeys
    default_value_estimator: Any = None
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = ()
    out_keys: Any = ["loss_log_likelihood", "loss_entropy", "loss_alpha", "alpha", "entropy"]
    _target_name = "target_entropy"
    _recorded = "action_target"
    _read, _target_action = ImitationLoss._read, ImitationLoss._target_action

    def __init__(
        self, actor_network: Any, *, alpha_init: float = 1.0, min_alpha: float | None = None,
        max_alpha: float | None = None, fixed_alpha: bool = False, target_entropy: str | float = "auto",
        samples_mc_entropy: int = 1, reduction: str | None = None, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self.samples_mc_entropy = samples_mc_entropy
        self.convert_to_functional(actor_network, "actor_network")
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, None)

    def _estimator_keys(self) -> dict[str, Any]:
        return {}

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradients."""
        return self._alpha()

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(self.actor_network.in_keys, self._tensor_keys.action_target)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of trajectories; see the class."""
        target = self._target_action(tensordict)
        dist = self._policy(tensordict.select(*self.actor_network.in_keys, strict=False), self.actor_network_params)
        log_likelihood, entropy = dist.log_prob(target), self.get_entropy_bonus(dist)
        losses = {
            "loss_log_likelihood": -log_likelihood,
            "loss_entropy": -self._alpha() * entropy,
            "loss_alpha": self.log_alpha.exp() * (entropy.detach() - self._entropy_to_meet()),
        }
        found = {name: self._reduce_loss(loss, tensordict) for name, loss in losses.items()}
        return self._results({**found, "entropy": entropy.detach().mean(), "alpha": self._alpha()}, tensordict)

    def get_entropy_bonus(self, dist: torch.distributions.Distribution) -> Tensor:
        """The entropy, by its formula, or estimated from a few draws.

        Args:
            dist: of actions.

        Returns:
            The batch shape of `dist`.
        """
        drawn = dist.rsample((self.samples_mc_entropy,))
        log_prob: Tensor = dist.log_prob(drawn)
        return -log_prob.mean(0)
