"""DLRM (Naumov et al. 2019, arXiv:1906.00091): dense features, sparse features, and how they meet.

Letters: B examples, F sparse features, D columns of every embedding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, fx, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.crossnet import LowRankCrossNet
from flambeau.rec.modules.mlp import MLP
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

if TYPE_CHECKING:
    from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

__all__ = [
    "DLRM",
    "DLRM_DCN",
    "DLRMTrain",
    "DLRMWrapper",
    "DLRM_Projection",
    "DenseArch",
    "InteractionArch",
    "InteractionDCNArch",
    "InteractionProjectionArch",
    "OverArch",
    "SparseArch",
    "choose",
]


def choose(n: int, k: int) -> int:
    """How many sets of k there are among n things; 0 for k outside of 0 to n.

    Example:
        >>> choose(5, 2), choose(2, 5)
        (10, 0)
    """
    return math.comb(n, k) if 0 <= k <= n else 0


class SparseArch(nn.Module):
    """Pooled embeddings of all features, one above the other.

    Args:
        embedding_bag_collection: tables of one number of columns.

    Raises:
        OptionError: there are no tables, or their numbers of columns differ.
    """

    def __init__(self, embedding_bag_collection: EmbeddingBagCollection) -> None:
        super().__init__()
        self.embedding_bag_collection = embedding_bag_collection
        tables = embedding_bag_collection.embedding_bag_configs()
        dims = {table.name: table.embedding_dim for table in tables}
        if len(set(dims.values())) != 1:
            raise OptionError(f"the tables have {dims or 'no'} columns; expected tables of one embedding_dim.")
        self.D: int = tables[0].embedding_dim
        self._sparse_feature_names: list[str] = [name for table in tables for name in table.feature_names]
        self.F: int = len(self._sparse_feature_names)

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Ids to (B, F, D)."""
        pooled = self.embedding_bag_collection(features)
        return pooled.values().reshape(-1, self.F, self.D)  # type: ignore[no-any-return]

    @property
    def sparse_feature_names(self) -> list[str]:
        """The features in order."""
        return self._sparse_feature_names


class DenseArch(nn.Module):
    """A perceptron over dense features.

    Args:
        in_features: columns of the input.
        layer_sizes: columns after each layer.
        device: of the parameters.
    """

    def __init__(self, in_features: int, layer_sizes: list[int], device: torch.device | None = None) -> None:
        super().__init__()
        self.model: nn.Module = MLP(in_features, layer_sizes, bias=True, activation="relu", device=device)

    def forward(self, features: Tensor) -> Tensor:
        """(B, in_features) to (B, columns of the last layer)."""
        result: Tensor = self.model(features)
        return result


class InteractionArch(nn.Module):
    """Dot products of each two features, the dense one included, beside the dense one.

    Args:
        num_sparse_features: F.
    """

    def __init__(self, num_sparse_features: int) -> None:
        super().__init__()
        self.F: int = num_sparse_features
        self.triu_indices: Tensor
        side = num_sparse_features + 1
        self.register_buffer("triu_indices", torch.triu_indices(side, side, offset=1), persistent=False)

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Features to their interactions.

        Args:
            dense_features: (B, D).
            sparse_features: (B, F, D).

        Returns:
            (B, D + F * (F + 1) / 2): the dense features, then the dot products of features 0 and 1, 0 and 2, ...; the
            dense features alone where F is 0.

        Raises:
            IndexError: another number of sparse features.
        """
        if self.F <= 0:
            return dense_features
        given: object = sparse_features  # or what torch.fx traces, which has no sizes yet
        if not isinstance(given, fx.Proxy) and sparse_features.shape[1] != self.F:
            raise IndexError(f"sparse_features has {sparse_features.shape[1]} features, expected {self.F}.")
        together = torch.cat((dense_features.unsqueeze(1), sparse_features), dim=1)
        products = torch.bmm(together, together.transpose(1, 2)).flatten(1)
        pairs = self.triu_indices[0] * (self.F + 1) + self.triu_indices[1]
        return torch.cat((dense_features, products.index_select(1, pairs)), dim=1)


class InteractionDCNArch(nn.Module):
    """A cross network over all features side by side.

    Args:
        num_sparse_features: F.
        crossnet: (B, (F + 1) * D) to the same.
    """

    def __init__(self, num_sparse_features: int, crossnet: nn.Module) -> None:
        super().__init__()
        self.F: int = num_sparse_features
        self.crossnet = crossnet

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Features to their interactions.

        Args:
            dense_features: (B, D).
            sparse_features: (B, F, D).

        Returns:
            (B, (F + 1) * D), or the dense features where F is 0.
        """
        if self.F <= 0:
            return dense_features
        together = torch.cat((dense_features.unsqueeze(1), sparse_features), dim=1)
        result: Tensor = self.crossnet(together.flatten(1))
        return result


class InteractionProjectionArch(nn.Module):
    """Dot products of vectors that two branches make of all features, beside the dense ones.

    Args:
        num_sparse_features: F.
        interaction_branch1: (B, (F + 1) * D) to (B, F1 * D).
        interaction_branch2: (B, (F + 1) * D) to (B, F2 * D).
    """

    def __init__(
        self, num_sparse_features: int, interaction_branch1: nn.Module, interaction_branch2: nn.Module
    ) -> None:
        super().__init__()
        self.F: int = num_sparse_features
        self.interaction_branch1 = interaction_branch1
        self.interaction_branch2 = interaction_branch2

    def forward(self, dense_features: Tensor, sparse_features: Tensor) -> Tensor:
        """Features to their interactions.

        Args:
            dense_features: (B, D).
            sparse_features: (B, F, D).

        Returns:
            (B, D + F1 * F2), or the dense features where F is 0.
        """
        if self.F <= 0:
            return dense_features
        dim = dense_features.shape[1]
        together = torch.cat((dense_features.unsqueeze(1), sparse_features), dim=1).flatten(1)
        one = self.interaction_branch1(together).unflatten(1, (-1, dim))
        other = self.interaction_branch2(together).unflatten(1, (dim, -1))
        return torch.cat((dense_features, torch.bmm(one, other).flatten(1)), dim=1)


class OverArch(nn.Module):
    """A perceptron whose last layer has no activation.

    Args:
        in_features: columns of the input.
        layer_sizes: columns after each layer, two or more.
        device: of the parameters.

    Raises:
        ValueError: there are fewer than two layers.
    """

    def __init__(self, in_features: int, layer_sizes: list[int], device: torch.device | None = None) -> None:
        super().__init__()
        if len(layer_sizes) < 2:
            raise ValueError(f"layer_sizes of an OverArch is {layer_sizes}, expected two or more.")
        self.model: nn.Module = nn.Sequential(
            MLP(in_features, layer_sizes[:-1], bias=True, activation="relu", device=device),
            nn.Linear(layer_sizes[-2], layer_sizes[-1], bias=True, device=device),
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, in_features) to (B, columns of the last layer)."""
        result: Tensor = self.model(features)
        return result


class DLRM(nn.Module):
    """Clicks, from dense and sparse features: logits, which a sigmoid makes probabilities of.

    Args:
        embedding_bag_collection: tables of D columns.
        dense_in_features: columns of the dense features.
        dense_arch_layer_sizes: columns of layers over them; the last is D.
        over_arch_layer_sizes: columns of layers over the interactions; the last is usually 1.
        dense_device: of all parameters but the tables.

    Raises:
        OptionError: there are no tables, or their numbers of columns differ.
        ValueError: the last layer over dense features has not D columns.

    Example:
        >>> from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig
        >>> table = EmbeddingBagConfig(num_embeddings=100, embedding_dim=8, name="t_item", feature_names=["item"])
        >>> model = DLRM(EmbeddingBagCollection([table]), 13, [16, 8], [12, 1])
        >>> ids = KeyedJaggedTensor(["item"], torch.tensor([1, 2, 2]), lengths=torch.tensor([2, 1]))
        >>> model(torch.zeros(2, 13), ids).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: list[int],
        over_arch_layer_sizes: list[int],
        dense_device: torch.device | None = None,
    ) -> None:
        super().__init__()
        if not embedding_bag_collection.embedding_bag_configs():
            raise OptionError("embedding_bag_collection has no tables, expected one or more.")
        self.sparse_arch = SparseArch(embedding_bag_collection)
        dim, features = self.sparse_arch.D, self.sparse_arch.F
        if dense_arch_layer_sizes[-1] != dim:
            raise ValueError(
                f"dense_arch_layer_sizes ends with {dense_arch_layer_sizes[-1]}, expected {dim}, the embedding_dim of "
                "all tables."
            )
        self.dense_arch = DenseArch(dense_in_features, dense_arch_layer_sizes, dense_device)
        self.inter_arch: nn.Module = InteractionArch(features)
        over_in_features = dim + features * (features + 1) // 2
        self.over_arch = OverArch(over_in_features, over_arch_layer_sizes, dense_device)

    def compile_dense_path(self, compile_mode: str = "reduce-overhead") -> None:
        """Compile all but the look-up.

        Args:
            compile_mode: of `torch.compile`.
        """
        for module in (self.dense_arch, self.inter_arch, self.over_arch):
            module.forward = torch.compile(module.forward, mode=compile_mode)

    def forward(self, dense_features: Tensor, sparse_features: KeyedJaggedTensor) -> Tensor:
        """Predict.

        Args:
            dense_features: (B, dense_in_features).
            sparse_features: ids of F features.

        Returns:
            (B, columns of the last layer) of logits.
        """
        embedded_dense = self.dense_arch(dense_features)
        embedded_sparse = self.sparse_arch(sparse_features)
        interactions = self.inter_arch(dense_features=embedded_dense, sparse_features=embedded_sparse)
        logits: Tensor = self.over_arch(interactions)
        return logits


class DLRM_Projection(DLRM):
    """A DLRM whose features meet in an `InteractionProjectionArch`: in fewer products than there are pairs.

    Args:
        embedding_bag_collection: see `DLRM`.
        dense_in_features: see `DLRM`.
        dense_arch_layer_sizes: see `DLRM`.
        over_arch_layer_sizes: see `DLRM`.
        interaction_branch1_layer_sizes: the last is a multiple of D.
        interaction_branch2_layer_sizes: the last is a multiple of D.
        dense_device: see `DLRM`.

    Raises:
        ValueError: a branch ends with another number of columns; and as `DLRM`.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: list[int],
        over_arch_layer_sizes: list[int],
        interaction_branch1_layer_sizes: list[int],
        interaction_branch2_layer_sizes: list[int],
        dense_device: torch.device | None = None,
    ) -> None:
        super().__init__(
            embedding_bag_collection, dense_in_features, dense_arch_layer_sizes, over_arch_layer_sizes, dense_device
        )
        dim, features = self.sparse_arch.D, self.sparse_arch.F
        branches = interaction_branch1_layer_sizes, interaction_branch2_layer_sizes
        for number, sizes in enumerate(branches, 1):
            if sizes[-1] % dim:
                raise ValueError(
                    f"interaction_branch{number}_layer_sizes ends with {sizes[-1]}, expected a multiple of {dim}, the "
                    "embedding_dim of all tables."
                )
        columns = (features + 1) * dim
        self.inter_arch = InteractionProjectionArch(
            features, *(DenseArch(columns, sizes, dense_device) for sizes in branches)
        )
        products = branches[0][-1] // dim * (branches[1][-1] // dim)
        self.over_arch = OverArch(dim + products, over_arch_layer_sizes, dense_device)


class DLRM_DCN(DLRM):
    """A DLRM whose features meet in a cross network of low rank (DCN v2, Wang et al. 2021, arXiv:2008.13535).

    Args:
        embedding_bag_collection: see `DLRM`.
        dense_in_features: see `DLRM`.
        dense_arch_layer_sizes: see `DLRM`.
        over_arch_layer_sizes: see `DLRM`.
        dcn_num_layers: of the cross network.
        dcn_low_rank_dim: of the cross network.
        dense_device: see `DLRM`.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: list[int],
        over_arch_layer_sizes: list[int],
        dcn_num_layers: int,
        dcn_low_rank_dim: int,
        dense_device: torch.device | None = None,
    ) -> None:
        super().__init__(
            embedding_bag_collection, dense_in_features, dense_arch_layer_sizes, over_arch_layer_sizes, dense_device
        )
        columns = (self.sparse_arch.F + 1) * self.sparse_arch.D
        crossnet = LowRankCrossNet(columns, dcn_num_layers, dcn_low_rank_dim).to(dense_device)
        self.inter_arch = InteractionDCNArch(self.sparse_arch.F, crossnet)
        self.over_arch = OverArch(columns, over_arch_layer_sizes, dense_device)


class _Labelled(Protocol):
    """A batch: `flambeau.rec.datasets.utils.Batch`, or anything with these."""

    dense_features: Tensor
    sparse_features: KeyedJaggedTensor
    labels: Tensor


class DLRMTrain(nn.Module):
    """A DLRM with its loss, as training pipelines take it.

    Args:
        dlrm_module: the model, which gives one logit for each example.
    """

    def __init__(self, dlrm_module: DLRM) -> None:
        super().__init__()
        self.model = dlrm_module
        self.loss_fn: nn.Module = nn.BCEWithLogitsLoss()

    def forward(self, batch: _Labelled) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Predict and compare.

        Args:
            batch: with `dense_features`, `sparse_features` and `labels`, (B,) of 0 and 1.

        Returns:
            The binary cross entropy; and detached from the graph: it, the logits (B,), and the labels.
        """
        logits = self.model(batch.dense_features, batch.sparse_features).squeeze(-1)
        loss = self.loss_fn(logits, batch.labels.float())
        return loss, (loss.detach(), logits.detach(), batch.labels.detach())


class _ModelInput(Protocol):
    """A batch as tests of sharding generate it."""

    float_features: Tensor
    idlist_features: KeyedJaggedTensor
    label: Tensor


class DLRMWrapper(DLRM):
    """A DLRM that takes batches as tests of sharding generate them."""

    def forward(self, model_input: _ModelInput) -> Tensor | tuple[Tensor, Tensor]:  # type: ignore[override]
        """Predict; in training, give a loss as well.

        Args:
            model_input: with `float_features`, `idlist_features` and `label`.

        Returns:
            The logits; in training the loss, and the logits.
        """
        logits = super().forward(model_input.float_features, model_input.idlist_features)
        if self.training:
            return torch.nn.functional.binary_cross_entropy_with_logits(logits.squeeze(-1), model_input.label), logits
        return logits
