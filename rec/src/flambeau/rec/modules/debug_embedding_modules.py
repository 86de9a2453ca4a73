"""Collections that can check what they are given."""

from __future__ import annotations

import torch
from torch import nn

from flambeau.rec.modules.embedding_configs import BaseEmbeddingConfig, EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = ["DebugEmbeddingBagCollection", "DebugEmbeddingCollection"]


def _check(tables: list[BaseEmbeddingConfig], features: KeyedJaggedTensor) -> None:
    for table in tables:
        for name in table.feature_names:
            ids = features[name].values()
            if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < table.num_embeddings:
                raise ValueError(
                    f"feature {name!r} has ids from {int(ids.min())} to {int(ids.max())}, expected 0 to "
                    f"{table.num_embeddings - 1}: the table {table.name!r} has {table.num_embeddings} rows."
                )


class DebugEmbeddingBagCollection(nn.Module):
    """An `EmbeddingBagCollection` that says which feature has ids outside of its table, on every device.

    Args:
        tables: see there.
        device: of the tables.
        debug_mode: whether ids are checked, which makes an accelerator wait.
    """

    def __init__(self, tables: list[EmbeddingBagConfig], device: torch.device, debug_mode: bool = False) -> None:
        super().__init__()
        self.debug_mode = debug_mode
        self.ebc = EmbeddingBagCollection(tables=tables, device=device)

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Look up and pool.

        Raises:
            ValueError: ids outside of their table, if they are checked.
        """
        if self.debug_mode:
            _check(list(self.ebc.embedding_bag_configs()), features)
        pooled: KeyedTensor = self.ebc(features)
        return pooled


class DebugEmbeddingCollection(nn.Module):
    """An `EmbeddingCollection` that says which feature has ids outside of its table, on every device.

    Args:
        tables: see there.
        device: of the tables.
        debug_mode: whether ids are checked, which makes an accelerator wait.
    """

    def __init__(self, tables: list[EmbeddingConfig], device: torch.device, debug_mode: bool = False) -> None:
        super().__init__()
        self.debug_mode = debug_mode
        self.ec = EmbeddingCollection(tables=tables, device=device)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Look up.

        Raises:
            ValueError: ids outside of their table, if they are checked.
        """
        if self.debug_mode:
            _check(list(self.ec.embedding_configs()), features)
        found: dict[str, JaggedTensor] = self.ec(features)
        return found
