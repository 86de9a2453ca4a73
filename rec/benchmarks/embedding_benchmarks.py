"""Collections of embedding tables and DLRM beside torchrec's, in one process, product and peer in turn.

    python rec/benchmarks/embedding_benchmarks.py [--threads N] [--markdown] [--only TEXT]

Times are the best of several repetitions; a ratio above 1 means that the product is faster. Without torchrec, which
`tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from _tables import Table, clock_for, fastest, parser
from torch import Tensor

# Tables, rows, columns, examples, and the mean number of ids in a bag.
SIZES = [(2, 100, 16, 8, 2), (26, 10_000, 16, 64, 1), (26, 10_000, 64, 512, 1), (8, 100_000, 64, 512, 20)]


def ours_and_peer() -> list[str]:
    """The libraries that are there."""
    try:
        importlib.import_module("torchrec")
    except ImportError:
        return ["flambeau.rec"]
    return ["flambeau.rec", "torchrec"]


class Case:
    """One library's collection or model, with inputs of a size.

    Args:
        library: its root module.
        size: see `SIZES`.
    """

    def __init__(self, library: str, size: tuple[int, int, int, int, int]) -> None:
        tables, rows, dim, examples, pooled = size
        configs = importlib.import_module(f"{library}.modules.embedding_configs")
        modules = importlib.import_module(f"{library}.modules.embedding_modules")
        self.sparse = importlib.import_module(f"{library}.sparse.jagged_tensor").KeyedJaggedTensor
        self.keys = [f"f{at}" for at in range(tables)]
        torch.manual_seed(0)
        self.lengths = (
            torch.randint(0, 2 * pooled + 1, (tables * examples,))
            if pooled > 1
            else torch.ones(tables * examples, dtype=torch.int64)
        )
        self.ids = torch.randint(0, rows, (int(self.lengths.sum()),))
        self.collection = modules.EmbeddingBagCollection(
            [configs.EmbeddingBagConfig(rows, dim, f"t{at}", feature_names=[key]) for at, key in enumerate(self.keys)]
        )
        dlrm = importlib.import_module(f"{library}.models.dlrm").DLRM
        self.model = dlrm(self.collection, 13, [64, dim], [64, 1])
        self.dense = torch.randn(examples, 13)

    def features(self) -> Any:
        """A batch as a loader gives it: nothing of it is known yet."""
        return self.sparse(self.keys, self.ids, lengths=self.lengths)

    @torch.no_grad()
    def look_up(self) -> Tensor:
        """Pooled embeddings."""
        return self.collection(self.features()).values()  # type: ignore[no-any-return]

    def differentiate(self) -> None:
        """Pooled embeddings, and gradients of the tables."""
        self.collection.zero_grad()
        self.collection(self.features()).values().sum().backward()

    @torch.no_grad()
    def predict(self) -> Tensor:
        """A DLRM's logits."""
        return self.model(self.dense, self.features())  # type: ignore[no-any-return]


def main() -> None:
    """Print a row for each size and work."""
    chosen = parser(__doc__).parse_args()
    torch.set_num_threads(chosen.threads)
    libraries = ours_and_peer()
    table = Table(f"Collections and DLRM, {chosen.threads} threads", "us", libraries[1:], chosen.markdown)
    for size in SIZES:
        cases = [Case(library, size) for library in libraries]
        tables, rows, dim, examples, pooled = size
        for work in ("look_up", "differentiate", "predict"):
            what = f"{work}: {tables} tables of {rows:,} x {dim}, batch {examples}, {pooled} ids each"
            if chosen.only in what:
                table.row(what, *fastest([getattr(case, work) for case in cases], 7, clock=clock_for(chosen.threads)))


if __name__ == "__main__":
    main()
