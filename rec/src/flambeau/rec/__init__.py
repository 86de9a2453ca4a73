"""Recommendation models for PyTorch: sparse features, embedding kernels, sharding, planning, metrics.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "modules.embedding_configs": ("DataType", "EmbeddingBagConfig", "EmbeddingConfig", "PoolingType"),
        "modules.embedding_modules": (
            "EmbeddingBagCollection",
            "EmbeddingBagCollectionInterface",
            "EmbeddingCollection",
        ),
        "sparse.jagged_tensor": ("JaggedTensor", "KeyedJaggedTensor", "KeyedTensor"),
    },
    submodules=("ops", "sparse"),
)
