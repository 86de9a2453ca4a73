"""Collections of embeddings with an optimizer of their own, over several processes."""

from __future__ import annotations

import torch
from torch import nn

from flambeau.rec.distributed._sharders import FusedEmbeddingCollectionSharder
from flambeau.rec.distributed.embedding import ShardedEmbeddingCollection
from flambeau.rec.distributed.fused_embeddingbag import own_optimizer
from flambeau.rec.distributed.types import ParameterSharding, ShardingEnv
from flambeau.rec.modules.fused_embedding_modules import FusedEmbeddingCollection

__all__ = ["FusedEmbeddingCollectionSharder", "ShardedFusedEmbeddingCollection"]


class ShardedFusedEmbeddingCollection(ShardedEmbeddingCollection):
    """A `FusedEmbeddingCollection` whose tables are spread over processes, and trained as it trains them.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where each table goes.
        env: the processes.
        device: of this process.
    """

    def __init__(
        self,
        module: FusedEmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(module, table_name_to_parameter_sharding, env, own_optimizer(module), device)

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`FusedEmbeddingCollection`."""
        return FusedEmbeddingCollection
