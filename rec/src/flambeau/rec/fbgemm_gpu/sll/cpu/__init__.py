"""Operators for sequence learning on the CPU."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cpu_sll": (
            "cpu_array_jagged_bmm_jagged_out",
            "cpu_array_jagged_bmm_jagged_out_kernel",
            "cpu_dense_jagged_cat_jagged_out",
            "cpu_jagged2_softmax",
            "cpu_jagged2_to_padded_dense",
            "cpu_jagged_dense_bmm",
            "cpu_jagged_dense_elementwise_add",
            "cpu_jagged_dense_elementwise_mul_jagged_out",
            "cpu_jagged_dense_flash_attention",
            "cpu_jagged_flash_attention_basic",
            "cpu_jagged_jagged_bmm",
            "cpu_jagged_jagged_bmm_jagged_out",
            "cpu_jagged_jagged_bmm_jagged_out_kernel",
            "cpu_jagged_self_substraction_jagged_out",
            "cpu_jagged_softmax",
        )
    },
    submodules=("cpu_sll",),
)
