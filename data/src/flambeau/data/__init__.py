"""Data for PyTorch: TensorDict, pipelines and loaders that resume exactly, shards, object storage, columnar frames.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "fast_loader": ("FastLoader",),
        "streaming": ("load_dataset",),
        "tensordict": (
            "LazyStackedTensorDict",
            "MemoryMappedTensor",
            "NonTensorData",
            "NonTensorStack",
            "PersistentTensorDict",
            "TensorClass",
            "TensorDict",
            "TensorDictBase",
            "TensorDictParams",
            "from_module",
            "lazy_stack",
            "load",
            "load_memmap",
            "save",
            "tensorclass",
        ),
    },
    submodules=("dataloader2", "datapipes", "frame", "jagged", "nodes", "shards", "stateful_dataloader", "storage"),
)
