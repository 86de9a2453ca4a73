"""The index of upstream's example of retrieval, by its arguments."""

from __future__ import annotations

import torch

from flambeau.rec.retrieval.ivfpq import IVFPQIndex

__all__ = ["get_index"]


def get_index(
    embedding_dim: int,
    num_centroids: int,
    num_probe: int,
    num_subquantizers: int,
    bits_per_code: int,
    device: torch.device | None = None,
    use_gpu: bool = False,
) -> IVFPQIndex:
    """An `IVFPQIndex` by squared distances.

    Args:
        embedding_dim: columns of a vector.
        num_centroids: lists of the inverted file.
        num_probe: lists that are searched for a query.
        num_subquantizers: bytes of a vector's code.
        bits_per_code: bits that are used of each.
        device: where the vectors are.
        use_gpu: take the current GPU where no device is given; upstream: which of faiss's indices is made.

    Raises:
        OptionError: sizes that do not fit.
    """
    where = device if device is not None else torch.device("cuda" if use_gpu else "cpu")
    return IVFPQIndex(embedding_dim, num_centroids, num_subquantizers, bits_per_code, num_probe=num_probe, device=where)
