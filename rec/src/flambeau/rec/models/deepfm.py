"""DeepFM (Guo et al. 2017, arXiv:1703.04247): a factorization machine and a deep network over shared embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.models.dlrm import _ModelInput
from flambeau.rec.modules.deepfm import DeepFM, FactorizationMachine
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

if TYPE_CHECKING:
    from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

__all__ = ["DenseArch", "FMInteractionArch", "OverArch", "SimpleDeepFMNN", "SimpleDeepFMNNWrapper", "SparseArch"]


class SparseArch(nn.Module):
    """Pooled embeddings of all features.

    Args:
        embedding_bag_collection: the tables.
    """

    def __init__(self, embedding_bag_collection: EmbeddingBagCollection) -> None:
        super().__init__()
        self.embedding_bag_collection = embedding_bag_collection

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Ids to pooled embeddings."""
        pooled: KeyedTensor = self.embedding_bag_collection(features)
        return pooled


class DenseArch(nn.Module):
    """Two layers over dense features.

    Args:
        in_features: columns of the input.
        hidden_layer_size: columns between the two.
        embedding_dim: columns of the result.
    """

    def __init__(self, in_features: int, hidden_layer_size: int, embedding_dim: int) -> None:
        super().__init__()
        self.model: nn.Module = nn.Sequential(
            nn.Linear(in_features, hidden_layer_size), nn.ReLU(), nn.Linear(hidden_layer_size, embedding_dim), nn.ReLU()
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, in_features) to (B, embedding_dim)."""
        result: Tensor = self.model(features)
        return result


class FMInteractionArch(nn.Module):
    """Dense features, what a layer makes of all, and the sum of their products, side by side.

    Args:
        fm_in_features: columns of all features.
        sparse_feature_names: the sparse ones.
        deep_fm_dimension: columns of the layer.
    """

    def __init__(self, fm_in_features: int, sparse_feature_names: list[str], deep_fm_dimension: int) -> None:
        super().__init__()
        self.sparse_feature_names: list[str] = sparse_feature_names
        self.deep_fm = DeepFM(nn.Sequential(nn.Linear(fm_in_features, deep_fm_dimension), nn.ReLU()))
        self.fm = FactorizationMachine()

    def forward(self, dense_features: Tensor, sparse_features: KeyedTensor) -> Tensor:
        """Features to their interactions.

        Args:
            dense_features: (B, D).
            sparse_features: pooled embeddings of all sparse features.

        Returns:
            (B, D + deep_fm_dimension + 1), or the dense features where there are no sparse ones.
        """
        if not self.sparse_feature_names:
            return dense_features
        features = [dense_features, *(sparse_features[name] for name in self.sparse_feature_names)]
        return torch.cat([dense_features, self.deep_fm(features), self.fm(features)], dim=1)


class OverArch(nn.Module):
    """A layer that gives a probability.

    Args:
        in_features: columns of the input.
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.model: nn.Module = nn.Sequential(nn.Linear(in_features, 1), nn.Sigmoid())

    def forward(self, features: Tensor) -> Tensor:
        """(B, in_features) to (B, 1), between 0 and 1."""
        result: Tensor = self.model(features)
        return result


class SimpleDeepFMNN(nn.Module):
    """Probabilities of clicks, from dense and sparse features.

    Args:
        num_dense_features: columns of the dense features.
        embedding_bag_collection: tables of one number of columns.
        hidden_layer_size: of the layers over dense features.
        deep_fm_dimension: columns of the deep half.

    Raises:
        OptionError: there are no tables, or their numbers of columns differ.
    """

    def __init__(
        self,
        num_dense_features: int,
        embedding_bag_collection: EmbeddingBagCollection,
        hidden_layer_size: int,
        deep_fm_dimension: int,
    ) -> None:
        super().__init__()
        tables = embedding_bag_collection.embedding_bag_configs()
        dims = {table.name: table.embedding_dim for table in tables}
        if len(set(dims.values())) != 1:
            raise OptionError(f"the tables have {dims or 'no'} columns; expected tables of one embedding_dim.")
        names = [name for table in tables for name in table.feature_names]
        dim = tables[0].embedding_dim
        self.sparse_arch = SparseArch(embedding_bag_collection)
        self.dense_arch = DenseArch(num_dense_features, hidden_layer_size, dim)
        self.inter_arch = FMInteractionArch(dim + dim * len(names), names, deep_fm_dimension)
        self.over_arch = OverArch(dim + deep_fm_dimension + 1)

    def forward(self, dense_features: Tensor, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Predict.

        Args:
            dense_features: (B, num_dense_features).
            sparse_features: ids of the tables' features.

        Returns:
            (B, 1), between 0 and 1.
        """
        embedded_dense = self.dense_arch(dense_features)
        embedded_sparse = self.sparse_arch(sparse_features)
        interactions = self.inter_arch(dense_features=embedded_dense, sparse_features=embedded_sparse)
        probabilities: Tensor = self.over_arch(interactions)
        return probabilities


class SimpleDeepFMNNWrapper(SimpleDeepFMNN):
    """A DeepFM that takes batches as tests of sharding generate them."""

    def forward(self, model_input: _ModelInput) -> Tensor | tuple[Tensor, Tensor]:  # type: ignore[override]
        """Predict; in training, give a loss as well.

        Args:
            model_input: with `float_features`, `idlist_features` and `label`.

        Returns:
            The probabilities; in training the loss, and the probabilities.
        """
        found = super().forward(model_input.float_features, model_input.idlist_features)
        if self.training:
            return torch.nn.functional.binary_cross_entropy_with_logits(found.squeeze(-1), model_input.label), found
        return found
