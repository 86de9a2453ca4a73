"""Mixers: the value of what all agents do, from the values of what each does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Mixer(nn.Module):
    """The root of mixers: checks and reshapes, and leaves the mixing to `mix`.

    Args:
        n_agents: number of agents.
        needs_state: whether a state of the whole environment is read, too.
        state_shape: of the state, without batch.
        device: of the parameters.
    """

    def __init__(self, n_agents: int, needs_state: bool, state_shape: Any, device: Any) -> None:
        super().__init__()
        self.n_agents, self.needs_state, self.state_shape, self.device = n_agents, needs_state, state_shape, device

    def forward(self, *inputs: Tensor) -> Tensor:
        """Mix.

        Args:
            inputs: values of the chosen actions (*batch, n_agents, 1), and the state (*batch, *state_shape) if one is
                needed.

        Returns:
            The value of all, (*batch, 1).

        Raises:
            ValueError: there are more or fewer inputs, or one has another shape.
        """
        expected = 2 if self.needs_state else 1
        if len(inputs) != expected:
            what = "the values and the state" if self.needs_state else "the values alone"
            raise ValueError(f"{type(self).__name__} takes {what}, got {len(inputs)} inputs.")
        values = inputs[0]
        if values.shape[-2:] != (self.n_agents, 1):
            raise ValueError(
                f"{type(self).__name__}: the values have shape {tuple(values.shape)}, expected "
                f"(..., {self.n_agents}, 1)."
            )
        state = inputs[1] if self.needs_state else None
        if state is not None and tuple(state.shape[-len(self.state_shape) :]) != tuple(self.state_shape):
            raise ValueError(
                f"{type(self).__name__}: the state has shape {tuple(state.shape)}, expected to end in "
                f"{tuple(self.state_shape)}."
            )
        return self.mix(values.squeeze(-1), state).unsqueeze(-1)

    def mix(self, chosen_action_value: Tensor, state: Any) -> Tensor:
        """Mix values (*batch, n_agents) -> (*batch,); a subclass says how."""
        raise NotImplementedError(f"{type(self).__name__} defines no mix(chosen_action_value, state).")


class VDNMixer(Mixer):
    """The sum of the values (Sunehag et al. 2018, arXiv:1706.05296).

    Args:
        n_agents: number of agents.
        device: kept as an attribute.
    """

    def __init__(self, n_agents: int, device: Any) -> None:
        super().__init__(n_agents, False, [], device)

    def mix(self, chosen_action_value: Tensor, state: Any) -> Tensor:
        """Add up (*batch, n_agents) -> (*batch,)."""
        return chosen_action_value.sum(-1)


class QMixer(Mixer):
    """A network monotonic in each value, whose weights depend on the state (Rashid et al. 2018, arXiv:1803.11485).

    Args:
        state_shape: of the state, without batch.
        mixing_embed_dim: E, size of the hidden layer.
        n_agents: number of agents.
        device: of the parameters.
    """

    def __init__(self, state_shape: Any, mixing_embed_dim: int, n_agents: int, device: Any) -> None:
        super().__init__(n_agents, True, state_shape, device)
        self.embed_dim, self.state_dim = mixing_embed_dim, int(torch.Size(state_shape).numel())
        self.hyper_w_1 = nn.Linear(self.state_dim, mixing_embed_dim * n_agents, device=device)
        self.hyper_w_final = nn.Linear(self.state_dim, mixing_embed_dim, device=device)
        self.hyper_b_1 = nn.Linear(self.state_dim, mixing_embed_dim, device=device)
        self.V = nn.Sequential(
            nn.Linear(self.state_dim, mixing_embed_dim, device=device),
            nn.ReLU(),
            nn.Linear(mixing_embed_dim, 1, device=device),
        )

    def mix(self, chosen_action_value: Tensor, state: Any) -> Tensor:
        """Mix values (*batch, n_agents) and states (*batch, *state_shape) -> (*batch,)."""
        flat = state.flatten(-len(self.state_shape)) if len(self.state_shape) else state.unsqueeze(-1)
        first = self.hyper_w_1(flat).abs().unflatten(-1, (self.n_agents, self.embed_dim))
        hidden = F.elu((chosen_action_value.unsqueeze(-2) @ first).squeeze(-2) + self.hyper_b_1(flat))
        last = self.hyper_w_final(flat).abs()
        mixed: Tensor = (hidden * last).sum(-1) + self.V(flat).squeeze(-1)
        return mixed
