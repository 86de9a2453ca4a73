"""Look-ups in tables for inference, by element type, ours and FBGEMM's side by side.

    python rec/benchmarks/inference_benchmarks.py [--rows 1000000] [--dim 128] [--batch 512] [--bag 20] [--output FP32]
        [--markdown]

Both libraries alternate in one process; the fastest of several runs counts. Without fbgemm_gpu ours stands beside its
own float32 tables alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from _tables import Table, clock_for, fastest, parser

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, EmbeddingLocation

KINDS = ("FP32", "FP16", "FP8", "INT8", "INT4", "INT2")


def tables(kind: str, options: argparse.Namespace, theirs: Any = None) -> torch.nn.Module:
    """Tables with the same random bytes for both."""
    types, location, mode = SparseType, EmbeddingLocation.HOST, BoundsCheckMode.NONE
    make: Callable[..., Any] = IntNBitTableBatchedEmbeddingBagsCodegen
    if theirs is not None:
        types, location, mode, make = theirs
    torch.manual_seed(0)
    made: torch.nn.Module = make(
        [(f"t{at}", options.rows, options.dim, types[kind], location) for at in range(options.tables)],
        device="cpu",
        output_dtype=types[options.output],
        bounds_check_mode=mode,
        **({"fp8_exponent_bits": 4, "fp8_exponent_bias": 7} if kind == "FP8" else {}),
    )
    made.fill_random_weights()  # type: ignore[operator]
    return made


def main() -> None:
    """Print a line for each element type."""
    chosen = parser(__doc__)
    for name, value in (("rows", 1_000_000), ("dim", 128), ("batch", 512), ("bag", 20), ("tables", 2), ("runs", 15)):
        chosen.add_argument(f"--{name}", type=int, default=value)
    chosen.add_argument("--output", default="FP32", choices=("FP32", "FP16", "BF16"))
    chosen.add_argument("--weighted", action="store_true")
    chosen.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = chosen.parse_args()
    torch.set_num_threads(options.threads)
    try:
        from fbgemm_gpu import split_table_batched_embeddings_ops_inference as peer
        from fbgemm_gpu.split_embedding_configs import SparseType as PeerType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode as PeerMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation as PeerLocation
    except ImportError:
        theirs = None
    else:
        make = peer.IntNBitTableBatchedEmbeddingBagsCodegen
        theirs = (PeerType, PeerLocation.HOST, PeerMode.NONE, make)

    bags = options.tables * options.batch
    total = bags * options.bag
    indices = torch.randint(0, options.rows, (total,), dtype=torch.int32)
    offsets = torch.arange(0, total + 1, options.bag, dtype=torch.int32)
    weights = torch.rand(total) if options.weighted else None
    size = f"{options.tables} x {options.rows} x {options.dim}"
    title = f"Quantized look-ups, {size}, {bags} bags of {options.bag}, {torch.get_num_threads()} threads"
    others = ["FBGEMM"] if theirs is not None else []
    table = Table(title, "ms", [*others, "our float32"], options.markdown)
    plain = tables("FP32", options)
    for kind in options.kinds:
        made = [tables(kind, options), *(tables(kind, options, theirs) for _ in others), plain]
        calls = [lambda one=one: one(indices, offsets, weights) for one in made]
        table.row(kind, *fastest(calls, options.runs, clock=clock_for(options.threads)))


if __name__ == "__main__":
    main()
