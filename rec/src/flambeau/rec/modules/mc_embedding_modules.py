"""Collections of tables whose ids are mapped to rows first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.mc_modules import ManagedCollisionCollection
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = [
    "BaseManagedCollisionEmbeddingCollection",
    "ManagedCollisionEmbeddingBagCollection",
    "ManagedCollisionEmbeddingCollection",
    "evict",
    "return_custom_metadata",
    "return_remapped_lengths_as_mask",
]


@torch.no_grad()
def evict(evictions: dict[str, Tensor | None], ebc: nn.Module) -> None:
    """Begin rows anew that changed hands, as the configuration of their table says.

    Args:
        evictions: of each table, its rows; or None.
        ebc: the collection; other modules, which do so themselves, are left alone.
    """
    if isinstance(ebc, EmbeddingBagCollection):
        tables, modules = list(ebc.embedding_bag_configs()), ebc.embedding_bags
    elif isinstance(ebc, EmbeddingCollection):
        tables, modules = list(ebc.embedding_configs()), ebc.embeddings  # type: ignore[arg-type]
    else:
        return
    for table in tables:
        rows = evictions.get(table.name)
        if rows is None or not rows.numel():
            continue
        weight = modules[table.name].weight
        assert isinstance(weight, Tensor)
        assert table.init_fn is not None
        fresh = torch.empty(len(rows), table.embedding_dim, dtype=weight.dtype, device=weight.device)
        table.init_fn(fresh)
        weight.data[rows] = fresh


def return_remapped_lengths_as_mask(features: KeyedJaggedTensor) -> Tensor:
    """Which bags have ids.

    Args:
        features: rows, as `ManagedCollisionCollection` gives them.

    Returns:
        (bags,) bool.
    """
    return features.lengths() > 0


def return_custom_metadata(runtime_meta: Tensor) -> Tensor:
    """What was noted of rows, as it is: a place where graphs can be cut."""
    return runtime_meta


class BaseManagedCollisionEmbeddingCollection(nn.Module):
    """Ids are mapped to rows, and those looked up.

    Args:
        embedding_module: looks up.
        managed_collision_collection: maps, for the same tables.
        return_remapped_features: whether rows are given beside their embeddings.
        allow_in_place_embed_weight_update: whether rows that change hands begin anew.

    Raises:
        OptionError: the tables are not the same.
    """

    def __init__(
        self,
        embedding_module: EmbeddingBagCollection | EmbeddingCollection,
        managed_collision_collection: ManagedCollisionCollection,
        return_remapped_features: bool = False,
        allow_in_place_embed_weight_update: bool = False,
    ) -> None:
        super().__init__()
        self._managed_collision_collection = managed_collision_collection
        self._return_remapped_features = return_remapped_features
        self._allow_in_place_embed_weight_update = allow_in_place_embed_weight_update
        self._embedding_module = embedding_module
        bags = isinstance(embedding_module, EmbeddingBagCollection)
        tables = embedding_module.embedding_bag_configs() if bags else embedding_module.embedding_configs()  # type: ignore[operator]
        if list(tables) != list(managed_collision_collection.embedding_configs()):
            looked_up = [table.name for table in tables]
            mapped = [table.name for table in managed_collision_collection.embedding_configs()]
            raise OptionError(
                f"the collection looks up {looked_up} and collisions are managed of {mapped}; give both "
                "the same configurations."
            )

    def forward(
        self, features: KeyedJaggedTensor, mutate_miss_lengths: bool = True
    ) -> tuple[KeyedTensor | dict[str, JaggedTensor], KeyedJaggedTensor | None]:
        """Map and look up.

        Args:
            features: ids of all features of the tables.
            mutate_miss_lengths: whether ids that have no row are left out of their bags, by modules that do so.

        Returns:
            The embeddings; and the rows, or None.
        """
        rows = self._managed_collision_collection(features, mutate_miss_lengths)
        evictions = self._managed_collision_collection.evict()
        if self._allow_in_place_embed_weight_update:
            evict(evictions, self._embedding_module)
        return self._embedding_module(rows), rows if self._return_remapped_features else None

    @torch.no_grad()
    def lookup_remapped_lengths_mask(self, features: KeyedJaggedTensor) -> Tensor:
        """Which bags have ids that have rows, without learning from them.

        Returns:
            (bags,) bool.
        """
        return return_remapped_lengths_as_mask(self._mapped(features))

    @torch.no_grad()
    def lookup_remapped_lengths_mask_and_runtime_meta(self, features: KeyedJaggedTensor) -> tuple[Tensor, Tensor]:
        """`lookup_remapped_lengths_mask`, and what modules were told to note of the rows."""
        rows = self._mapped(features)
        noted = self._managed_collision_collection.lookup_custom_runtime_meta(rows)
        return return_remapped_lengths_as_mask(rows), return_custom_metadata(noted)

    def _mapped(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        collection = self._managed_collision_collection
        modes = {module: module.training for module in collection.modules()}
        try:
            collection.eval()
            rows: KeyedJaggedTensor = collection(features)
        finally:
            for module, training in modes.items():
                module.training = training
        return rows


class ManagedCollisionEmbeddingCollection(BaseManagedCollisionEmbeddingCollection):
    """An `EmbeddingCollection` behind a mapping of ids to rows.

    Args:
        embedding_collection: looks up.
        managed_collision_collection: maps, for the same tables.
        return_remapped_features: whether rows are given beside their embeddings.
        allow_in_place_embed_weight_update: whether rows that change hands begin anew.
    """

    def __init__(
        self,
        embedding_collection: EmbeddingCollection,
        managed_collision_collection: ManagedCollisionCollection,
        return_remapped_features: bool = False,
        allow_in_place_embed_weight_update: bool = False,
    ) -> None:
        super().__init__(
            embedding_collection, managed_collision_collection, return_remapped_features,
            allow_in_place_embed_weight_update,
        )  # fmt: skip


class ManagedCollisionEmbeddingBagCollection(BaseManagedCollisionEmbeddingCollection):
    """An `EmbeddingBagCollection` behind a mapping of ids to rows.

    Args:
        embedding_bag_collection: looks up and pools.
        managed_collision_collection: maps, for the same tables.
        return_remapped_features: whether rows are given beside their embeddings.
        allow_in_place_embed_weight_update: whether rows that change hands begin anew.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        managed_collision_collection: ManagedCollisionCollection,
        return_remapped_features: bool = False,
        allow_in_place_embed_weight_update: bool = False,
    ) -> None:
        super().__init__(
            embedding_bag_collection, managed_collision_collection, return_remapped_features,
            allow_in_place_embed_weight_update,
        )  # fmt: skip
