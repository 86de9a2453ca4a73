"""Actors on decision transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flambeau.rl.modules.models.decision_transformer import DecisionTransformer


def _config() -> DecisionTransformer.DTConfig:
    return DecisionTransformer.DTConfig(n_embd=512, n_inner=2048)


class DTActor(nn.Module):
    """Deterministic actions of a decision transformer (Chen et al. 2021, arXiv:2106.01345).

    Args:
        state_dim: size of observations.
        action_dim: size of actions.
        transformer_config: a `DecisionTransformer.DTConfig`, or a dictionary of its fields; `default_config()` unless
            given.
        device: of the parameters.
    """

    def __init__(self, state_dim: int, action_dim: int, transformer_config: Any = None, device: Any = None) -> None:
        super().__init__()
        config = self.default_config() if transformer_config is None else transformer_config
        self.transformer = DecisionTransformer(state_dim, action_dim, config, device)
        self.action_layer = nn.Linear(self.transformer.hidden_size, action_dim, device=device)
        nn.init.orthogonal_(self.action_layer.weight)
        nn.init.zeros_(self.action_layer.bias)

    @classmethod
    def default_config(cls) -> DecisionTransformer.DTConfig:
        """The sizes that are used unless others are given."""
        return _config()

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> Tensor:
        """Observations (*batch, T, state_dim), actions and returns to go -> actions (*batch, T, action_dim)."""
        out: Tensor = self.action_layer(self.transformer(observation, action, return_to_go))
        return out


class OnlineDTActor(nn.Module):
    """Means and standard deviations of actions of a decision transformer (Zheng et al. 2022, arXiv:2202.05607).

    Args:
        state_dim, action_dim, transformer_config, device: see `DTActor`.
    """

    def __init__(self, state_dim: int, action_dim: int, transformer_config: Any = None, device: Any = None) -> None:
        super().__init__()
        config = self.default_config() if transformer_config is None else transformer_config
        self.transformer = DecisionTransformer(state_dim, action_dim, config, device)
        self.action_layer_mean = nn.Linear(self.transformer.hidden_size, action_dim, device=device)
        self.action_layer_logstd = nn.Linear(self.transformer.hidden_size, action_dim, device=device)
        self.log_std_min, self.log_std_max = -5.0, 2.0
        for layer in (self.action_layer_mean, self.action_layer_logstd):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)

    @classmethod
    def default_config(cls) -> DecisionTransformer.DTConfig:
        """The sizes that are used unless others are given."""
        return _config()

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> tuple[Tensor, Tensor]:
        """Observations (*batch, T, state_dim), actions, returns to go -> means, deviations (*batch, T, action_dim)."""
        hidden = self.transformer(observation, action, return_to_go)
        squashed = (self.action_layer_logstd(hidden).tanh() + 1) / 2
        log_std = self.log_std_min + (self.log_std_max - self.log_std_min) * squashed
        return self.action_layer_mean(hidden), log_std.exp()
