"""Collections whose tables are pruned while they are trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.itep_modules import GenericITEPModule
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = ["ITEPEmbeddingBagCollection", "ITEPEmbeddingCollection"]


class ITEPEmbeddingBagCollection(nn.Module):
    """An `EmbeddingBagCollection` whose tables are pruned once it is sharded; before, ids have to be rows.

    Args:
        embedding_bag_collection: whose tables have as many rows as are left after pruning.
        itep_module: how many ids each has, and when it is pruned.
    """

    _iter: Tensor

    def __init__(self, embedding_bag_collection: EmbeddingBagCollection, itep_module: GenericITEPModule) -> None:
        super().__init__()
        self._embedding_bag_collection = embedding_bag_collection
        self._itep_module = itep_module
        # On the CPU, where it is compared without waiting for an accelerator.
        self.register_buffer("_iter", torch.tensor(0, dtype=torch.int64, device=torch.device("cpu")))

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pooled embeddings; see `EmbeddingBagCollection.forward`."""
        features = self._itep_module(features, int(self._iter))
        pooled: KeyedTensor = self._embedding_bag_collection(features)
        self._iter += 1
        return pooled

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""
        return self._embedding_bag_collection.embedding_bag_configs()


class ITEPEmbeddingCollection(nn.Module):
    """An `EmbeddingCollection` whose tables are pruned once it is sharded; before, ids have to be rows.

    Args:
        embedding_collection: whose tables have as many rows as are left after pruning.
        itep_module: how many ids each has, and when it is pruned.
    """

    _iter: Tensor

    def __init__(self, embedding_collection: EmbeddingCollection, itep_module: GenericITEPModule) -> None:
        super().__init__()
        self._embedding_collection = embedding_collection
        self._itep_module = itep_module
        self.register_buffer("_iter", torch.tensor(0, dtype=torch.int64, device=torch.device("cpu")))

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Embeddings of each feature; see `EmbeddingCollection.forward`."""
        features = self._itep_module(features, int(self._iter))
        found: dict[str, JaggedTensor] = self._embedding_collection(features)
        self._iter += 1
        return found

    def embedding_bag_configs(self) -> list[EmbeddingConfig]:
        """The tables; of this name upstream, too."""
        return self._embedding_collection.embedding_configs()
