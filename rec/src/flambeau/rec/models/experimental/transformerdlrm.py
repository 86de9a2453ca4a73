"""A DLRM whose features meet in a transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from flambeau.rec.models.dlrm import DLRM, OverArch

if TYPE_CHECKING:
    from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

__all__ = ["DLRM_Transformer", "InteractionTransformerArch"]


class InteractionTransformerArch(nn.Module):
    """Layers of self-attention (Vaswani et al. 2017, arXiv:1706.03762) over all features of an example.

    Args:
        num_sparse_features: F.
        embedding_dim: D.
        nhead: attention heads, which divide D.
        ntransformer_layers: layers.
    """

    def __init__(
        self, num_sparse_features: int, embedding_dim: int, nhead: int = 8, ntransformer_layers: int = 4
    ) -> None:
        super().__init__()
        self.F: int = num_sparse_features
        self.D: int = embedding_dim
        self.nhead, self.ntransformer_layers = nhead, ntransformer_layers
        layer = nn.TransformerEncoderLayer(d_model=embedding_dim, nhead=nhead)
        self.interarch_TE = nn.TransformerEncoder(layer, num_layers=ntransformer_layers, enable_nested_tensor=False)

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
        met: Tensor = self.interarch_TE(together)
        return met.flatten(1)


class DLRM_Transformer(DLRM):
    """A DLRM whose features meet in an `InteractionTransformerArch`.

    Args:
        embedding_bag_collection: see `DLRM`.
        dense_in_features: see `DLRM`.
        dense_arch_layer_sizes: see `DLRM`.
        over_arch_layer_sizes: see `DLRM`.
        nhead: attention heads, which divide D.
        ntransformer_layers: layers.
        dense_device: see `DLRM`.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: list[int],
        over_arch_layer_sizes: list[int],
        nhead: int = 8,
        ntransformer_layers: int = 4,
        dense_device: torch.device | None = None,
    ) -> None:
        super().__init__(
            embedding_bag_collection, dense_in_features, dense_arch_layer_sizes, over_arch_layer_sizes, dense_device
        )
        dim, features = self.sparse_arch.D, self.sparse_arch.F
        inter_arch = InteractionTransformerArch(features, dim, nhead, ntransformer_layers)
        self.inter_arch = inter_arch.to(dense_device) if dense_device is not None else inter_arch
        self.over_arch = OverArch((features + 1) * dim, over_arch_layer_sizes, dense_device)
