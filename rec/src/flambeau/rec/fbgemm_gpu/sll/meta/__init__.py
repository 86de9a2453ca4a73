"""Operators for sequence learning on tensors without data."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "meta_sll": (
            "meta_array_jagged_bmm_jagged_out",
            "meta_jagged2_softmax",
            "meta_jagged_dense_elementwise_mul_jagged_out",
            "meta_jagged_jagged_bmm_jagged_out",
            "meta_jagged_self_substraction_jagged_out",
        )
    },
    submodules=("meta_sll",),
)
