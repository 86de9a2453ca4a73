"""FBGEMM's Python names over our operators: `fbgemm_gpu.X` is `flambeau.rec.fbgemm_gpu.X`.

Nothing is loaded before it is used: importing this package imports no torch, and no operator has to be loaded first.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {},
    submodules=(
        "batched_unary_embeddings_ops",
        "config",
        "enums",
        "metrics",
        "permute_pooled_embedding_modules",
        "permute_pooled_embedding_modules_split",
        "quantize",
        "quantize_comm",
        "quantize_utils",
        "sll",
        "sparse_ops",
        "split_embedding_codegen_lookup_invokers",
        "split_embedding_configs",
        "split_embedding_inference_converter",
        "split_embedding_utils",
        "split_table_batched_embeddings_ops_common",
        "split_table_batched_embeddings_ops_inference",
        "split_table_batched_embeddings_ops_training",
        "split_table_batched_embeddings_ops_training_common",
        "tbe",
        "triton",
        "utils",
    ),
)
