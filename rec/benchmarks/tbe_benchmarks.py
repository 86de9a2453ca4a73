"""Tables looked up and trained together, beside FBGEMM's and torch's `EmbeddingBag`s, in one process, in turn.

    python rec/benchmarks/tbe_benchmarks.py [--markdown] [--only TEXT] [--threads N]

A step is a look-up, a gradient and an update by plain gradient descent: fused in ours and FBGEMM's, sparse gradients
and `torch.optim.SGD` for torch's. Times are wall time, the best of several repetitions. Copied memory is what the rows
of a look-up would take at the rate at which torch copies a tensor too large for caches.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import torch
from _tables import Table, Work, fastest, parser
from torch import Tensor

# Tables, rows, columns, examples, ids in a bag.
SIZES = [
    (1, 100, 16, 8, 2),
    (4, 10_000, 64, 128, 4),
    (26, 100_000, 16, 512, 1),
    (26, 100_000, 64, 128, 10),
    (4, 1_000_000, 64, 512, 20),
    (4, 1_000_000, 128, 2_048, 20),
    (2, 1_000_000, 256, 1_024, 40),
]
OURS, PEER = "flambeau.rec.fbgemm_gpu", "fbgemm_gpu"


def collection(root: str, tables: int, rows: int, dim: int, **options: Any) -> Any:
    """Tables of a library, on the CPU."""
    training = importlib.import_module(f"{root}.split_table_batched_embeddings_ops_training")
    common = importlib.import_module(f"{root}.split_table_batched_embeddings_ops_common")
    configs = importlib.import_module(f"{root}.split_embedding_configs")
    return training.SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, common.EmbeddingLocation.HOST, training.ComputeDevice.CPU)] * tables,
        optimizer=configs.EmbOptimType.EXACT_SGD,
        learning_rate=0.01,
        **options,
    )


def batch(tables: int, rows: int, examples: int, pooled: int) -> tuple[Tensor, Tensor]:
    """Ids and offsets of bags of one size."""
    total = tables * examples * pooled
    return torch.randint(0, rows, (total,)), torch.arange(0, total + 1, pooled)


class Bags:
    """Torch's: a module for each table."""

    def __init__(self, tables: int, rows: int, dim: int) -> None:
        self.bags = [torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True) for _ in range(tables)]
        self.optimizer = torch.optim.SGD([bag.weight for bag in self.bags], lr=0.01)

    def __call__(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Sums of all bags, as the other tables give them."""
        examples = (len(offsets) - 1) // len(self.bags)
        outputs = []
        for table, bag in enumerate(self.bags):
            begin, end = table * examples, (table + 1) * examples
            of_table = offsets[begin : end + 1]
            own = ids[int(of_table[0]) : int(of_table[-1])]
            outputs.append(bag(own, of_table[:-1] - of_table[0]))
        return torch.cat(outputs, 1)


def looking_up(tables: Callable[[Tensor, Tensor], Tensor], ids: Tensor, offsets: Tensor) -> Work:
    """Forward alone."""

    def work() -> None:
        with torch.no_grad():
            tables(ids, offsets)

    return work


def training(tables: Callable[[Tensor, Tensor], Tensor], ids: Tensor, offsets: Tensor) -> Work:
    """Forward, backward, update."""
    flow = torch.ones_like(tables(ids, offsets))
    optimizer = getattr(tables, "optimizer", None) if isinstance(tables, Bags) else None

    def work() -> None:
        if optimizer is not None:
            optimizer.zero_grad()
        tables(ids, offsets).backward(flow)
        if optimizer is not None:
            optimizer.step()

    return work


def copied(ids: Tensor, dim: int) -> float:
    """Seconds to copy as much memory as a look-up reads."""
    source = torch.zeros(1 << 26)
    target = torch.empty_like(source)
    (seconds,) = fastest([lambda: target.copy_(source)], 5, clock=time.perf_counter)
    return seconds * len(ids) * dim * 4 / (2 * source.numel() * 4)


def main() -> None:
    """Print a table of look-ups and one of steps."""
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    roots = [OURS]
    try:
        importlib.import_module(PEER)
        roots.append(PEER)
    except ImportError:
        print("FBGEMM is not installed: torch alone beside ours.")
    others = ["FBGEMM"] * (len(roots) - 1) + ["nn.EmbeddingBag"]
    for title, make in (("Look-ups", looking_up), ("Training steps", training)):
        beside = [*others, "copied memory"] if make is looking_up else others
        table = Table(f"{title}, {chosen.threads} threads", "us", beside, chosen.markdown)
        for tables, rows, dim, examples, pooled in SIZES:
            what = f"{tables} tables of {rows:,} x {dim}, batch {examples:,}, {pooled} ids each"
            if chosen.only not in what:
                continue
            given = batch(tables, rows, examples, pooled)
            all_tables = [*(collection(root, tables, rows, dim) for root in roots), Bags(tables, rows, dim)]
            seconds = fastest([make(one, *given) for one in all_tables], 7, clock=time.perf_counter)
            memory = [copied(given[0], dim)] if make is looking_up else []
            table.row(what, *seconds, *memory)


if __name__ == "__main__":
    main()
