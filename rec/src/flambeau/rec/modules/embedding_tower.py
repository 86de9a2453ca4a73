"""Tables and the layers over them that stay together when a model is divided among devices (Wu et al. 2022)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollectionInterface, EmbeddingCollectionInterface
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["EmbeddingTower", "EmbeddingTowerCollection", "tower_input_params"]


def tower_input_params(module: nn.Module) -> tuple[bool, bool]:
    """Whether a module takes features, and whether it takes weighted ones.

    A collection takes one of both, any other module both.
    """
    if isinstance(module, EmbeddingCollectionInterface):
        return True, False
    if isinstance(module, EmbeddingBagCollectionInterface):
        return not module.is_weighted(), module.is_weighted()
    return True, True


class EmbeddingTower(nn.Module):
    """Tables, and what is made of their embeddings.

    Args:
        embedding_module: looks up.
        interaction_module: makes a tensor of what it gives.
        device: where sharding puts them. Upstream: here they stay where they are.
    """

    def __init__(
        self, embedding_module: nn.Module, interaction_module: nn.Module, device: torch.device | None = None
    ) -> None:
        super().__init__()
        self.embedding = embedding_module
        self.interaction = interaction_module

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Look up what the arguments say, and pass it on."""
        result: Tensor = self.interaction(self.embedding(*args, **kwargs))
        return result


class EmbeddingTowerCollection(nn.Module):
    """Towers side by side.

    Args:
        towers: each takes features, weighted ones, or both.
        device: where sharding puts them. Upstream: here they stay where they are.
    """

    def __init__(self, towers: list[EmbeddingTower], device: torch.device | None = None) -> None:
        super().__init__()
        self.towers = nn.ModuleList(towers)
        self._input_params = [tower_input_params(tower.embedding) for tower in towers]

    def forward(
        self, features: KeyedJaggedTensor | None = None, weighted_features: KeyedJaggedTensor | None = None
    ) -> Tensor:
        """What all towers give, joined.

        Args:
            features: for towers that take them.
            weighted_features: for towers that take them.

        Returns:
            (B, columns of all towers).

        Raises:
            OptionError: features that a tower takes are not given.
        """
        if features is None and any(takes for takes, _ in self._input_params):
            raise OptionError("features is None, but towers take features.")
        if weighted_features is None and any(takes for _, takes in self._input_params):
            raise OptionError("weighted_features is None, but towers take weighted features.")
        outputs = []
        for tower, (plain, weighted) in zip(self.towers, self._input_params, strict=True):
            given = [features] * plain + [weighted_features] * weighted
            outputs.append(tower(*given))
        return torch.cat(outputs, dim=1)
