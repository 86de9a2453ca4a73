"""Conservative Q-learning for choices among a number of actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._keys import action_of
from flambeau.rl.objectives.dqn import DQNLoss
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["DiscreteCQLLoss"]


class DiscreteCQLLoss(DQNLoss):
    """Conservative Q-learning for choices (Kumar et al., 2020, arXiv:2006.04779, equation 4).

    "loss_qvalue" is half the loss of `DQNLoss`, with targets of the trained network; "loss_cql",
    `log(sum(exp(q(s, b)))) - q(s, a)`, keeps values of actions low that were not taken.

    Args:
        value_network: such as `QValueActor`; a plain network becomes one that reads "observation".
        loss_function: "l2", "l1" or "smooth_l1".
        delay_value: keep target parameters, which `SoftUpdate` or `HardUpdate` move; no loss depends on them.
        gamma: an argument of `make_value_estimator`.
        action_space: "one-hot", "mult-one-hot", "binary", "categorical", or the spec of actions; that of the network by
            default.
        reduction: "mean" (default), "sum" or "none".

    Returns of `forward`:
        "loss_qvalue", "loss_cql"; without gradients the means "td_error", "pred_value" and "target_value". The input
        gets "td_error", `(*batch, 1)`, squared errors, and "pred_val", the values of all actions.

    Raises:
        ValueError: no action space is known.
        TypeError: `gamma` is given.
    """

    @dataclass
    class _AcceptedKeys:
        value_target: Any = "value_target"
        value: Any = "chosen_action_value"
        action_value: Any = "action_value"
        action: Any = "action"
        priority: Any = "td_error"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        pred_val: Any = "pred_val"

    default_keys: Any = _AcceptedKeys
    out_keys: Any = ["loss_qvalue", "loss_cql"]

    def __init__(
        self, value_network: Any, *, loss_function: str | None = "l2", delay_value: bool = True,
        gamma: float | None = None, action_space: Any = None, reduction: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            value_network, loss_function=loss_function, delay_value=delay_value, gamma=gamma, action_space=action_space,
            reduction=reduction,
        )  # fmt: skip

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_qvalue, metadata = self.value_loss(tensordict)
        loss_cql, _ = self.cql_loss(tensordict)
        return TensorDict(self._selected({"loss_qvalue": loss_qvalue, "loss_cql": loss_cql, **metadata}))

    @dispatch  # type: ignore[untyped-decorator]
    def value_loss(self, tensordict: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the value of what was done is from its target, and the means of both."""
        keys = self.tensor_keys
        values = self._values(tensordict)
        chosen = self._of(values, action_of(tensordict, keys.action))
        target = self._target(tensordict).squeeze(-1)
        error = (chosen - target).square().detach().unsqueeze(-1)
        tensordict.set(keys.priority, error, inplace=True)
        loss = 0.5 * distance_loss(chosen, target, loss_function=self.loss_function)
        means = {
            "td_error": error.mean(0),
            "pred_value": values.detach().mean(),
            "target_value": target.mean(),
        }
        return self._reduce_loss(loss, tensordict), means

    def cql_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How much higher other actions are valued than those that were taken."""
        found = tensordict.get(self.tensor_keys.pred_val, None)
        values = self._values(tensordict) if found is None else found
        chosen = self._of(values, action_of(tensordict, self.tensor_keys.action))
        return self._reduce_loss(torch.logsumexp(values, -1) - chosen, tensordict), {}

    def _target(self, tensordict: TensorDictBase) -> Tensor:
        # Upstream: of the trained network, with and without a delayed one.
        params = self.value_network_params.data
        return self.value_estimator.value_estimate(tensordict.copy(), target_params=params)  # type: ignore[no-any-return]

    def _values(self, tensordict: TensorDictBase) -> Tensor:
        """The values of all actions, which the batch keeps."""
        network = self.value_network
        inputs = tensordict.select(*network.in_keys, strict=False)
        with self.value_network_params.to_module(network):
            values: Tensor = network(inputs).get(self.tensor_keys.action_value)
        tensordict.set(self.tensor_keys.pred_val, values)
        return values
