"""A module around tables on disk that serves look-ups, and takes updates."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu.tbe.ssd.inference import SSDIntNBitTableBatchedEmbeddingBags

__all__ = ["TurboSSDInferenceModule"]


class TurboSSDInferenceModule(nn.Module):
    """Serves look-ups of tables on disk.

    Args:
        tbe: the tables.
    """

    def __init__(self, tbe: SSDIntNBitTableBatchedEmbeddingBags) -> None:
        super().__init__()
        self.tbe = tbe

    def forward(self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool rows; see `SSDIntNBitTableBatchedEmbeddingBags.forward`."""
        found: Tensor = self.tbe(indices, offsets, per_sample_weights)
        return found

    def streaming_update(self, indices: Tensor, weights: Tensor) -> None:
        """Overwrite rows; see `SSDIntNBitTableBatchedEmbeddingBags.streaming_update`."""
        self.tbe.streaming_update(indices, weights)

    def load_snapshot(self, ssd_storage_directory: str, ssd_shards: int = 1) -> None:
        """Go over to the tables of another folder; see `SSDIntNBitTableBatchedEmbeddingBags.load_snapshot`."""
        self.tbe.load_snapshot(ssd_storage_directory, ssd_shards)
