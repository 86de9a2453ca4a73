"""Columns to tensors and back; `rec` holds the conversions of recommenders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.data.frame.pytorch.tensors import (
        DefaultTensorConversion,
        PackedList,
        PackedMap,
        PadSequence,
        TensorConversion,
        WithPresence,
        from_tensor,
        infer_dtype_from_tensor,
    )

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "tensors": (
            "DefaultTensorConversion",
            "PackedList",
            "PackedMap",
            "PadSequence",
            "TensorConversion",
            "WithPresence",
            "from_tensor",
            "infer_dtype_from_tensor",
        ),
    },
    submodules=("rec", "jagged"),
)
