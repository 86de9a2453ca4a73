"""Maps from tensors, by their hashes."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "hash": ("BinaryToDecimal", "RandomProjectionHash", "SipHash"),
        "query": ("HashToInt", "QueryModule"),
        "tdstorage": ("TensorDictMap", "TensorMap"),
        "tree": ("MCTSForest", "Tree"),
    },
)
