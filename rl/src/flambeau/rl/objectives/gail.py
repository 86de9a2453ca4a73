"""Generative adversarial imitation: a discriminator learns to tell an expert's steps from an agent's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives.common import LossModule

__all__ = ["GAILLoss"]


class GAILLoss(LossModule):
    """The discriminator's loss of GAIL (Ho and Ermon, 2016, arXiv:1606.03476), the agent's reward being its output.

    loss = -log(D(expert)) - log(1 - D(agent))

    Args:
        discriminator_network: writes the probability that an observation and an action are an expert's, "d_logits",
            `(*batch, 1)` in (0, 1).
        use_grad_penalty: add how far gradients of the probability are from norm 1, at points between both kinds of
            steps (Gulrajani et al., 2017, arXiv:1704.00028).
        gp_lambda: how much that counts.
        reduction: "mean" (default), "sum" or "none".

    Returns of `forward`:
        "loss"; "gp_loss" without gradients, with `use_grad_penalty`.
    """

    @dataclass
    class _AcceptedKeys:
        expert_action: Any = "action"
        expert_observation: Any = "observation"
        collector_action: Any = "collector_action"
        collector_observation: Any = "collector_observation"
        discriminator_pred: Any = "d_logits"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss"]

    def __init__(
        self, discriminator_network: Any, *, use_grad_penalty: bool = False, gp_lambda: float = 10,
        reduction: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.reduction = "mean" if reduction is None else reduction
        self.loss_function = nn.BCELoss(reduction="none")
        self.use_grad_penalty, self.gp_lambda = use_grad_penalty, gp_lambda
        self.convert_to_functional(discriminator_network, "discriminator_network")
        if use_grad_penalty:
            self.out_keys = [*self.out_keys, "gp_loss"]

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        keys = self._tensor_keys
        return each_once(
            self.discriminator_network.in_keys, keys.expert_action, keys.expert_observation, keys.collector_action,
            keys.collector_observation,
        )  # fmt: skip

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of an expert's steps, and of as many of an agent's; see the class."""
        keys = self._tensor_keys
        expert = self._read(tensordict, keys.expert_observation, keys.expert_action)
        agent = self._read(tensordict, keys.collector_observation, keys.collector_action)
        both = [torch.cat(parts, 0) for parts in zip(expert, agent, strict=True)]
        of_expert, of_agent = self._probability(*both).chunk(2, 0)
        loss = self.loss_function(of_expert, torch.ones_like(of_expert))
        loss = loss + self.loss_function(of_agent, torch.zeros_like(of_agent))
        found = {}
        if self.use_grad_penalty:
            penalty = self._penalty(expert, agent)
            loss, found["gp_loss"] = loss + penalty, penalty.detach()
        return TensorDict(self._selected({"loss": self._reduce_loss(loss, tensordict), **found}))

    def _read(self, tensordict: TensorDictBase, observation: Any, action: Any) -> tuple[Tensor, Tensor]:
        found = [tensordict.get(key, None) for key in (observation, action)]
        for key, value in zip((observation, action), found, strict=True):
            if value is None:
                raise KeyError(
                    f"{key!r} is missing; set_keys renames it. There are {sorted(map(str, tensordict.keys(True)))}."
                )
        return found[0], found[1].to(found[0].dtype)

    def _probability(self, observation: Tensor, action: Tensor) -> Tensor:
        keys = self._tensor_keys
        data = TensorDict({keys.expert_observation: observation, keys.expert_action: action}, observation.shape[:1])
        with self.discriminator_network_params.to_module(self.discriminator_network):
            return self.discriminator_network(data).get(keys.discriminator_pred)  # type: ignore[no-any-return]

    def _penalty(self, expert: tuple[Tensor, Tensor], agent: tuple[Tensor, Tensor]) -> Tensor:
        between = []
        for one, other in zip(expert, agent, strict=True):
            share = torch.rand(other.shape, dtype=other.dtype, device=other.device)
            between.append((share * other + (1 - share) * one).detach().requires_grad_())
        with torch.enable_grad():
            probability = self._probability(*between)
            slopes = torch.autograd.grad(probability.sum(), between, create_graph=True)
        norm = torch.cat(slopes, -1).norm(dim=-1)
        return self.gp_lambda * (norm - 1).square().mean()  # type: ignore[no-any-return]
