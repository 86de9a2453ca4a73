"""Chunks of actions by transformers, trained as variational autoencoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._imitation import ImitationLoss
from flambeau.rl.objectives._keys import each_once

__all__ = ["ACTLoss"]


class ACTLoss(ImitationLoss):
    """The loss of ACT (Zhao et al., 2023, arXiv:2304.13705, section IV.C).

    loss = mean(abs(predicted - recorded)) + kl_weight * KL(N(mu, exp(log_var)) || N(0, 1))

    Args:
        actor_network: reads "observation" and "action_chunk", (*batch, chunk, action), and writes "action_pred" of the
            same shape, and "mu" and "log_var" of what it encoded, (*batch, latent), such as `ACTModel`.
        kl_weight: how much the divergence counts.
        reduction: "mean", "sum" or "none".

    The recorded chunk is read from `("vla_action", "chunk")`.

    Returns of `forward`:
        "loss_act"; without gradients its parts "loss_reconstruction" and "loss_kl"; each one number a step with
        `reduction="none"`.
    """

    @dataclass
    class _AcceptedKeys:
        observation: Any = "observation"
        action_chunk: Any = ("vla_action", "chunk")
        action_pred: Any = "action_pred"
        mu: Any = "mu"
        log_var: Any = "log_var"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_act", "loss_reconstruction", "loss_kl"]
    _recorded = "action_chunk"

    def __init__(self, actor_network: Any, *, kl_weight: float = 10.0, reduction: str = "mean") -> None:
        super().__init__(actor_network, reduction)
        self.kl_weight = kl_weight

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(self._tensor_keys.observation, self._tensor_keys.action_chunk)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of steps; see the class."""
        chunk = self._target_action(tensordict)
        data = tensordict.select(*self.actor_network.in_keys, strict=False).set("action_chunk", chunk)
        data.set("observation", self._read(tensordict, "observation"))
        with self.actor_network_params.to_module(self.actor_network):
            written = self.actor_network(data)
        mean, log_var = self._read(written, "mu"), self._read(written, "log_var")
        reconstruction = (self._read(written, "action_pred") - chunk).abs().flatten(tensordict.ndim).mean(-1)
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1)
        found = {
            "loss_act": reconstruction + self.kl_weight * divergence,
            "loss_reconstruction": reconstruction.detach(),
            "loss_kl": divergence.detach(),
        }
        return self._results({name: self._reduce_loss(loss, tensordict) for name, loss in found.items()})
