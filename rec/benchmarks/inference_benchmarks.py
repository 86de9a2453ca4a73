"""Look-ups in tables for inference, by element type, ours and FBGEMM's side by side.

    python rec/benchmarks/inference_benchmarks.py [--rows 1000000] [--dim 128] [--batch 512] [--bag 20] [--output FP32]

Both libraries alternate in one process; the fastest of several runs counts. Without fbgemm_gpu ours is timed alone. The
last column is the time of ours by that of our float32 tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

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


def fastest(calls: list[Callable[[], object]], runs: int) -> list[float]:
    """Seconds of each, alternating."""
    best = [float("inf")] * len(calls)
    for _ in range(runs):
        for at, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            best[at] = min(best[at], time.perf_counter() - begin)
    return best


def main() -> None:
    """Print a line for each element type."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("rows", 1_000_000), ("dim", 128), ("batch", 512), ("bag", 20), ("tables", 2), ("runs", 30)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--output", default="FP32", choices=("FP32", "FP16", "BF16"))
    parser.add_argument("--weighted", action="store_true")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = parser.parse_args()
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
    print(f"{size}, {bags} bags of {options.bag}, {torch.get_num_threads()} threads")
    plain = None
    for kind in options.kinds:
        ours = tables(kind, options)
        calls = [lambda: ours(indices, offsets, weights)]  # noqa: B023
        if theirs is not None:
            other = tables(kind, options, theirs)
            calls.append(lambda: other(indices, offsets, weights))  # noqa: B023
        seconds = fastest(calls, options.runs)
        plain = plain or seconds[0]
        ratio = f"{seconds[1] / seconds[0]:6.2f}x of FBGEMM" if len(seconds) > 1 else ""
        print(f"{kind:5} {seconds[0] * 1e3:8.3f} ms {ratio}  {seconds[0] / plain:5.2f} of float32")


if __name__ == "__main__":
    main()
