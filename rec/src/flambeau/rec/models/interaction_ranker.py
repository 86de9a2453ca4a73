"""A small DLRM that ranks items for users from the interactions alone; it ships with its weights in the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flambeau.core.weights import build_with_weights
from flambeau.rec.models._api import register_model
from flambeau.rec.models.dlrm import DLRM
from flambeau.rec.models.interaction_features import DENSE, SPARSE
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.weights.interaction_ranker import Interaction_Ranker_Weights

__all__ = ["InteractionRanker", "Interaction_Ranker_Weights", "interaction_ranker"]


class InteractionRanker(DLRM):
    """DLRM over the features of `interaction_features`: whether a user turns to an item next.

    Args:
        embedding_dim: columns of the tables.
        dense_arch_layer_sizes: columns of layers over dense features; the last is `embedding_dim`.
        over_arch_layer_sizes: columns of layers over the interactions; the last is 1.
        device: of the parameters.

    Shape:
        (B, 11) float32 and the ids of `SPARSE` -> (B, 1), logits.
    """

    def __init__(
        self,
        *,
        embedding_dim: int = 32,
        dense_arch_layer_sizes: Sequence[int] = (64, 32),
        over_arch_layer_sizes: Sequence[int] = (128, 64, 1),
        device: torch.device | None = None,
    ) -> None:
        tables = [
            EmbeddingBagConfig(
                name=f"t_{name}",
                feature_names=[name],
                num_embeddings=rows,
                embedding_dim=embedding_dim,
                pooling=PoolingType.MEAN,
            )
            for name, rows in SPARSE.items()
        ]
        super().__init__(
            EmbeddingBagCollection(tables, device=device),
            len(DENSE),
            list(dense_arch_layer_sizes),
            list(over_arch_layer_sizes),
            device,
        )


@register_model(task="item-ranking", tags=("embedded",))
def interaction_ranker(
    *, weights: Interaction_Ranker_Weights | None = None, progress: bool = True, **kwargs: Any
) -> InteractionRanker:
    """Ranks items for users from who had to do with what, whatever the users and items are.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: passed to `InteractionRanker`.
    """
    weights = Interaction_Ranker_Weights.verify(weights)
    return build_with_weights(InteractionRanker, weights, progress=progress, **kwargs)
