"""Embeddings of which those that two batches have in common are sent first (prioritised communication, PEC)."""

from __future__ import annotations

from enum import Enum, unique

from torch import nn

from flambeau.rec.modules.embedding_configs import EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = ["OverlappingCheckerType", "PECEmbeddingCollection"]


@unique
class OverlappingCheckerType(Enum):
    """Ways to find the ids that two batches have in common."""

    # a bit for each row
    BOOLEAN = "boolean"


class PECEmbeddingCollection(nn.Module):
    """An `EmbeddingCollection` that, once it is sharded, splits batches by whether the batch before has the same ids.

    Rows that the batch before changes have to wait for its gradients; all others can be looked up and sent before.

    Args:
        embedding_collection: the tables.
        checker_type: how common ids are found.

    Example:
        >>> import torch
        >>> table = EmbeddingConfig(num_embeddings=4, embedding_dim=2, name="t", feature_names=["f"])
        >>> collection = PECEmbeddingCollection(EmbeddingCollection(tables=[table]))
        >>> features = KeyedJaggedTensor(["f"], torch.tensor([3, 0]), lengths=torch.tensor([1, 1]))
        >>> collection(features)["f"].values().shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        embedding_collection: EmbeddingCollection,
        checker_type: OverlappingCheckerType = OverlappingCheckerType.BOOLEAN,
    ) -> None:
        super().__init__()
        self._embedding_collection = embedding_collection
        self._checker_type = checker_type

    @property
    def embedding_collection(self) -> EmbeddingCollection:
        """The tables."""
        return self._embedding_collection

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Embeddings of each feature; see `EmbeddingCollection.forward`."""
        found: dict[str, JaggedTensor] = self._embedding_collection(features)
        return found

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables' configurations."""
        return self._embedding_collection.embedding_configs()

    def embedding_dim(self) -> int:
        """Columns of all tables."""
        return self._embedding_collection.embedding_dim()

    def need_indices(self) -> bool:
        """Whether ids are given as weights."""
        return self._embedding_collection.need_indices()
