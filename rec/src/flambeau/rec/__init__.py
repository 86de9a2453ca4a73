"""Recommendation models for PyTorch: sparse features, embedding kernels, sharding, planning, metrics.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.core.late_operators import announce_operators
from flambeau.rec.ops._announced import OPERATORS

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
        "ops.namespace": ("register_fbgemm_namespace",),
        "sparse.jagged_tensor": ("JaggedTensor", "KeyedJaggedTensor", "KeyedTensor"),
    },
    submodules=("fbgemm_gpu", "ops", "sparse"),
)

# Code that calls operators by their names in torch's registry finds them without another import.
announce_operators("flambeau_rec", OPERATORS)
