"""The temperature by which the entropy of a policy counts, learned so that the entropy meets a target.

Haarnoja et al., 2018 (arXiv:1812.05905), section 5.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn import InteractionType, set_interaction_type
from flambeau.rl.modules.distributions.utils import rsample_and_log_prob
from flambeau.rl.objectives._critics import ScalarOutputs, action_spec_of
from flambeau.rl.objectives._keys import after
from flambeau.rl.objectives._reductions import _sum_td_features

__all__ = ["TemperedLoss", "compute_rsample_log_prob"]

# Where there is a least temperature but no largest; it is part of a loss's state.
_LARGEST_ALPHA = 1e9


def compute_rsample_log_prob(action_dist: Any) -> tuple[Any, Tensor]:
    """Draw an action that gradients pass through, and its log-probability.

    Args:
        action_dist: a distribution; of a `CompositeDistribution` the parts' log-probabilities are added up.

    Returns:
        The action (of several a tensordict), and the log-probability, `batch`.
    """
    action, log_prob = rsample_and_log_prob(action_dist)
    return action, log_prob if isinstance(log_prob, Tensor) else _sum_td_features(log_prob)


class TemperedLoss(ScalarOutputs):
    """The part of a loss that learns a temperature."""

    _target_name = "_target_entropy"
    skip_done_states = False
    actor_network_params: Any
    log_alpha: Tensor
    min_log_alpha: Tensor | None
    max_log_alpha: Tensor | None

    def _convert_temperature(
        self, alpha_init: float, min_alpha: float | None, max_alpha: float | None, fixed_alpha: bool, target: Any,
        action_spec: Any,
    ) -> None:  # fmt: skip
        """Register the temperature, its limits, and the entropy to meet: a number, or "auto"."""
        device = self._default_device
        self.register_buffer("alpha_init", torch.tensor(alpha_init, device=device))
        if min_alpha and not max_alpha:
            max_alpha = _LARGEST_ALPHA
        for name, limit in (("min_log_alpha", min_alpha), ("max_log_alpha", max_alpha)):
            if limit:
                self.register_buffer(name, torch.tensor(limit, device=device).log())
            else:
                setattr(self, name, None)
        self.fixed_alpha = fixed_alpha
        log_alpha = torch.tensor(math.log(alpha_init), device=device)
        if fixed_alpha:
            self.register_buffer("log_alpha", log_alpha)
        else:
            self.register_parameter("log_alpha", nn.Parameter(log_alpha))
        self._asked_entropy, self._action_spec = target, action_spec
        if not isinstance(target, str):
            self.register_buffer(self._target_name, torch.as_tensor(target, device=device))
        elif target != "auto":
            raise ValueError(f"target_entropy is {target!r}, expected a number or 'auto'.")
        else:
            self._set_entropy_of_spec()

    def _set_entropy_of_spec(self) -> None:
        """Register minus the number of the action's elements, where a spec is known under the action's key."""
        spec, key = self._action_spec, self._tensor_keys.action
        if spec is None:
            spec = getattr(self.actor_network, "spec", None)
        if hasattr(spec, "keys") and key not in spec.keys(True):
            return
        of_action = action_spec_of(spec, key)
        if of_action is not None:
            target = -float(math.prod(of_action.shape))
            self.register_buffer(self._target_name, torch.tensor(target, device=self.log_alpha.device))

    def _entropy_to_meet(self) -> Tensor:
        """The entropy that the temperature is to keep, without dimensions.

        Raises:
            RuntimeError: it is "auto", and nothing says how many actions there are.
        """
        if self._buffers.get(self._target_name) is None:
            self._set_entropy_of_spec()  # the action's key may be another one by now
        found = self._buffers.get(self._target_name)
        if found is None:
            raise RuntimeError(
                "target_entropy='auto' needs to know the shape of actions: give the loss an action_spec, or the actor "
                f"a spec, with the action's key {self._tensor_keys.action!r}; or say target_entropy as a number."
            )
        return found  # type: ignore[no-any-return]

    def _alpha(self) -> Tensor:
        """The temperature, after what is learned was brought back between its limits."""
        if self.min_log_alpha is not None or self.max_log_alpha is not None:
            self.log_alpha.data.clamp_(self.min_log_alpha, self.max_log_alpha)
        return self.log_alpha.detach().exp()

    def _where_it_goes_on(self, value_of: Any, data: Any, tensordict: Any) -> Tensor:
        """The values of states after steps, (*batch, values), which are 0 after ends if these are to be skipped."""
        if not self.skip_done_states:
            return value_of(data)  # type: ignore[no-any-return]
        done = tensordict.get(after(self._tensor_keys.done))
        going = ~done.flatten(data.ndim).any(-1) if done.dim() > data.ndim else ~done
        value = value_of(data[going])
        spread = value.new_zeros(*going.shape, value.shape[-1])
        return spread.masked_scatter(going.unsqueeze(-1), value)  # type: ignore[no-any-return]

    def _policy(self, data: Any, params: Any) -> Any:
        """The distribution of actions."""
        with set_interaction_type(InteractionType.RANDOM), params.to_module(self.actor_network):
            return self.actor_network.get_dist(data)

    def _acted(self, data: Any, params: Any) -> Tensor:
        """Draw actions, write them into `data`, and give their log-probabilities."""
        action, log_prob = compute_rsample_log_prob(self._policy(data, params))
        if isinstance(action, Tensor):
            data.set(self._tensor_keys.action, action)
        else:
            data.update(action)
        return log_prob

    def _loss_of_temperature(self, log_prob: Tensor) -> Tensor:
        return -self.log_alpha * (log_prob.detach() + self._entropy_to_meet())
