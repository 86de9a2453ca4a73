"""Exploration by noise that depends on the state (Raffin et al. 2022, arXiv:2005.05719)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributions as D
from torch.nn import functional as F
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flambeau.data.tensordict.nn.probabilistic import InteractionType, interaction_type
from flambeau.data.tensordict.nn.utils import inv_softplus


class gSDEModule(nn.Module):
    """Add noise to actions that is a random linear function of the state, the same until the noise is reset.

    Args:
        action_dim, state_dim: A and S, sizes of actions and states.
        sigma_init: the deviation of each of the A x S coefficients, if it is not learned; as a rule such that the
            deviation of an action is about 1. Upstream: if it is learned, it is softplus(0) at first, whatever this is.
        scale_min, scale_max: bounds of the deviations.
        learn_sigma: make them a parameter.
        transform: applied to the noisy action, such as a tanh.
        device: of the parameters.

    Raises:
        ValueError: there is no positive deviation that is at least `scale_min`.
    """

    _sigma: Tensor
    sigma_init: Tensor

    def __init__(
        self,
        action_dim: int,
        state_dim: int,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: D.Transform | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.action_dim, self.state_dim = action_dim, state_dim
        self.scale_min, self.scale_max, self.learn_sigma = scale_min, scale_max, learn_sigma
        self.transform = transform
        if sigma_init is None:
            if scale_min >= 1:
                raise ValueError(f"gSDEModule: scale_min is {scale_min}; give sigma_init, or a bound below 1.")
            sigma_init = math.sqrt((1.0 - scale_min) / state_dim)
            sigma_init = float(inv_softplus(sigma_init)) if learn_sigma else sigma_init
        if learn_sigma:
            self.log_sigma = nn.Parameter(torch.zeros(action_dim, state_dim, device=device))
        else:
            self.register_buffer("_sigma", torch.full((action_dim, state_dim), sigma_init, device=device))
        self.register_buffer("sigma_init", torch.tensor(sigma_init, device=device))

    @property
    def sigma(self) -> Tensor:
        """The deviations of the coefficients, (A, S)."""
        sigma: Tensor = F.softplus(self.log_sigma) if self.learn_sigma else self._sigma
        return sigma.clamp_min(self.scale_min)

    def forward(self, mu: Tensor, state: Tensor, _eps_gSDE: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Add noise.

        Args:
            mu: (*batch, A), actions without noise.
            state: (*batch, S).
            _eps_gSDE: (*batch, A, S), the noise in use; of another shape, or 0 everywhere, to draw another.

        Returns:
            `mu`, the deviations of the actions (*batch, A), the actions, and the noise in use.

        Raises:
            RuntimeError: the exploration type is neither RANDOM nor one that stands for no noise.
        """
        sigma = self.sigma.clamp_max(self.scale_max)
        noise = self._noise(mu, state, _eps_gSDE)
        scale = (sigma * state.unsqueeze(-2)).square().sum(-1).clamp_min(1e-14).sqrt()
        kind = interaction_type()
        if kind is InteractionType.RANDOM:
            action = mu + (sigma * noise * state.unsqueeze(-2)).sum(-1)
        elif kind is not None:
            action = mu
        else:
            raise RuntimeError(
                "gSDEModule: no exploration type is set. Use set_exploration_type(ExplorationType.RANDOM) for noise, "
                "or ExplorationType.MODE for none."
            )
        if self.transform is not None:
            action = self.transform(action)
        return mu, scale, action, noise

    def _noise(self, mu: Tensor, state: Tensor, noise: Tensor | None) -> Tensor:
        shape = torch.Size([*mu.shape, state.shape[-1]])
        if noise is None or noise.shape != shape or not bool(noise.any()):
            return torch.randn(shape, device=mu.device, dtype=mu.dtype)
        return noise


class LazygSDEModule(LazyModuleMixin, gSDEModule):
    """A `gSDEModule` that takes sizes, and deviations that fit the sizes of states, from its first call.

    Args:
        sigma_init, scale_min, scale_max, learn_sigma, transform, device: see `gSDEModule`. The deviation of an action
            is about `sigma_init`, 1 unless given, for states as large as those of the first call.
    """

    cls_to_become = gSDEModule

    def __init__(
        self,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: D.Transform | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(0, 0, 0.0, scale_min, scale_max, learn_sigma, transform, device)
        self._sigma_init = 1.0 if sigma_init is None else sigma_init
        options: dict[str, Any] = {"device": device}
        if learn_sigma:
            self.__setattr__("log_sigma", UninitializedParameter(**options))
        else:
            self.register_buffer("_sigma", UninitializedBuffer(**options))
        self.register_buffer("sigma_init", UninitializedBuffer(**options))

    def reset_parameters(self) -> None:
        """Nothing: the values come from the first call."""

    def initialize_parameters(self, mu: Tensor, state: Tensor, _eps_gSDE: Tensor) -> None:
        """Make the deviations for actions (*batch, A) and states (*batch, S)."""
        if not self.has_uninitialized_params():
            return
        with torch.no_grad():
            self.action_dim, self.state_dim = mu.shape[-1], state.shape[-1]
            # A single state says little about the size of states.
            mean_square = state.flatten(0, -2).square().mean(0) if state.ndim > 1 else state.new_ones(1)
            sigma = self._sigma_init * (mean_square * self.state_dim).clamp_min(1e-12).rsqrt()
            value = inv_softplus(sigma) if self.learn_sigma else sigma
            assert isinstance(value, Tensor)
            first: Any = self.sigma_init
            first.materialize(value.shape)
            first.copy_(value)
            target: Any = self.log_sigma if self.learn_sigma else self._sigma
            target.materialize((self.action_dim, self.state_dim))
            target.copy_(value.expand_as(target))
