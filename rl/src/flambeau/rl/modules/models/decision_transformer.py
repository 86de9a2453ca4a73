"""A transformer over returns, observations and actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._gpt import Trunk

__all__ = ["DecisionTransformer"]


class DecisionTransformer(nn.Module):
    """A causal transformer over sequences of return, observation, action (Chen et al. 2021, arXiv:2106.01345).

    Parameters have the names of GPT-2's; it needs no other package.

    Args:
        state_dim: size of observations.
        action_dim: size of actions.
        config: a `DTConfig`, or a dictionary of its fields.
        device: of the parameters.
    """

    @dataclass
    class DTConfig:
        """Sizes of the transformer."""

        n_embd: Any = 256
        n_layer: Any = 4
        n_head: Any = 4
        n_inner: Any = 1024
        activation: Any = "relu"
        n_positions: Any = 1024
        resid_pdrop: Any = 0.1
        attn_pdrop: Any = 0.1

        def __repr__(self) -> str:
            fields = ", ".join(f"{name}: {value}" for name, value in asdict(self).items())
            return f"DTConfig({fields})"

    @classmethod
    def default_config(cls) -> DTConfig:
        """The sizes that are used unless others are given."""
        return cls.DTConfig()

    def __init__(
        self, state_dim: int, action_dim: int, config: dict[str, Any] | DTConfig | None = None, device: Any = None
    ) -> None:
        super().__init__()
        if config is None:
            config = self.default_config()
        elif isinstance(config, dict):
            config = self.DTConfig(**config)
        self.state_dim, self.action_dim, self.hidden_size = state_dim, action_dim, config.n_embd
        width = config.n_embd
        self.transformer = Trunk(config)
        self.embed_return = nn.Linear(1, width)
        self.embed_state = nn.Linear(state_dim, width)
        self.embed_action = nn.Linear(action_dim, width)
        self.embed_ln = nn.LayerNorm(width)
        if device is not None:
            self.to(device)

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> Tensor:
        """Hidden states by which to predict actions.

        Args:
            observation: (*batch, T, state_dim).
            action: (*batch, T, action_dim).
            return_to_go: (*batch, T, 1).

        Returns:
            (*batch, T, n_embd), each from returns and observations up to its step, and the actions before it.
        """
        parts = [self.embed_return(return_to_go), self.embed_state(observation), self.embed_action(action)]
        stacked = torch.stack(parts, -2)
        batch, (steps, kinds, width) = stacked.shape[:-3], stacked.shape[-3:]
        x = self.embed_ln(stacked.reshape(-1, steps * kinds, width))
        hidden = self.transformer(x).view(*batch, steps, kinds, width)
        out: Tensor = hidden[..., 1, :]
        return out
