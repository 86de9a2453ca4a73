"""Nearest vectors: all of them compared, or an inverted file of product-quantized ones."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "exact": ("ExactIndex",),
        "ivfpq": ("IVFPQIndex",),
        "knn_index": ("get_index",),
        "product_quantizer": ("ProductQuantizer",),
        "recall": ("recall_at_k",),
    },
    submodules=("kmeans",),
)
