"""Programs that two processes run, on our library or on torchrec; what each process found is compared."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import sys
import tempfile
import warnings
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CPU = torch.device("cpu")
TABLES = [
    ("t1", 8, 8, ["f1"], "SUM"),
    ("t2", 6, 8, ["f2", "f3"], "SUM"),
    ("t3", 6, 8, ["f1"], "MEAN"),
    ("t4", 5, 8, ["f4"], "SUM"),
    ("t5", 7, 8, ["f2"], "SUM"),
]
RANKS = 2  # that plans are for
KEYS, ROWS = ["f1", "f2", "f3", "f4"], [6, 6, 6, 5]


@dataclass(frozen=True)
class Root:
    """Modules of a library by their paths."""

    name: str

    def __call__(self, path: str) -> Any:
        root = "fbgemm_gpu" if path.startswith("fbgemm_gpu") and self.name == "torchrec" else f"{self.name}"
        return importlib.import_module(path if root == "fbgemm_gpu" else f"{root}.{path}")


# ----- collectives ----------------------------------------------------------------------------------------------------

Shape = tuple[int, ...]


def exchanged(function: Any, shape: Shape, rank: int) -> Any:
    x = (torch.arange(torch.Size(shape).numel()) + 100.0 * rank).view(shape).requires_grad_()
    out = function(x).wait()
    (out * torch.arange(1, out.numel() + 1).view(out.shape)).sum().backward()
    return {"output": out.detach(), "gradient": x.grad}


def ops(root: Root) -> Any:
    return root("distributed.comm_ops")


def pooled(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).alltoall_pooled(x, [2, 1], [3, 2]), (3, [3, 2][rank]), rank)


def pooled_without_examples(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).alltoall_pooled(x, [2, 0], [3, 2]), (2, [3, 2][rank]), rank)


def pooled_without_columns(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).alltoall_pooled(x, [2, 1], [3, 0]), (3, [3, 0][rank]), rank)


def pooled_undivided(root: Root, rank: int) -> Any:
    ops(root).set_gradient_division(False)
    try:
        return pooled(root, rank)
    finally:
        ops(root).set_gradient_division(True)


def variable(root: Root, rank: int) -> Any:
    sizes = [[[1, 2], [2, 0]], [[3], [1]]][rank]
    before = [[1, 2, 3], [2, 0, 1]][rank]
    return exchanged(
        lambda x: ops(root).variable_batch_alltoall_pooled(x, sizes, before, [[1, 2], [3]]), ([7, 12][rank],), rank
    )


def reduced(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).reduce_scatter_base_pooled(x), (4, 2), rank)


def reduced_list(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).reduce_scatter_pooled(list(x.split([2, 2]))), (4, 2), rank)


def reduced_unevenly(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).reduce_scatter_v_pooled(x, [2, 1]), (3, 2), rank)


def reduced_by_feature(root: Root, rank: int) -> Any:
    function = ops(root).reduce_scatter_v_per_feature_pooled
    return exchanged(lambda x: function(x, [[1, 2], [1, 2]], [1, 2]), (10,), rank)


def gathered(root: Root, rank: int) -> Any:
    return exchanged(lambda x: ops(root).all_gather_base_pooled(x), (2, 2), rank)


def sequence(root: Root, rank: int) -> Any:
    recat = torch.tensor([0, 2, 1, 3], dtype=torch.int32)
    lengths = [torch.tensor([[2, 1], [1, 2]]), torch.tensor([[1, 1], [2, 1]])][rank]
    sent, received = [[3, 3], [3, 2]][rank], [[3, 3], [3, 2]][rank]
    return exchanged(
        lambda x: ops(root).alltoall_sequence(x, recat, recat, lengths, sent, received), (int(lengths.sum()), 2), rank
    )


def features(root: Root, rank: int, step: int = 0, variable_batch: bool = False, weighted: bool = False) -> Any:
    drawn = torch.Generator().manual_seed(10 * step + rank)
    jagged = root("sparse.jagged_tensor").KeyedJaggedTensor
    sizes = [1 + (at + rank) % 3 for at in range(4)] if variable_batch else [3] * 4
    lengths = [torch.randint(0, 4, (size,), generator=drawn) for size in sizes]
    values = [torch.randint(0, rows, (int(n.sum()),), generator=drawn) for rows, n in zip(ROWS, lengths, strict=True)]
    weights = torch.rand(sum(map(len, values)), generator=drawn) if weighted else None
    if not variable_batch:
        return jagged(KEYS, torch.cat(values), weights, lengths=torch.cat(lengths))
    inverse = torch.stack([torch.randint(0, size, (3,), generator=drawn) for size in sizes])
    return jagged(
        KEYS,
        torch.cat(values),
        lengths=torch.cat(lengths),
        stride_per_key_per_rank=[[size] for size in sizes],
        inverse_indices=(KEYS, inverse),
    )


def sparse_features(root: Root, rank: int, **options: Any) -> Any:
    given = features(root, rank, **options)
    arrived = root("distributed.dist_data").KJTAllToAll(dist.group.WORLD, [3, 1])(given).wait().wait()
    return {
        "keys": arrived.keys(), "values": arrived.values(), "lengths": arrived.lengths(),
        "weights": arrived.weights_or_none(), "strides": arrived.stride_per_key(),
    }  # fmt: skip


def weighted_features(root: Root, rank: int) -> Any:
    return sparse_features(root, rank, weighted=True)


def variable_features(root: Root, rank: int) -> Any:
    return sparse_features(root, rank, variable_batch=True)


# ----- collections ----------------------------------------------------------------------------------------------------


def placed(root: Root, kind: str, rows: int, columns: int, kernel: str) -> Any:
    types = root("distributed.types")
    spec = importlib.import_module("torch.distributed._shard.sharding_spec")

    def shard(row: int, column: int, height: int, width: int, rank: int) -> Any:
        return spec.ShardMetadata([row, column], [height, width], placement=f"rank:{rank}/cpu")

    if kind == "data_parallel":
        return types.ParameterSharding(kind, "dense", [0, 1])
    if RANKS == 1:
        return types.ParameterSharding(kind, kernel, [0], spec.EnumerableShardingSpec([shard(0, 0, rows, columns, 0)]))
    half = -(-rows // 2)
    shards = {
        "table_wise": [shard(0, 0, rows, columns, rows % 2)],
        "column_wise": [shard(0, 0, rows, columns // 2, 1), shard(0, columns // 2, rows, columns // 2, 0)],
        "row_wise": [shard(0, 0, half, columns, 0), shard(half, 0, rows - half, columns, 1)],
    }[kind]
    ranks = [one.placement.rank() for one in shards]
    return types.ParameterSharding(kind, kernel, ranks, spec.EnumerableShardingSpec(shards))


def parts(value: Any) -> Any:
    """What a process has of a tensor, with where it lies."""
    if hasattr(value, "local_shards"):
        return {
            "whole": tuple(value.size()),
            "all": [
                (one.shard_offsets, one.shard_sizes, str(one.placement)) for one in value.metadata().shards_metadata
            ],
            "here": [(one.metadata.shard_offsets, one.tensor.detach().clone()) for one in value.local_shards()],
        }
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def trained(root: Root, rank: int, kinds: list[str], pooled: bool, kernel: str, optimizer: str, **options: Any) -> Any:
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    types = root("distributed.types")
    torch.manual_seed(0)
    if pooled:
        tables = [
            configs.EmbeddingBagConfig(
                num_embeddings=rows, embedding_dim=columns, name=name, feature_names=names,
                pooling=configs.PoolingType[pooling],
            )
            for name, rows, columns, names, pooling in TABLES
        ]  # fmt: skip
        module = modules.EmbeddingBagCollection(tables=tables, is_weighted=options.get("weighted", False))
        sharder = root("distributed.embeddingbag").EmbeddingBagCollectionSharder
    else:
        tables = [
            configs.EmbeddingConfig(num_embeddings=rows, embedding_dim=8, name=name, feature_names=names)
            for name, rows, _, names, _ in TABLES
        ]
        module = modules.EmbeddingCollection(tables=tables, need_indices=True)
        sharder = root("distributed.embedding").EmbeddingCollectionSharder
    kinds_of = root("fbgemm_gpu.split_embedding_configs").EmbOptimType
    fused = {"optimizer": kinds_of[optimizer], "learning_rate": 0.5, "eps": 1e-4}
    plan = {
        table.name: placed(root, kinds[at % len(kinds)], table.num_embeddings, table.embedding_dim, kernel)
        for at, table in enumerate(tables)
    }
    env = types.ShardingEnv.from_process_group(dist.group.WORLD)
    sharded = sharder(fused_params=fused).shard(module, plan, env, CPU)
    with torch.no_grad():
        # Upstream fills bags anew.
        for name, value in sharded.state_dict().items():
            given = module.state_dict()[name]
            shards = value.local_shards() if hasattr(value, "local_shards") else None
            if shards is None:
                value.copy_(given)
            for one in shards or []:
                (row, column), (height, width) = one.metadata.shard_offsets, one.metadata.shard_sizes
                one.tensor.copy_(given[row : row + height, column : column + width])
    found: dict[str, Any] = {
        "parameters": {name: tuple(one.shape) for name, one in sharded.named_parameters()},
        "sharded": sorted(sharded.sharded_parameter_names()),
    }
    for step in range(2):
        result = sharded(features(root, rank, step, **options))
        if pooled:
            found[f"keys{step}"] = result.keys()
            outputs = dict(zip(result.keys(), result.values().split(result.length_per_key(), 1), strict=True))
        else:
            rows = result.wait()
            found[f"lengths{step}"] = {name: one.lengths() for name, one in rows.items()}
            found[f"ids{step}"] = {name: one.weights() for name, one in rows.items()}
            outputs = {name: one.values() for name, one in rows.items()}
        found[f"outputs{step}"] = {name: one.detach().clone() for name, one in outputs.items()}
        sum((outputs[name] ** 2).sum() * (at + 1) for at, name in enumerate(sorted(outputs))).backward()
        with torch.no_grad():
            for param in sharded.parameters():
                if param.grad is not None:
                    param -= 0.1 * param.grad
            for param in sharded.parameters():
                if param.grad is not None:
                    param.grad = None
    found["state"] = {name: parts(one) for name, one in sharded.state_dict().items()}
    found["optimizer"] = {
        name: {key: parts(value) for key, value in kept.items()}
        for name, kept in sharded.fused_optimizer.state_dict()["state"].items()
    }
    return found


COLLECTIVES = [
    pooled, pooled_without_examples, pooled_without_columns, pooled_undivided, variable, reduced,
    reduced_list, reduced_unevenly, reduced_by_feature, gathered, sequence, sparse_features, weighted_features,
    variable_features,
]  # fmt: skip
PROGRAMS: dict[str, Any] = {f"collectives/{one.__name__}": one for one in COLLECTIVES}
_KINDS = [
    ["table_wise"], ["column_wise"], ["data_parallel"], ["row_wise"], ["table_wise", "column_wise", "data_parallel"],
]  # fmt: skip


def _add(name: str, **options: Any) -> None:
    PROGRAMS[name] = lambda root, rank: trained(root, rank, **options)


for _kinds in _KINDS:
    _optimizers = ["EXACT_SGD"]
    if _kinds != ["data_parallel"]:
        _optimizers += ["EXACT_ROWWISE_ADAGRAD", "EXACT_ADAGRAD"]
    for _optimizer in _optimizers:
        _label = "-".join(_kinds)
        _add(f"bags/{_label}/fused/{_optimizer}", kinds=_kinds, pooled=True, kernel="fused", optimizer=_optimizer)
        _add(f"sequences/{_label}/fused/{_optimizer}", kinds=_kinds, pooled=False, kernel="fused", optimizer=_optimizer)
# Upstream writes beyond its memory, or waits in vain, where rows of spread tables have gradients and where bags have
# batches of their own; tests/distributed holds these against the unsharded modules.
_add("bags/data_parallel/dense", kinds=["data_parallel"], pooled=True, kernel="dense", optimizer="EXACT_SGD")
_add("sequences/data_parallel/dense", kinds=["data_parallel"], pooled=False, kernel="dense", optimizer="EXACT_SGD")


@cache
def results(library: str, module: str = __name__) -> dict[str, list[Any]]:
    """Of each program of a module, what each of two processes found, or the error it met.

    Where a program makes a process crash, processes are started anew for those behind it.
    """
    found: dict[str, list[Any]] = {}
    programs = importlib.import_module(module).PROGRAMS
    while len(found) < len(programs):
        todo = [name for name in programs if name not in found]
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.suppress(mp.ProcessExitedException, mp.ProcessRaisedException):
                mp.spawn(_run, (library, module, folder, todo), nprocs=2)
            parts = [_read(Path(folder) / f"found{rank}") for rank in range(2)]
        done = [name for name in todo if all(name in one for one in parts)]
        found |= {name: [one[name] for one in parts] for name in done}
        if len(done) < len(todo):
            found[todo[len(done)]] = [SystemError("a process crashed, or waited in vain")] * 2
    return found


def _read(path: Path) -> dict[str, Any]:
    """What a process wrote before it ended."""
    found: dict[str, Any] = {}
    if not path.exists():
        return found
    with path.open("rb") as file, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            found |= pickle.load(file)
    return found


def _run(rank: int, library: str, module: str, folder: str, todo: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=20))
    programs = importlib.import_module(module).PROGRAMS
    with (Path(folder) / f"found{rank}").open("wb") as file:
        for name in todo:
            try:
                found = programs[name](Root(library), rank)
            except Exception as error:
                known = ("builtins", *getattr(sys.modules[module], "KNOWN_ERRORS", ()))
                found = error if type(error).__module__ in known else RuntimeError(str(error))
            dist.barrier()
            pickle.dump({name: found}, file)
            file.flush()
    dist.destroy_process_group()
