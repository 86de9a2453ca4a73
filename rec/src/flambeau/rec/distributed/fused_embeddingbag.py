"""Collections of pooled embeddings with an optimizer of their own, over several processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed._sharders import FusedEmbeddingBagCollectionSharder
from flambeau.rec.distributed.embeddingbag import ShardedEmbeddingBagCollection
from flambeau.rec.distributed.types import ParameterSharding, QuantizedCommCodecs, ShardingEnv
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.fused_embedding_modules import FusedEmbeddingBagCollection, convert_optimizer_type_and_kwargs

__all__ = ["FusedEmbeddingBagCollectionSharder", "ShardedFusedEmbeddingBagCollection"]


def own_optimizer(module: Any) -> dict[str, Any]:
    """The optimizer of a fused collection, as options of kernels."""
    kind, options = module.optimizer_type(), module.optimizer_kwargs()
    converted = convert_optimizer_type_and_kwargs(kind, options)
    if converted is None:
        raise OptionError(f"{kind} has no counterpart in the kernels of embeddings.")
    return {"optimizer": converted[0], **converted[1]}


class ShardedFusedEmbeddingBagCollection(ShardedEmbeddingBagCollection):
    """A `FusedEmbeddingBagCollection` whose tables are spread over processes, and trained as it trains them.

    Args:
        module: the collection.
        table_name_to_parameter_sharding: where each table goes.
        env: the processes.
        device: of this process.
        qcomm_codecs_registry: codecs of what is exchanged, by the name of a `CommOp`.
    """

    def __init__(
        self,
        module: FusedEmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, QuantizedCommCodecs] | None = None,
    ) -> None:
        super().__init__(
            module,
            table_name_to_parameter_sharding,
            env,
            own_optimizer(module),
            device,
            qcomm_codecs_registry=qcomm_codecs_registry,
        )

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`FusedEmbeddingBagCollection`."""
        return FusedEmbeddingBagCollection
