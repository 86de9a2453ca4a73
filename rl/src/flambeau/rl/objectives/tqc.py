"""Soft actor-critic with critics of distributions, whose highest values are left out."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives.sac import SACLoss
from flambeau.rl.objectives.utils import ValueEstimators

__all__ = ["TQCLoss"]


class TQCLoss(SACLoss):
    """Truncated quantile critics (Kuznetsov et al., 2020, arXiv:2005.04269, equations 10 to 14).

    Each critic gives a number of atoms, quantiles of the return. Those of all target critics are pooled, the highest
    are left out, and each critic is trained towards the rest by the quantile Huber loss with threshold 1; the actor
    by the mean of all atoms.

    Args:
        actor_network: writes an action, and has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the atoms of an observation and an action, "state_action_value", `(*batch, atoms)`; or a
            list of such networks.
        num_qvalue_nets: how many critics there are.
        top_quantiles_to_drop_per_net: how many atoms for each critic are left out of the pool, in [0, atoms).
        alpha_init: the first temperature, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        action_spec: of the action; that of the actor unless given.
        fixed_alpha: do not train the temperature.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the action's elements.
        delay_qvalue: keep target parameters of the critics.
        separate_losses: what the actor and the critics share is trained by the actor's loss alone.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        skip_done_states: do not call networks on states after a trajectory's end, which count for nothing; for
            compiled code, use False.
        use_prioritized_weights: weigh the critics' errors by the entry "priority_weight": "auto" where there is one.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        What `SACLoss` returns. The priority is the mean absolute error of the critic that errs most.

    Raises:
        ValueError: fewer than 0 atoms, or all of them, are to be left out.
    """

    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = (ValueEstimators.TD0,)

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, num_qvalue_nets: int = 5,
        top_quantiles_to_drop_per_net: int = 2, alpha_init: float = 1.0, min_alpha: float | None = None,
        max_alpha: float | None = None, action_spec: Any = None, fixed_alpha: bool = False,
        target_entropy: str | float = "auto", delay_qvalue: bool = True, separate_losses: bool = False,
        reduction: str | None = None, deactivate_vmap: bool = False, skip_done_states: bool = False,
        use_prioritized_weights: str | bool = "auto", scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        if top_quantiles_to_drop_per_net < 0:
            raise ValueError(f"top_quantiles_to_drop_per_net is {top_quantiles_to_drop_per_net}, expected 0 or more.")
        super().__init__(
            actor_network, qvalue_network, num_qvalue_nets=num_qvalue_nets, alpha_init=alpha_init,
            min_alpha=min_alpha, max_alpha=max_alpha, action_spec=action_spec, fixed_alpha=fixed_alpha,
            target_entropy=target_entropy, delay_qvalue=delay_qvalue, separate_losses=separate_losses,
            reduction=reduction, deactivate_vmap=deactivate_vmap, skip_done_states=skip_done_states,
            use_prioritized_weights=use_prioritized_weights, scalar_output_mode=scalar_output_mode,
        )  # fmt: skip
        self.top_quantiles_to_drop_per_net = top_quantiles_to_drop_per_net

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How low the mean soft value of what the actor does is."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network")).mean((0, -1))
        return self._weighted(self._alpha() * log_prob - value, tensordict), {"log_prob": log_prob.detach()}

    def qvalue_v2_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics' atoms are from the pooled ones."""
        target = self.compute_target(tensordict)
        atoms = self._critic_values(tensordict, self.qvalue_network_params)
        # (critics, *batch, atoms, pooled)
        error = target.unsqueeze(-2) - atoms.unsqueeze(-1)
        distance = F.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")
        count = atoms.shape[-1]
        middle = (torch.arange(count, device=atoms.device, dtype=atoms.dtype) + 0.5) / count
        loss = ((middle.unsqueeze(-1) - (error.detach() < 0).to(atoms.dtype)).abs() * distance).mean((-1, -2)).sum(0)
        return self._weighted(loss, tensordict), {"td_error": error.detach().abs().mean((-1, -2)).max(0).values}

    @torch.no_grad()
    def compute_target(self, tensordict: TensorDictBase) -> Tensor:
        """The atoms to train towards.

        Args:
            tensordict: a batch of steps.

        Returns:
            (*batch, pooled atoms), ascending, without gradients.
        """
        data = self._following(tensordict, self.actor_network, self.qvalue_network)
        atoms = self._where_it_goes_on(self._pooled, data, tensordict)
        return self._target_of_atoms(tensordict, atoms)

    def _pooled(self, data: TensorDictBase) -> Tensor:
        log_prob = self._acted(data, self.actor_network_params)
        atoms = self._critic_values(data, self.target_qvalue_network_params)
        dropped = self.top_quantiles_to_drop_per_net * atoms.shape[0]
        pool = atoms.movedim(0, -2).flatten(-2).sort(-1).values
        if dropped >= pool.shape[-1]:
            raise ValueError(
                f"top_quantiles_to_drop_per_net is {self.top_quantiles_to_drop_per_net} of {atoms.shape[-1]} atoms, "
                "expected fewer."
            )
        return pool[..., : pool.shape[-1] - dropped] - self._alpha() * log_prob.unsqueeze(-1)

    def _target_of_atoms(self, tensordict: TensorDictBase, atoms: Tensor) -> Tensor:
        """The target of each atom: what is known of a step counts for all of them."""
        keys = self.value_estimator.tensor_keys
        names = [*map(after, (keys.reward, keys.done, keys.terminated)), keys.steps_to_next_obs]
        data = tensordict.select(*names, strict=False)
        for name in names:
            known = data.get(name, None)
            if known is not None:
                data.set(name, known.expand(*known.shape[:-1], atoms.shape[-1]))
        return self.value_estimator.value_estimate(data, next_value=atoms)  # type: ignore[no-any-return]
