"""Steps of a sharded model on two processes beside torchrec's, product and peer in turn in the same processes.

    python rec/benchmarks/sharding_benchmarks.py [--markdown] [--only TEXT]

Exchanges are gloo's, each process has one thread. A step is a forward pass, a backward pass that trains the tables, and
the optimizer's step for the rest; times are the best of several repetitions, the larger one of both processes. A ratio
above 1 means that the product is faster. Without torchrec, which `tools/peers.py` installs, only the product is timed.
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from _tables import Table, parser
from embedding_benchmarks import ours_and_peer
from torch import nn
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata

CPU = torch.device("cpu")
# Tables, rows, columns, examples of a process, and the mean number of ids in a bag.
SIZES = [(8, 10_000, 32, 64, 2), (26, 10_000, 64, 512, 2), (8, 100_000, 64, 512, 20)]
KINDS = ["table_wise", "column_wise", "row_wise", "data_parallel"]
WORK = ["step", "pipeline"]
ROUNDS = 9


class Model(nn.Module):
    """Tables, and a layer over them.

    Args:
        tables: the collection.
        columns: of all results.
    """

    def __init__(self, tables: nn.Module, columns: int) -> None:
        super().__init__()
        self.tables, self.over = tables, nn.Linear(columns, 1)

    def forward(self, batch: Any) -> Any:
        """Losses, and predictions."""
        predictions = self.over(self.tables(batch.features).values())
        return predictions.square().mean().unsqueeze(0), predictions.detach()


class Case:
    """One library's sharded model, with batches of a size.

    Args:
        library: its root module.
        size: see `SIZES`.
        kind: how tables are spread.
        rank: of this process.
    """

    def __init__(self, library: str, size: tuple[int, int, int, int, int], kind: str, rank: int) -> None:
        def part(path: str) -> Any:
            root = "fbgemm_gpu" if library == "torchrec" and path.startswith("fbgemm_gpu") else library
            return importlib.import_module(path if root == "fbgemm_gpu" else f"{library}.{path}")

        tables, rows, dim, self.examples, self.pooled = size
        configs, types = part("modules.embedding_configs"), part("distributed.types")
        self.keys, self.rows, self.rank = [f"f{at}" for at in range(tables)], rows, rank
        self.jagged = part("sparse.jagged_tensor").KeyedJaggedTensor
        torch.manual_seed(0)
        collection = part("modules.embedding_modules").EmbeddingBagCollection(
            tables=[
                configs.EmbeddingBagConfig(
                    num_embeddings=rows, embedding_dim=dim, name=f"t{at}", feature_names=[self.keys[at]]
                )
                for at in range(tables)
            ]
        )
        plan = types.EmbeddingModuleShardingPlan()
        for at in range(tables):
            plan[f"t{at}"] = _placed(types, kind, rows, dim, at)
        optimizer = part("fbgemm_gpu.split_embedding_configs").EmbOptimType.EXACT_ROWWISE_ADAGRAD
        sharder = part("distributed.embeddingbag").EmbeddingBagCollectionSharder(
            fused_params={"optimizer": optimizer, "learning_rate": 0.01}
        )
        self.model = part("distributed.model_parallel").DistributedModelParallel(
            Model(collection, tables * dim),
            types.ShardingEnv.from_process_group(dist.group.WORLD),
            CPU,
            types.ShardingPlan({"tables": plan}),
            [sharder],
        )
        dense = [param for name, param in self.model.named_parameters() if name.startswith("over")]
        self.optimizer = torch.optim.SGD(dense, lr=0.01)
        base = part("streamable").Pipelineable

        class Batch(base):  # type: ignore[misc, valid-type]
            def __init__(self, features: Any) -> None:
                self.features = features

            def to(self, device: torch.device, non_blocking: bool = False) -> Any:
                return self

            def record_stream(self, stream: Any) -> None:
                """There is none."""

            def pin_memory(self) -> Any:
                return self

        self.batch = Batch
        self.pipelined: Any = None
        self.kind = part("distributed.train_pipeline").TrainPipelineSparseDist
        self.source = self.batches()

    def batches(self) -> Iterator[Any]:
        """Batches of this process, without an end."""
        drawn = torch.Generator().manual_seed(self.rank)
        given = []
        for _ in range(4):
            lengths = torch.randint(0, 2 * self.pooled + 1, (len(self.keys) * self.examples,), generator=drawn)
            ids = torch.randint(0, self.rows, (int(lengths.sum()),), generator=drawn)
            given.append((ids, lengths))
        while True:
            for ids, lengths in given:
                yield self.batch(self.jagged(self.keys, ids, lengths=lengths))

    def step(self) -> None:
        """One step of the plain loop."""
        self.optimizer.zero_grad()
        losses, _ = self.model(next(self.source))
        losses.sum().backward()
        self.optimizer.step()

    def pipeline(self) -> None:
        """One step of a pipeline that sends features ahead."""
        if self.pipelined is None:
            self.pipelined = self.kind(self.model, self.optimizer, CPU)
        self.pipelined.progress(self.source)


def _placed(types: Any, kind: str, rows: int, dim: int, at: int) -> Any:
    if kind == "data_parallel":
        return types.ParameterSharding(kind, "dense", [0, 1])

    def shard(row: int, column: int, height: int, width: int, rank: int) -> ShardMetadata:
        return ShardMetadata([row, column], [height, width], placement=f"rank:{rank}/cpu")

    shards = {
        "table_wise": [shard(0, 0, rows, dim, at % 2)],
        "column_wise": [shard(0, 0, rows, dim // 2, 0), shard(0, dim // 2, rows, dim // 2, 1)],
        "row_wise": [shard(0, 0, rows // 2, dim, 0), shard(rows // 2, 0, rows // 2, dim, 1)],
    }[kind]
    return types.ParameterSharding(
        kind, "fused", [one.placement.rank() for one in shards], EnumerableShardingSpec(shards)
    )


def _run(rank: int, libraries: list[str], folder: str, only: str, found: Any) -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    for size in SIZES:
        for kind in KINDS:
            for work in WORK:
                what = _described(work, kind, size)
                if only not in what:
                    continue
                cases = [Case(library, size, kind, rank) for library in libraries]
                times = [float("inf")] * len(cases)
                for _ in range(ROUNDS):
                    for at, case in enumerate(cases):
                        times[at] = min(times[at], _timed(getattr(case, work)))
                slowest = torch.tensor(times)
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                if rank == 0:
                    found[what] = slowest.tolist()
    dist.destroy_process_group()


def _timed(step: Any) -> float:
    """Seconds of a step, of three that all processes begin together; infinitely many where it fails."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(3):
        step()
    return (time.perf_counter() - begin) / 3


def _described(work: str, kind: str, size: tuple[int, int, int, int, int]) -> str:
    tables, rows, dim, examples, pooled = size
    return f"{work}, {kind}: {tables} tables of {rows:,} x {dim}, batch {examples}, {pooled} ids each"


def main() -> None:
    """Print a row for each size, kind of sharding and way to train."""
    chosen = parser(__doc__).parse_args()
    libraries = ours_and_peer()
    with tempfile.TemporaryDirectory() as folder, mp.Manager() as manager:
        found = manager.dict()
        mp.spawn(_run, (libraries, folder, chosen.only, found), nprocs=2)
        times = dict(found)
    table = Table("Sharded steps on 2 gloo processes, 1 thread each", "us", libraries[1:], chosen.markdown)
    for what, of_libraries in times.items():
        table.row(what, *of_libraries)


if __name__ == "__main__":
    main()
