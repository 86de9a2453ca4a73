"""Small models, batches and plans for checks on several processes."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata

from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

KEYS = ["f1", "f2", "f3", "f4"]
ROWS = [7, 6, 6, 5]  # ids that all tables of the key have
POOLED_KINDS = [
    "data_parallel",
    "table_wise",
    "column_wise",
    "table_column_wise",
    "row_wise",
    "table_row_wise",
    "grid_shard",
]
SEQUENCE_KINDS = ["data_parallel", "table_wise", "column_wise", "row_wise"]


def bag_tables() -> list[EmbeddingBagConfig]:
    """Tables of both ways of pooling, with a feature of two tables and a table of two features."""
    return [
        EmbeddingBagConfig(num_embeddings=9, embedding_dim=4, name="t1", feature_names=["f1"]),
        EmbeddingBagConfig(num_embeddings=6, embedding_dim=8, name="t2", feature_names=["f2", "f3"]),
        EmbeddingBagConfig(
            num_embeddings=7, embedding_dim=8, name="t3", feature_names=["f1"], pooling=PoolingType.MEAN
        ),
        EmbeddingBagConfig(num_embeddings=5, embedding_dim=4, name="t4", feature_names=["f4"]),
    ]


def sequence_tables() -> list[EmbeddingConfig]:
    """The same, of one width."""
    return [
        EmbeddingConfig(
            num_embeddings=one.num_embeddings, embedding_dim=8, name=one.name, feature_names=one.feature_names
        )
        for one in bag_tables()
    ]


def bags(weighted: bool = False, seed: int = 0) -> EmbeddingBagCollection:
    torch.manual_seed(seed)
    return EmbeddingBagCollection(bag_tables(), is_weighted=weighted)


def sequences(seed: int = 0) -> EmbeddingCollection:
    torch.manual_seed(seed)
    return EmbeddingCollection(sequence_tables(), need_indices=True)


class Ranker(nn.Module):
    """Bags, and a layer over them."""

    def __init__(self, collection: EmbeddingBagCollection) -> None:
        super().__init__()
        self.bags = collection
        self.names = [name for name, *_ in outputs(bag_tables())]
        self.over = nn.Linear(sum(width for _, width in outputs(bag_tables())), 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.bags(features)
        return self.over(torch.cat([pooled[name] + 0 for name in self.names], 1)).square().mean()


def ranker(seed: int = 0) -> Ranker:
    collection = bags(seed=seed)
    torch.manual_seed(seed + 1)
    return Ranker(collection)


def outputs(tables: list) -> list[tuple[str, int]]:
    """Names and widths of results."""
    features = [name for table in tables for name in table.feature_names]
    return [
        (name if features.count(name) == 1 else f"{name}@{table.name}", table.embedding_dim)
        for table in tables
        for name in table.feature_names
    ]


def batch(rank: int, step: int, size: int | None = None, weighted: bool = False) -> KeyedJaggedTensor:
    """A batch of a process: of a size of its own, with empty bags."""
    drawn = torch.Generator().manual_seed(1000 * step + rank)
    size = 2 + (rank + step) % 3 if size is None else size
    lengths = torch.randint(0, 4, (len(KEYS), size), generator=drawn)
    values = [torch.randint(0, rows, (int(n),), generator=drawn) for rows, n in zip(ROWS, lengths.sum(1), strict=True)]
    weights = torch.rand(int(lengths.sum()), generator=drawn) if weighted else None
    return KeyedJaggedTensor(KEYS, torch.cat(values), weights, lengths=lengths.view(-1))


def variable_batch(rank: int, step: int) -> KeyedJaggedTensor:
    """A batch of a process whose keys have batches of their own, for 4 examples."""
    drawn = torch.Generator().manual_seed(1000 * step + rank)
    sizes = [1 + (at + rank + step) % 4 for at in range(len(KEYS))]
    lengths = [torch.randint(0, 4, (size,), generator=drawn) for size in sizes]
    values = [torch.randint(0, rows, (int(n.sum()),), generator=drawn) for rows, n in zip(ROWS, lengths, strict=True)]
    inverse = torch.stack([torch.randint(0, size, (4,), generator=drawn) for size in sizes])
    return KeyedJaggedTensor(
        KEYS,
        torch.cat(values),
        lengths=torch.cat(lengths),
        stride_per_key_per_rank=[[size] for size in sizes],
        inverse_indices=(KEYS, inverse),
    )


def placed(kind: str, table, world_size: int, local_size: int, *, kernel: str = "fused", turn: int = 0):
    """Where a table goes.

    Args:
        kind: a value of `ShardingType`.
        table: the table.
        world_size: processes.
        local_size: processes of a host.
        kernel: what looks it up.
        turn: processes are counted from this one.
    """
    rows, columns = table.num_embeddings, table.embedding_dim

    def shard(row: int, column: int, height: int, width: int, rank: int) -> ShardMetadata:
        return ShardMetadata([row, column], [height, width], placement=f"rank:{rank}/cpu")

    def by_rows(ranks: list[int], column: int, width: int) -> list[ShardMetadata]:
        block = -(-rows // len(ranks))
        starts = [min(block * at, rows) for at in range(len(ranks) + 1)]
        return [shard(starts[at], column, starts[at + 1] - starts[at], width, rank) for at, rank in enumerate(ranks)]

    hosts, half = world_size // local_size, columns // 2
    if kind == "data_parallel":
        return ParameterSharding(kind, "dense", list(range(world_size)))
    if kind == "table_wise":
        shards = [shard(0, 0, rows, columns, (1 + turn) % world_size)]
    elif kind in ("column_wise", "table_column_wise"):
        ranks = [(1 + turn) % world_size, turn % world_size]
        shards = [shard(0, half * at, rows, half, rank) for at, rank in enumerate(ranks)]
    elif kind == "row_wise":
        shards = by_rows(list(range(world_size)), 0, columns)
    elif kind == "table_row_wise":
        host = (hosts - 1 + turn) % hosts
        shards = by_rows([host * local_size + at for at in range(local_size)], 0, columns)
    else:
        shards = []
        for part in range(2):
            host = (part + turn) % hosts
            shards += by_rows([host * local_size + at for at in range(local_size)], part * half, half)
    return ParameterSharding(kind, kernel, [one.placement.rank() for one in shards], EnumerableShardingSpec(shards))


def plan(kinds: list[str], tables: list, world_size: int, local_size: int, **options) -> EmbeddingModuleShardingPlan:
    """A plan for tables; kinds are repeated."""
    return EmbeddingModuleShardingPlan(
        {
            table.name: placed(kinds[at % len(kinds)], table, world_size, local_size, **options)
            for at, table in enumerate(tables)
        }
    )
