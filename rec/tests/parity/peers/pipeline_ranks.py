"""Programs that two processes run with pipelines, trackers and replicated models, on our library or on torchrec."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
import torch._dynamo.config
import torch.distributed as dist
from distributed_ranks import CPU, TABLES, Root, features, parts, placed
from torch import nn

MIXED = ["table_wise", "column_wise", "data_parallel"]


@cache
def batch_type(root: Root) -> Any:
    """A class of batches as loaders give them; upstream takes those of its interface only."""

    class Examples(root("streamable").Pipelineable):  # type: ignore[misc]
        def __init__(self, sparse: Any) -> None:
            self.sparse = sparse

        def to(self, device: torch.device, non_blocking: bool = False) -> Any:
            return Examples(self.sparse.to(device, non_blocking=non_blocking))

        def record_stream(self, stream: Any) -> None:
            self.sparse.record_stream(stream)

        def pin_memory(self) -> Any:
            return self

    return Examples


class Reversed(nn.Module):
    """Gives features in another order, on its way to tables."""

    def forward(self, sparse: Any) -> Any:
        return sparse.permute([3, 2, 1, 0])


class Ranker(nn.Module):
    """Tables, and a layer over them; gives losses and predictions."""

    def __init__(self, tables: nn.Module, pooled: bool, before: nn.Module | None, shared: bool = True) -> None:
        super().__init__()
        self.tables, self.pooled, self.shared = tables, pooled, shared
        if before is not None:
            self.before = before
        self.has_before = before is not None
        self.over = nn.Linear(8, 1)

    def forward(self, examples: Any) -> Any:
        sparse = examples.sparse
        if self.has_before:
            sparse = self.before(sparse)
        found = self.tables(sparse)
        if self.pooled:
            names = ["f1@t1", "f1@t3", "f2@t2", "f2@t5", "f3", "f4"]
            names = names if self.shared else ["f1", "f2", "f3", "f4"]
            rows = sum((at + 1) * found[name] for at, name in enumerate(names))
        else:
            names = ["f1@t1" if self.shared else "f1", "f3", "f4"]
            rows = sum((at + 1) * found[name].values().sum(0, keepdim=True) for at, name in enumerate(names))
        predictions = self.over(rows / 20).square().mean(1)
        return predictions.mean().unsqueeze(0), predictions.detach()


def model(
    root: Root, kinds: list[str], pooled: bool = True, before: bool = False, optimizer: str = "EXACT_SGD",
    wrap: Callable[..., Any] | None = None, names: tuple[str, ...] = ("t1", "t2", "t3", "t4", "t5"),
) -> Any:  # fmt: skip
    """A sharded model with an optimizer of its other parameters."""
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    types = root("distributed.types")
    if pooled:
        tables = [
            configs.EmbeddingBagConfig(
                num_embeddings=rows, embedding_dim=columns, name=name, feature_names=features,
                pooling=configs.PoolingType.SUM,
            )
            for name, rows, columns, features, _ in TABLES if name in names
        ]  # fmt: skip
        collection = modules.EmbeddingBagCollection(tables=tables)
        sharder = root("distributed.embeddingbag").EmbeddingBagCollectionSharder
    else:
        tables = [
            configs.EmbeddingConfig(num_embeddings=rows, embedding_dim=8, name=name, feature_names=features)
            for name, rows, _, features, _ in TABLES
            if name in names
        ]
        collection = modules.EmbeddingCollection(tables=tables)
        sharder = root("distributed.embedding").EmbeddingCollectionSharder
    whole = Ranker(collection, pooled, Reversed() if before else None, shared=len(names) == len(TABLES))
    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for param in whole.parameters():
            param.copy_(torch.rand(param.shape, generator=drawn) - 0.5)
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    plan = types.EmbeddingModuleShardingPlan()
    for at, table in enumerate(tables):
        plan[table.name] = placed(root, kinds[at % len(kinds)], table.num_embeddings, table.embedding_dim, "fused")
    kinds_of = root("fbgemm_gpu.split_embedding_configs").EmbOptimType
    sharders = [sharder(fused_params={"optimizer": kinds_of[optimizer], "learning_rate": 0.1, "eps": 1e-4})]
    place = types.ShardingPlan({"tables": plan})
    if wrap is None:
        dmp = root("distributed.model_parallel").DistributedModelParallel(
            whole, types.ShardingEnv.from_process_group(dist.group.WORLD), CPU, place, sharders
        )
    else:
        dmp = wrap(root, whole, place, sharders)
    overwrite(dmp, start)
    keyed = root("optim.keyed")
    mine = {name: param for name, param in dmp.named_parameters() if name.startswith("over.") or own(dmp, name)}
    dense = keyed.KeyedOptimizerWrapper(mine, lambda params: torch.optim.SGD(params, lr=0.05))
    return dmp, keyed.CombinedOptimizer([dmp.fused_optimizer, dense])


def own(dmp: Any, name: str) -> bool:
    """Whether no kernel trains the parameter."""
    return name not in dict(dmp.fused_optimizer.params) and dict(dmp.named_parameters())[name].numel() > 0


@torch.no_grad()
def overwrite(dmp: Any, start: dict[str, Any]) -> None:
    """Upstream fills tables anew."""
    for name, value in dmp.state_dict().items():
        given = start[name]
        if hasattr(value, "_local_tensor"):
            local = value._local_tensor
            offsets = local.local_offsets() if hasattr(local, "local_offsets") else [(0, 0)]
            for shard, (row, column) in zip(pieces(local), offsets, strict=False):
                shard.copy_(given[row : row + shard.shape[0], column : column + shard.shape[1]])
        elif hasattr(value, "local_shards"):
            for one in value.local_shards():
                (row, column), (height, width) = one.metadata.shard_offsets, one.metadata.shard_sizes
                one.tensor.copy_(given[row : row + height, column : column + width])
        else:
            value.copy_(given)


def pieces(local: Any) -> list[torch.Tensor]:
    return list(local.local_shards()) if hasattr(local, "local_shards") else [local]


def described(value: Any) -> Any:
    """What a process has of a tensor of a state."""
    if hasattr(value, "_local_tensor"):
        local = value._local_tensor
        return {
            "whole": tuple(value.shape),
            "placements": [str(one) for one in value.placements],
            "mesh": value.device_mesh.mesh.tolist(),
            "names": value.device_mesh.mesh_dim_names,
            "here": [one.detach().clone() for one in pieces(local)],
            "offsets": list(local.local_offsets()) if hasattr(local, "local_offsets") else None,
        }
    return parts(value)


def state(dmp: Any) -> Any:
    return {name: described(value) for name, value in sorted(dmp.state_dict().items())}


def given(root: Root, rank: int, count: int = 6, first: int = 0) -> Iterator[Any]:
    return (batch_type(root)(features(root, rank, step)) for step in range(first, first + count))


def drained(pipeline: Any, batches: Iterator[Any]) -> list[torch.Tensor]:
    losses = []
    with contextlib.suppress(StopIteration):
        while True:
            losses.append(pipeline.progress(batches).detach().clone())
    return losses


# ----- pipelines ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def streams_of_the_cpu(root: Root) -> Iterator[None]:
    """Upstream asks for an accelerator's streams on the CPU as well, in pipelines that look up ahead."""
    with pytest.MonkeyPatch.context() as patch, torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        if root.name == "torchrec":
            found = functools.wraps(torch.get_device_module)(lambda device=None: torch.cpu)
            patch.setattr(torch, "get_device_module", found)
            patch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
        yield


def piped(
    root: Root, rank: int, kind: str, kinds: list[str] = MIXED, pooled: bool = True, before: bool = False,
    module: str = "train_pipelines", training: bool = True, epochs: tuple[tuple[int, int], ...] = ((0, 6),),
    **options: Any,
) -> Any:  # fmt: skip
    with streams_of_the_cpu(root):
        dmp, optimizer = model(root, kinds, pooled, before)
        dmp.train(training)
        made = getattr(root(f"distributed.train_pipeline.{module}"), kind)
        pipeline = made(dmp, optimizer, CPU, **options)
        predictions = [drained(pipeline, given(root, rank, count, first)) for first, count in epochs]
    return {"predictions": predictions, "state": state(dmp)}


def plain(root: Root, rank: int, kinds: list[str] = MIXED, pooled: bool = True, before: bool = False) -> Any:
    dmp, optimizer = model(root, kinds, pooled, before)
    predictions = []
    for examples in given(root, rank):
        optimizer.zero_grad()
        losses, output = dmp(examples)
        losses.sum().backward()
        optimizer.step()
        predictions.append(output.clone())
    return {"predictions": predictions, "state": state(dmp)}


PROGRAMS: dict[str, Any] = {}
KNOWN_ERRORS = ("flambeau.rec.errors", "flambeau.rec.distributed.train_pipeline._fused_lookup")


def _add(name: str, program: Callable[..., Any], **options: Any) -> None:
    PROGRAMS[name] = lambda root, rank: program(root, rank, **options)


_PLACES = {
    "table_wise": {"kinds": ["table_wise"]},
    "column_wise": {"kinds": ["column_wise"]},
    "mixed": {"kinds": MIXED},
    "sequences": {"kinds": ["table_wise"], "pooled": False},
}
_TWICE = ((0, 3), (3, 2), (5, 1))
_KINDS: dict[str, dict[str, Any]] = {
    "TrainPipelineBase": {},
    "TrainPipelineSparseDist": {},
    "TrainPipelineSparseDistLite": {},
    "PrefetchTrainPipelineSparseDist": {},
    "TrainPipelineFusedSparseDist": {},
    "TrainPipelineSemiSync": {"start_batch": 900},
    "EvalPipelineSparseDist": {},
    "EvalPipelineFusedSparseDist": {},
    "TrainPipelineSparseDistCompAutograd": {},
}
for _place, _of_place in _PLACES.items():
    _add(f"pipelines/plain/{_place}", plain, **_of_place)
    for _kind, _options in _KINDS.items():
        _add(f"pipelines/{_kind}/{_place}", piped, kind=_kind, **_of_place, **_options)
for _start in (0, 1, 3):
    for _place in ("table_wise", "mixed", "sequences"):
        _add(
            f"pipelines/TrainPipelineSemiSync/{_place} from {_start}",
            piped, kind="TrainPipelineSemiSync", start_batch=_start, **_PLACES[_place],
        )  # fmt: skip
for _kind, _options in _KINDS.items():
    if _kind != "TrainPipelineSparseDistCompAutograd":
        _add(f"pipelines/{_kind}/epochs", piped, kind=_kind, epochs=_TWICE, **_options)
        _add(f"pipelines/{_kind}/evaluation", piped, kind=_kind, training=False, **_options)
for _kind in ("SparseDist", "FusedSparseDist", "SemiSync"):
    _kind = f"TrainPipeline{_kind}"
    _add(f"pipelines/{_kind}/some batches", piped, kind=_kind, execute_all_batches=False)
    _add(f"pipelines/{_kind}/few batches", piped, kind=_kind, execute_all_batches=False, epochs=((0, 2), (2, 1)))
    _add(f"pipelines/{_kind}/before", piped, kind=_kind, pipeline_postproc=True, before=True)
    _add(f"pipelines/{_kind}/not before", piped, kind=_kind, pipeline_postproc=False, before=True)
for _after in (False, True):
    for _clear in (False, True):
        _add(
            f"pipelines/TrainPipelineSparseDist/enqueue after {_after}, clear {_clear}", piped,
            kind="TrainPipelineSparseDist", enqueue_batch_after_forward=_after, clear_data_dist_inputs=_clear,
        )  # fmt: skip
for _stream in ("data_dist", "current", "new", "nothing"):
    _add(
        f"pipelines/TrainPipelineFusedSparseDist/on {_stream}", piped, kind="TrainPipelineFusedSparseDist",
        emb_lookup_stream=_stream,
    )  # fmt: skip
_add(
    "pipelines/TrainPipelineFusedSparseDist/lookup after dist", piped, kind="TrainPipelineFusedSparseDist",
    embedding_lookup_after_data_dist=True,
)  # fmt: skip
_add(
    "pipelines/EvalPipelineFusedSparseDist/prefetch", piped, kind="EvalPipelineFusedSparseDist",
    enable_embedding_lookup_prefetch=True,
)  # fmt: skip
for _start in (0, 2, 900):
    _add(
        f"pipelines/TrainPipelineSemiSync/stashed from {_start}", piped, kind="TrainPipelineSemiSync",
        start_batch=_start, stash_gradients=True, kinds=["table_wise"],
    )  # fmt: skip


# ----- replicated models ----------------------------------------------------------------------------------------------


def replicated(size: int, neighbours: bool, **options: Any) -> Callable[..., Any]:
    def wrap(root: Root, whole: nn.Module, place: Any, sharders: list[Any]) -> Any:
        return root("distributed.model_parallel").DMPCollection(
            module=whole, device=CPU, plan=place, world_size=2, sharding_group_size=size, global_pg=dist.group.WORLD,
            sharders=sharders, use_inter_host_allreduce=neighbours, **options,
        )  # fmt: skip

    return wrap


def two_dimensional(
    root: Root, rank: int, size: int, neighbours: bool = False, kinds: list[str] = MIXED, steps: int = 2,
    optimizer: str = "EXACT_SGD", synced: bool | None = True, hook: bool = False, **options: Any,
) -> Any:  # fmt: skip
    with on_few_processes(size):
        dmp, dense = model(root, kinds, optimizer=optimizer, wrap=replicated(size, neighbours, **options))
    if hook:
        dmp.set_all_reduce_hook(lambda tensors: [one.mul_(2) for one in tensors] and None)
    predictions = []
    for examples in given(root, rank, steps):
        dense.zero_grad()
        losses, output = dmp(examples)
        losses.sum().backward()
        dense.step()
        predictions.append(output.clone())
        if synced is not None:
            with sums_divided(root):
                dmp.sync(include_optimizer_state=synced)
    kept = dmp.fused_optimizer.state_dict()["state"]
    return {
        "predictions": predictions,
        "state": state(dmp),
        "optimizer": {name: {key: described(one) for key, one in values.items()} for name, values in kept.items()},
        "mesh": dmp.device_mesh.mesh.tolist(),
        "names": dmp.device_mesh.mesh_dim_names,
        "plan": str(dmp.plan),
    }


@contextlib.contextmanager
def on_few_processes(size: int) -> Iterator[None]:
    """Within it, plans are made for so many processes."""
    with pytest.MonkeyPatch.context() as patch:
        if size == 1:
            import distributed_ranks

            patch.setattr(distributed_ranks, "RANKS", 1)
        yield


@contextlib.contextmanager
def sums_divided(root: Root) -> Iterator[None]:
    """Upstream asks for means over processes, which gloo has not; here they are sums that are divided."""
    with pytest.MonkeyPatch.context() as patch:
        if root.name == "torchrec":

            def divided(pg: Any, tensors: list[torch.Tensor], options: Any = None) -> Any:
                for one in tensors:
                    dist.all_reduce(one, group=pg)
                    one.div_(dist.get_world_size(pg))

                class Done:
                    def wait(self) -> None:
                        """It is."""

                return Done()

            patch.setattr(torch.distributed.ProcessGroup, "allreduce_coalesced", divided)
        yield


for _size in (1, 2):
    for _neighbours in (False, True):
        for _synced in (None, True):
            _add(
                f"replicated/groups of {_size}, neighbours {_neighbours}, synced {_synced}", two_dimensional,
                size=_size, neighbours=_neighbours, synced=_synced,
            )  # fmt: skip
for _optimizer in ("EXACT_ROWWISE_ADAGRAD", "EXACT_ADAGRAD", "ADAM"):
    for _synced in (False, True):
        _add(
            f"replicated/{_optimizer}, states {_synced}", two_dimensional,
            size=1, kinds=["table_wise"], optimizer=_optimizer, synced=_synced,
        )  # fmt: skip
_add("replicated/by a hook", two_dimensional, size=1, kinds=["table_wise"], hook=True)
for _kind in ("table_wise", "column_wise", "row_wise"):
    _add(f"replicated/{_kind}", two_dimensional, size=2, kinds=[_kind])
    _add(f"replicated/{_kind} of one", two_dimensional, size=1, kinds=[_kind])
_add("replicated/uneven", two_dimensional, size=3)

# ----- trackers -------------------------------------------------------------------------------------------------------


def told(found: dict[str, Any]) -> Any:
    return {
        name: {"ids": rows.ids, "states": rows.states} if hasattr(rows, "ids") else rows
        for name, rows in sorted(found.items())
    }


def tracked(
    root: Root, rank: int, mode: str, kinds: list[str] = MIXED, pooled: bool = False, optimizer: str = "EXACT_SGD",
    steps: int = 3, consumers: list[str] | None = None, cleared: bool = False, **options: Any,
) -> Any:  # fmt: skip
    types = root("distributed.model_tracker.types")
    # Upstream tells one table only of those that share a feature.
    dmp, dense = model(root, kinds, pooled, optimizer=optimizer, names=("t1", "t2", "t4"))
    config = types.DeltaTrackerConfig(tracking_mode=types.TrackingMode(mode), consumers=consumers, **options)
    tracker = dmp.init_torchrec_delta_tracker(config)
    found = {}
    for step, examples in enumerate(given(root, rank, steps)):
        dense.zero_grad()
        losses, _ = dmp(examples)
        losses.sum().backward()
        dense.step()
        if cleared and step == 0:
            tracker.clear(None if consumers is None else consumers[0])
        if consumers is not None:
            found[f"{consumers[0]} at {step}"] = told(tracker.get_unique(consumers[0]))
    found["all"] = told(tracker.get_unique(None if consumers is None else consumers[-1]))
    found["tables"] = {name: list(names) for name, names in tracker.fqn_to_feature_names().items()}
    found["modules"] = sorted(tracker.get_tracked_modules())
    return found


_TRACKED = {
    "id_only": "EXACT_SGD", "embedding": "EXACT_SGD", "momentum_diff": "EXACT_ROWWISE_ADAGRAD",
    "rowwise_adagrad": "EXACT_ROWWISE_ADAGRAD",
}  # fmt: skip
for _mode, _optimizer in _TRACKED.items():
    for _pooled in (False, True):
        for _kind in ("table_wise", "row_wise"):
            _add(
                f"trackers/{_mode}, {_kind}, pooled {_pooled}", tracked,
                mode=_mode, kinds=[_kind], pooled=_pooled, optimizer=_optimizer,
            )  # fmt: skip
    for _name, _options in {
        "consumers": {"consumers": ["a", "b"]},
        "cleared": {"consumers": ["a", "b"], "cleared": True},
        "kept": {"delete_on_read": False},
        "compacted": {"auto_compact": True},
        "without a table": {"fqns_to_skip": ["tables.embeddings.t1"]},
        "without a module": {"fqns_to_skip": ["tables"]},
    }.items():
        _add(
            f"trackers/{_mode}, {_name}", tracked,
            mode=_mode, kinds=["table_wise"], optimizer=_optimizer, **_options,
        )  # fmt: skip
