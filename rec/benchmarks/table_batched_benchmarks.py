"""Tables that are trained in their backward pass, beside FBGEMM's and torch's own bags, in one process and in turn.

    python rec/benchmarks/table_batched_benchmarks.py [--threads N] [--markdown] [--only TEXT]

Times are CPU time of one thread, wall time of several, the best of several repetitions; a ratio above 1 means that the
product is faster. Without fbgemm_gpu, which `tools/peers.py` installs, torch's bags alone are the peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from _tables import Table, clock_for, fastest, parser
from torch import Tensor, nn

# Tables, rows, columns, examples, and ids in a bag.
SIZES = [
    (1, 100, 16, 8, 2),
    (26, 10_000, 16, 128, 1),
    (8, 100_000, 64, 512, 1),
    (8, 100_000, 64, 512, 20),
    (4, 400_000, 128, 256, 20),
]
OPTIMIZERS = ("EXACT_SGD", "EXACT_ROWWISE_ADAGRAD", "EXACT_ADAGRAD")


class Batched:
    """One library's tables.

    Args:
        library: the root of its modules.
        size: see `SIZES`.
        optimizer: which one trains them.
    """

    def __init__(self, library: str, size: tuple[int, int, int, int, int], optimizer: str) -> None:
        tables, rows, dim, examples, pooled = size
        training = importlib.import_module(f"{library}.split_table_batched_embeddings_ops_training")
        kinds = importlib.import_module(f"{library}.split_embedding_configs").EmbOptimType
        place = training.EmbeddingLocation.HOST, training.ComputeDevice.CPU
        self.tables = training.SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, dim, *place)] * tables, optimizer=kinds[optimizer],
            bounds_check_mode=training.BoundsCheckMode.FATAL,
        )  # fmt: skip
        self.tables.init_embedding_weights_uniform(-1, 1)
        torch.manual_seed(0)
        self.indices = torch.randint(0, rows, (tables * examples * pooled,))
        self.offsets = torch.arange(tables * examples + 1) * pooled
        self.gradient = torch.randn(examples, tables * dim)

    def look_up(self) -> Tensor:
        """Pooled rows."""
        with torch.no_grad():
            return self.tables(self.indices, self.offsets)  # type: ignore[no-any-return]

    def train(self) -> None:
        """Pooled rows, their gradients and a step of the optimizer."""
        self.tables(self.indices, self.offsets).backward(self.gradient)


class Bags:
    """Torch's bags with sparse gradients and an optimizer for these.

    Args:
        size: see `SIZES`.
        optimizer: "EXACT_SGD", or Adagrad by elements for others.
    """

    def __init__(self, size: tuple[int, int, int, int, int], optimizer: str) -> None:
        tables, rows, dim, examples, pooled = size
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum", sparse=True) for _ in range(tables))
        kind = torch.optim.SGD if optimizer == "EXACT_SGD" else torch.optim.Adagrad
        self.optimizer = kind(self.bags.parameters(), lr=0.01)
        torch.manual_seed(0)
        self.indices = torch.randint(0, rows, (tables, examples * pooled))
        self.offsets = torch.arange(examples) * pooled
        self.gradient = torch.randn(examples, tables * dim)

    def _pooled(self) -> Tensor:
        return torch.cat([bag(ids, self.offsets) for bag, ids in zip(self.bags, self.indices, strict=True)], 1)

    def look_up(self) -> Tensor:
        """Pooled rows."""
        with torch.no_grad():
            return self._pooled()

    def train(self) -> None:
        """Pooled rows, their gradients and a step of the optimizer."""
        self.optimizer.zero_grad()
        self._pooled().backward(self.gradient)
        self.optimizer.step()


def main() -> None:
    """Print a row for each size, optimizer and work."""
    chosen = parser(__doc__).parse_args()
    torch.set_num_threads(chosen.threads)
    libraries = ["flambeau.rec.fbgemm_gpu"]
    try:
        importlib.import_module("fbgemm_gpu")
        libraries.append("fbgemm_gpu")
    except ImportError:
        pass
    peers = [*libraries[1:], "torch"]
    table = Table(f"Table-batched embeddings, {chosen.threads} threads", "us", peers, chosen.markdown)
    for size in SIZES:
        for optimizer in OPTIMIZERS:
            tables, rows, dim, examples, pooled = size
            where = f"{tables} tables of {rows:,} x {dim}, batch {examples}, {pooled} ids each"
            works = {f"train {optimizer}: {where}": "train"}
            if optimizer == "EXACT_SGD":
                works = {f"look_up: {where}": "look_up"} | works
            works = {what: work for what, work in works.items() if chosen.only in what}
            if not works:
                continue
            cases = [*(Batched(library, size, optimizer) for library in libraries), Bags(size, optimizer)]
            for what, work in works.items():
                runs: list[Callable[[], object]] = [getattr(case, work) for case in cases]
                table.row(what, *fastest(runs, 7, clock=clock_for(chosen.threads)))


if __name__ == "__main__":
    main()
