"""Collections of tables for ids without bound, made of the tables' configurations alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import BaseEmbeddingConfig, EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.hash_mc_evictions import HashZchEvictionConfig, HashZchEvictionPolicyName
from flambeau.rec.modules.hash_mc_modules import HashZchManagedCollisionModule
from flambeau.rec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from flambeau.rec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    ManagedCollisionModule,
    MCHManagedCollisionModule,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = ["McEmbeddingBagCollectionAdapter", "McEmbeddingCollectionAdapter"]

_METHODS = ("sort_zch", "mpzch")


def _collisions(
    tables: Sequence[BaseEmbeddingConfig],
    method: str,
    input_hash_size: int,
    device: torch.device,
    eviction_interval: int,
    buckets: int | None,
    max_probe: int | None,
) -> ManagedCollisionCollection:
    if method not in _METHODS:
        raise OptionError(f"zch_method is {method!r}, expected one of {', '.join(map(repr, _METHODS))}.")
    modules: dict[str, ManagedCollisionModule] = {}
    for table in tables:
        if method == "sort_zch":
            modules[table.name] = MCHManagedCollisionModule(
                zch_size=table.num_embeddings,
                device=device,
                eviction_policy=DistanceLFU_EvictionPolicy(),
                eviction_interval=eviction_interval,
                input_hash_size=input_hash_size,
            )
        else:
            modules[table.name] = HashZchManagedCollisionModule(
                zch_size=table.num_embeddings,
                device=device,
                total_num_buckets=80 if buckets is None else buckets,
                max_probe=100 if max_probe is None else max_probe,
                input_hash_size=input_hash_size,
                eviction_policy_name=HashZchEvictionPolicyName.SINGLE_TTL_EVICTION,
                eviction_config=HashZchEvictionConfig(features=list(table.feature_names), single_ttl=1),
            )
    return ManagedCollisionCollection(modules, tables)


class McEmbeddingBagCollectionAdapter(nn.Module):
    """An `EmbeddingBagCollection` for ids without bound.

    Args:
        tables: the tables.
        input_hash_size: ids are below it.
        device: of everything.
        world_size: kept for programs that give it.
        eviction_interval: batches from one eviction to the next, with "sort_zch".
        allow_in_place_embed_weight_update: whether rows that change hands begin anew.
        zch_method: "sort_zch": see `MCHManagedCollisionModule`; "mpzch": see `HashZchManagedCollisionModule`.
        mpzch_num_buckets: parts of the rows of each table, with "mpzch".
        mpzch_max_probe: rows to look at for an id, with "mpzch".

    Raises:
        OptionError: another method.
    """

    def __init__(
        self,
        tables: list[EmbeddingBagConfig],
        input_hash_size: int,
        device: torch.device,
        world_size: int,
        eviction_interval: int = 1,
        allow_in_place_embed_weight_update: bool = False,
        zch_method: str = "",
        mpzch_num_buckets: int | None = 80,
        mpzch_max_probe: int | None = 100,
    ) -> None:
        super().__init__()
        collisions = _collisions(
            tables, zch_method, input_hash_size, device, eviction_interval, mpzch_num_buckets, mpzch_max_probe
        )
        self.mc_embedding_bag_collection = ManagedCollisionEmbeddingBagCollection(
            EmbeddingBagCollection(tables, device=device),
            collisions,
            allow_in_place_embed_weight_update=allow_in_place_embed_weight_update,
        )

    def forward(self, input_kjt: KeyedJaggedTensor) -> KeyedTensor | dict[str, JaggedTensor]:
        """Pooled embeddings; see `EmbeddingBagCollection.forward`."""
        pooled: KeyedTensor | dict[str, JaggedTensor] = self.mc_embedding_bag_collection(input_kjt)[0]
        return pooled

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Those of the tables."""
        return self.mc_embedding_bag_collection._embedding_module.parameters(recurse)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""
        module = self.mc_embedding_bag_collection._embedding_module
        assert isinstance(module, EmbeddingBagCollection)
        return module.embedding_bag_configs()


class McEmbeddingCollectionAdapter(nn.Module):
    """An `EmbeddingCollection` for ids without bound; see `McEmbeddingBagCollectionAdapter`."""

    def __init__(
        self,
        tables: list[EmbeddingConfig],
        input_hash_size: int,
        device: torch.device,
        world_size: int,
        eviction_interval: int = 1,
        allow_in_place_embed_weight_update: bool = False,
        zch_method: str = "",
        mpzch_num_buckets: int | None = 80,
        mpzch_max_probe: int | None = 100,
    ) -> None:
        super().__init__()
        collisions = _collisions(
            tables, zch_method, input_hash_size, device, eviction_interval, mpzch_num_buckets, mpzch_max_probe
        )
        self.mc_embedding_collection = ManagedCollisionEmbeddingCollection(
            EmbeddingCollection(tables, device=device),
            collisions,
            allow_in_place_embed_weight_update=allow_in_place_embed_weight_update,
        )

    def forward(self, input: KeyedJaggedTensor) -> KeyedTensor | dict[str, JaggedTensor]:
        """Embeddings of all ids; see `EmbeddingCollection.forward`."""
        found: KeyedTensor | dict[str, JaggedTensor] = self.mc_embedding_collection(input)[0]
        return found

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Those of the tables."""
        return self.mc_embedding_collection._embedding_module.parameters(recurse)

    def embedding_bag_configs(self) -> list[EmbeddingConfig]:
        """The tables."""
        module = self.mc_embedding_collection._embedding_module
        assert isinstance(module, EmbeddingCollection)
        return module.embedding_configs()
