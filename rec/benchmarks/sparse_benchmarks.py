"""Jagged and keyed tensors beside torchrec's, and what importing costs, in one process, in turn.

    python rec/benchmarks/sparse_benchmarks.py [--markdown] [--only TEXT]

CPU time of one thread, the best of several repetitions.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import torch
from _tables import Table, Work, fastest, parser

OURS, PEER = "flambeau.rec", "torchrec"
SIZES = {"4 keys, batch 8": (4, 8), "26 keys, batch 512": (26, 512)}


def works(root: str, keys: int, batch: int) -> Iterator[tuple[str, Work]]:
    """What is timed, of a library."""
    sparse: Any = importlib.import_module(f"{root}.sparse.jagged_tensor")
    draw = torch.Generator().manual_seed(0)
    names = [f"f{at}" for at in range(keys)]
    lengths = torch.randint(0, 6, (keys * batch,), generator=draw)
    values = torch.arange(int(lengths.sum()))
    weights = torch.rand(len(values), generator=draw)
    order = list(reversed(range(keys)))

    def made() -> Any:
        return sparse.KeyedJaggedTensor(names, values, weights, lengths=lengths)

    known = made().sync()
    parts = known.split([keys // 2, keys - keys // 2])
    rows = sparse.JaggedTensor(values, lengths=lengths)
    yield "made", made
    yield "made, and synced", lambda: made().sync()
    yield "made, one key", lambda: made()[names[0]]
    yield "to_dict", lambda: made().to_dict()
    yield "split in 2", lambda: known.split([keys // 2, keys - keys // 2])
    yield "permute", lambda: known.permute(order)
    yield "concat of 2", lambda: sparse.KeyedJaggedTensor.concat(parts)
    yield "to the same device", lambda: known.to("cpu", non_blocking=True)
    yield "rows to dense", lambda: rows.to_padded_dense(5)
    dims = [16] * keys
    pooled = [sparse.KeyedTensor(names, dims, torch.rand(batch, 16 * keys, generator=draw)) for _ in range(1)]
    groups = [names[::2], names[1::2]]
    yield "pooled, one key", lambda: pooled[0][names[1]]
    yield "pooled, regrouped", lambda: sparse.KeyedTensor.regroup(pooled, groups)


def importing(module: str) -> float:
    """Seconds of CPU time that importing a module takes beyond torch, the best of 5 processes."""
    program = (
        "import time, torch, warnings, logging; warnings.simplefilter('ignore'); logging.disable(50); "
        f"t = time.process_time(); import {module}; print(time.process_time() - t)"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(5)]
    return min(float(run.stdout.split()[-1]) for run in runs)


def main() -> None:
    """Print a table for each size, and one of imports."""
    chosen = parser(__doc__).parse_args()
    torch.set_num_threads(1)
    roots = [OURS]
    try:
        importlib.import_module(PEER)
        roots.append(PEER)
    except ImportError:
        print("torchrec is not installed: ours alone.")
    for size, shape in SIZES.items():
        table = Table(f"KeyedJaggedTensor and KeyedTensor, {size}", "us", roots[1:], chosen.markdown)
        for (name, ours), *peer in zip(*(works(root, *shape) for root in roots), strict=True):
            if chosen.only in name:
                table.row(name, *fastest([ours, *(work for _, work in peer)]))
    table = Table("Import beyond torch", "ms", roots[1:], chosen.markdown)
    for ours, peer_module in (
        ("flambeau.rec", "torchrec"),
        ("flambeau.rec.modules.embedding_modules", "torchrec.modules.embedding_modules"),
        ("flambeau.rec.distributed.model_parallel", "torchrec.distributed.model_parallel"),
        ("flambeau.rec.metrics.metric_module", "torchrec.metrics.metric_module"),
    ):
        if chosen.only in ours:
            table.row(f"`{ours}`", importing(ours), *(importing(peer_module) for _ in roots[1:]))


if __name__ == "__main__":
    main()
