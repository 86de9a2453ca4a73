"""Writers: at which places of a storage new items go."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("ImmutableDatasetWriter", "Writer"),
        "ensemble": ("WriterEnsemble",),
        "max_value": ("TensorDictMaxValueWriter",),
        "round_robin": ("RoundRobinWriter", "TensorDictRoundRobinWriter"),
    },
)
