"""Programs of sharded modules around tables for two processes, on our library or on torchrec."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from distributed_ranks import CPU, Root, parts, placed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

KEYS = ["f1", "f2", "f3"]


def environment(root: Root) -> Any:
    return root("distributed.types").ShardingEnv.from_process_group(dist.group.WORLD)


def fused(root: Root, optimizer: str = "EXACT_SGD") -> dict[str, Any]:
    kinds = root("fbgemm_gpu.split_embedding_configs").EmbOptimType
    return {"optimizer": kinds[optimizer], "learning_rate": 0.5, "eps": 1e-4}


def batch(
    root: Root, rank: int, step: int = 0, most: int = 8, keys: Any = KEYS, weighted: bool = False, **options: Any
) -> Any:
    """A batch of a process; `lengths` of bags may be given, or `variable` batches of features' own."""
    drawn = torch.Generator().manual_seed(10 * step + rank)
    jagged = root("sparse.jagged_tensor").KeyedJaggedTensor
    sizes = [1 + (at + rank) % 3 for at in range(len(keys))] if options.get("variable") else [2] * len(keys)
    lengths = torch.randint(0, 4, (sum(sizes),), generator=drawn)
    if options.get("even"):
        lengths = torch.full_like(lengths, 2)
    ids = torch.randint(0, most, (int(lengths.sum()),), generator=drawn)
    weights = torch.rand(len(ids), generator=drawn) if weighted else None
    if not options.get("variable"):
        return jagged(list(keys), ids, weights, lengths=lengths)
    inverse = torch.stack([torch.randint(0, size, (3,), generator=drawn) for size in sizes])
    return jagged(
        list(keys), ids, weights, lengths=lengths, stride_per_key_per_rank=[[size] for size in sizes],
        inverse_indices=(list(keys), inverse),
    )  # fmt: skip


def filled(module: nn.Module) -> None:
    """The same weights in every process and library."""
    with torch.no_grad():
        for name, value in sorted(module.state_dict().items()):
            seed = sum(map(ord, name.rpartition("embedding")[2]))
            shards = value.local_shards() if hasattr(value, "local_shards") else None
            if not (value.dtype if shards is None else torch.float32).is_floating_point or "_mch_" in name:
                continue
            whole = torch.rand(tuple(value.size()), generator=torch.Generator().manual_seed(seed))
            if shards is None:
                value.copy_(whole)
            for one in shards or []:
                if one.tensor.is_floating_point():
                    place = zip(one.metadata.shard_offsets, one.metadata.shard_sizes, strict=True)
                    one.tensor.copy_(whole[tuple(slice(at, at + size) for at, size in place)])


def described(module: nn.Module) -> dict[str, Any]:
    optimizer = getattr(module, "fused_optimizer", None)
    return {
        "parameters": {name: tuple(one.shape) for name, one in sorted(module.named_parameters())},
        "sharded": sorted(module.sharded_parameter_names()),
        "sharded within": sorted(module.sharded_parameter_names("within")),
        "state": {name: parts(one) for name, one in sorted(module.state_dict().items())},
        "optimizer": None if optimizer is None else sorted(optimizer.params),
    }


def _loss(named: dict[str, torch.Tensor]) -> torch.Tensor:
    return sum((named[name] ** 2).sum() * (at + 1) for at, name in enumerate(sorted(named)))  # type: ignore[return-value]


# ----- weighted features ----------------------------------------------------------------------------------------------


def processed(root: Root, rank: int, kinds: list[str], together: bool, optimizer: str, **options: Any) -> Any:
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    processors, collections = root("modules.feature_processor_"), root("modules.fp_embedding_modules")
    sharding = root("distributed.fp_embeddingbag")
    tables = [
        configs.EmbeddingBagConfig(num_embeddings=8, embedding_dim=8, name=f"t{at}", feature_names=names)
        for at, names in enumerate([["f1"], ["f2", "f3"], ["f3"]][: options.pop("tables", 2)])
    ]
    bags = modules.EmbeddingBagCollection(tables=tables, is_weighted=True)
    each = {key: processors.PositionWeightedModule(4) for key in KEYS}
    weighs = processors.PositionWeightedModuleCollection(dict.fromkeys(KEYS, 4)) if together else each
    module = collections.FeatureProcessedEmbeddingBagCollection(bags, weighs)
    plan = {
        one.name: placed(root, kinds[at % len(kinds)], 8, 8, "dense" if kinds == ["data_parallel"] else "fused")
        for at, one in enumerate(tables)
    }
    inside = root("distributed.embeddingbag").EmbeddingBagCollectionSharder(fused_params=fused(root, optimizer))
    sharder = sharding.FeatureProcessedEmbeddingBagCollectionSharder(inside)
    sharded = sharder.shard(module, plan, environment(root), CPU)
    filled(sharded)
    found = described(sharded)
    for step in range(2):
        pooled = sharded(batch(root, rank, step, **options))
        named = pooled.to_dict()
        found[f"pooled{step}"] = {name: one.detach().clone() for name, one in named.items()}
        _loss(named).backward()
        own = dict(sharded._feature_processors.named_parameters())
        found[f"gradients{step}"] = {name: one.grad.clone() for name, one in own.items() if one.grad is not None}
        for param in sharded.parameters():
            param.grad = None
    found["trained"] = {name: parts(one) for name, one in sharded.state_dict().items()}
    return found


# ----- managed collisions ---------------------------------------------------------------------------------------------


def _collisions(root: Root, pooled: bool, policy: str, anew: bool, remapped: bool) -> Any:
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    collisions, collections = root("modules.mc_modules"), root("modules.mc_embedding_modules")
    kind = configs.EmbeddingBagConfig if pooled else configs.EmbeddingConfig
    tables = [
        kind(num_embeddings=8, embedding_dim=8, name="t1", feature_names=["f1"]),
        kind(num_embeddings=12, embedding_dim=8, name="t2", feature_names=["f2", "f3"]),
    ]
    for table in tables:
        table.init_fn = partial(nn.init.constant_, val=0.25)
    if policy == "hash":
        make = root("modules.hash_mc_modules").HashZchManagedCollisionModule
        managers = {
            one.name: make(one.num_embeddings, CPU, total_num_buckets=2, max_probe=4, input_hash_size=100)
            for one in tables
        }
    else:
        managers = {
            one.name: collisions.MCHManagedCollisionModule(
                zch_size=one.num_embeddings, device=CPU, eviction_policy=getattr(collisions, policy)(),
                eviction_interval=2, input_hash_size=100,
            )
            for one in tables
        }  # fmt: skip
    base = modules.EmbeddingBagCollection(tables=tables) if pooled else modules.EmbeddingCollection(tables=tables)
    joined = collisions.ManagedCollisionCollection(managers, tables)
    name = "ManagedCollisionEmbeddingBagCollection" if pooled else "ManagedCollisionEmbeddingCollection"
    module = getattr(collections, name)(
        base, joined, return_remapped_features=remapped, allow_in_place_embed_weight_update=anew
    )
    return module, tables


def collided(
    root: Root, rank: int, pooled: bool, policy: str, anew: bool = False, remapped: bool = True,
    optimizer: str = "EXACT_SGD", keys: Any = KEYS, steps: int = 4,
) -> Any:  # fmt: skip
    module, tables = _collisions(root, pooled, policy, anew, remapped)
    if pooled:
        inside = root("distributed.embeddingbag").EmbeddingBagCollectionSharder(fused_params=fused(root, optimizer))
        sharder = root("distributed.mc_embeddingbag").ManagedCollisionEmbeddingBagCollectionSharder(inside)
    else:
        inside = root("distributed.embedding").EmbeddingCollectionSharder(fused_params=fused(root, optimizer))
        sharder = root("distributed.mc_embedding").ManagedCollisionEmbeddingCollectionSharder(inside)
    plan = {one.name: placed(root, "row_wise", one.num_embeddings, 8, "fused") for one in tables}
    sharded = sharder.shard(module, plan, environment(root), CPU)
    filled(sharded)
    if policy == "hash":
        sharded.eval()  # upstream's kernel for the CPU only looks up
    found = described(sharded)
    for step in range(steps):
        embeddings, rows = sharded(batch(root, rank, step, most=100, keys=keys, even=True))
        rows = rows.wait()
        if rows is not None:
            found[f"rows{step}"] = {"keys": rows.keys(), "values": rows.values(), "lengths": rows.lengths()}
        waited = embeddings.wait()
        named = waited.to_dict() if pooled else {name: one.values() for name, one in waited.items()}
        found[f"embeddings{step}"] = {name: one.detach().clone() for name, one in named.items()}
        _loss(named).backward()
        collection = sharded._managed_collision_collection
        found[f"open{step}"] = collection.open_slots()
    found["trained"] = {name: parts(one) for name, one in sorted(sharded.state_dict().items())}
    found["optimizer states"] = {
        name: {key: parts(value) for key, value in kept.items()}
        for name, kept in sharded._embedding_module.fused_optimizer.state_dict()["state"].items()
    }
    return found


def collided_elsewhere(root: Root, rank: int, kind: str) -> Any:
    module, tables = _collisions(root, True, "LFU_EvictionPolicy", False, True)
    sharder = root("distributed.mc_embeddingbag").ManagedCollisionEmbeddingBagCollectionSharder()
    plan = {one.name: placed(root, kind, one.num_embeddings, 8, "fused") for one in tables}
    try:
        sharder.shard(module, plan, environment(root), CPU)
    except AssertionError:  # ours are, too
        return "refused"
    return "made"


# ----- towers ---------------------------------------------------------------------------------------------------------


class Interaction(nn.Module):
    def __init__(self, names: list[str], width: int, pooled: bool) -> None:
        super().__init__()
        self.names, self.pooled = names, pooled
        self.linear = nn.Linear(8 * len(names), width)

    def forward(self, given: Any) -> torch.Tensor:
        if self.pooled:
            parts_ = [given[name] for name in self.names]
        else:
            parts_ = [torch.stack([bag.sum(0) for bag in given[name].to_dense()]) for name in self.names]
        return self.linear(torch.cat(parts_, 1))


def _without_devices(module: Any) -> None:
    """Upstream hands the CPU to data parallelism as a device, which that refuses; towers are compared without."""
    for name, value in list(vars(module).items()):
        if value is DistributedDataParallel:

            def wrapped(*args: Any, device_ids: Any = None, **options: Any) -> Any:
                return DistributedDataParallel(*args, **options)

            setattr(module, name, wrapped)


def _tower(root: Root, number: int, names: list[str], width: int, pooled: bool = True, weighted: bool = False) -> Any:
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    kind = configs.EmbeddingBagConfig if pooled else configs.EmbeddingConfig
    tables = [kind(num_embeddings=8, embedding_dim=8, name=f"t{number}_{name}", feature_names=[name]) for name in names]
    base = (
        modules.EmbeddingBagCollection(tables=tables, is_weighted=weighted)
        if pooled
        else modules.EmbeddingCollection(tables=tables)
    )
    tower = root("modules.embedding_tower").EmbeddingTower(base, Interaction(names, width, pooled))
    return tower, [one.name for one in tables]


def _on(root: Root, kind: str, host: int, hosts: int) -> Any:
    """A table on a host of as many as there are."""
    if hosts == 1:
        inside = placed(root, {"table_row_wise": "row_wise", "table_column_wise": "column_wise"}[kind], 8, 8, "fused")
        inside.sharding_type = kind
        return inside
    from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata

    spec = EnumerableShardingSpec([ShardMetadata([0, 0], [8, 8], placement=f"rank:{host}/cpu")])
    return root("distributed.types").ParameterSharding(kind, "fused", [host], spec)


def towered(
    root: Root, rank: int, kinds: list[str], hosts: int, host: int = 0, pooled: bool = True, weighted: bool = False,
    optimizer: str = "EXACT_SGD", several: bool = False,
) -> Any:  # fmt: skip
    sharding = root("distributed.embedding_tower_sharding")
    if root.name == "torchrec":
        _without_devices(sharding)
    before = os.environ["LOCAL_WORLD_SIZE"]
    os.environ["LOCAL_WORLD_SIZE"] = str(2 // hosts)
    torch.manual_seed(0)
    try:
        if several:
            made = [
                _tower(root, 0, ["f1", "f2"], 3),
                _tower(root, 1, ["f3"], 2),
                _tower(root, 2, ["f1"], 2, weighted=True),
            ]
            module = root("modules.embedding_tower").EmbeddingTowerCollection([one for one, _ in made])
            plan = {
                name: _on(root, kinds[at % len(kinds)], (host + number) % hosts if number else host, hosts)
                for number, (_, names) in enumerate(made)
                for at, name in enumerate(names)
            }
            sharder = sharding.EmbeddingTowerCollectionSharder(fused(root, optimizer))
        else:
            module, names = _tower(root, 0, ["f1", "f3"], 3, pooled, weighted)
            plan = {name: _on(root, kinds[at % len(kinds)], host, hosts) for at, name in enumerate(names)}
            sharder = sharding.EmbeddingTowerSharder(fused(root, optimizer))
        sharded = sharder.shard(module, plan, environment(root), CPU)
        filled(sharded)
        found = described(sharded)
        # Adagrad makes differences of rounding large, step by step.
        for step in range(2 if optimizer == "EXACT_SGD" else 1):
            given = batch(root, rank, step, weighted=weighted)
            extra = [batch(root, rank, step, weighted=True)] if several else []
            result = sharded(given, *extra).wait()
            found[f"result{step}"] = result.detach().clone()
            (result * torch.arange(1, result.shape[1] + 1)).square().sum().backward()
            found[f"gradients{step}"] = {
                name: one.grad.clone() for name, one in sharded.named_parameters() if one.grad is not None
            }
            for param in sharded.parameters():
                param.grad = None
        found["trained"] = {name: parts(one) for name, one in sorted(sharded.state_dict().items())}
        return found
    finally:
        os.environ["LOCAL_WORLD_SIZE"] = before


# ----- others ---------------------------------------------------------------------------------------------------------


def hooked(root: Root, rank: int) -> Any:
    """Which hooks of a sharded collection's modules are called, and what optimizers call their states."""
    configs, modules = root("modules.embedding_configs"), root("modules.embedding_modules")
    tables = [
        configs.EmbeddingBagConfig(num_embeddings=8, embedding_dim=8, name=f"t{at}", feature_names=[f"f{at + 1}"])
        for at in range(2)
    ]
    sharder = root("distributed.embeddingbag").EmbeddingBagCollectionSharder(fused_params=fused(root, "EXACT_ADAGRAD"))
    plan = {
        "t0": placed(root, "table_wise", 8, 8, "fused"),
        "t1": placed(root, "data_parallel", 8, 8, "dense"),
    }
    sharded = sharder.shard(modules.EmbeddingBagCollection(tables=tables), plan, environment(root), CPU)
    called: list[str] = []
    for name, one in sharded.named_modules():
        one.register_forward_hook(lambda module, given, result, name=name: called.append(name))
    sharded(batch(root, rank)).values().sum().backward()
    keyed, own = root("optim.keyed"), sharded.fused_optimizer
    rest = {name: one for name, one in sharded.named_parameters() if name not in own.params and one.numel()}
    outside = keyed.KeyedOptimizerWrapper(rest, lambda params: torch.optim.Adagrad(params, lr=0.1))
    joined = keyed.CombinedOptimizer([("", own), ("", outside)])
    return {"called": called, "states": {name: sorted(kept) for name, kept in joined.state_dict()["state"].items()}}


def own_collective(root: Root, rank: int) -> Any:
    ops = root("distributed.comm_ops")
    calls: list[Any] = []

    class Counted(ops.DefaultAll2AllSingle):  # type: ignore[name-defined, misc]
        def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
            calls.append(("memory", tuple(size), str(dtype)))
            return super().allocate(size, dtype=dtype, device=device)  # type: ignore[no-any-return]

        def __call__(self, *args: Any, **options: Any) -> Any:
            calls.append((len(args), sorted(options)))
            return super().__call__(*args, **options)

    given = torch.ones(3, [3, 2][rank], requires_grad=True)
    result = ops.alltoall_pooled(given, [2, 1], [3, 2], all_to_all_single_comm=Counted()).wait()
    result.sum().backward()
    return {"calls": calls, "result": result.detach(), "gradient": given.grad}


def in_graphs(root: Root, rank: int, name: str, divided: bool) -> Any:
    root("distributed.comm_ops")
    group = dist.group.WORLD.group_name
    given = (torch.arange(4.0).view(2, 2) + 10 * rank).requires_grad_()
    if name == "all_to_all":
        ops = root("distributed.comm_ops")
        result = ops.AllToAllSingle.apply(given, [1, 1], [1, 1], group, 2, divided) + 0
    else:
        spaces = torch.ops.torchrec if root.name == "torchrec" else torch.ops.flambeau_rec
        first = "sum" if name == "reduce_scatter_tensor" else 0
        result = getattr(spaces, name)(given, first, 2, group, divided)
    (result * (rank + 1)).sum().backward()
    return {"result": result.detach() + 0, "gradient": given.grad + 0}


POOLED_KINDS = [
    ["table_wise"], ["column_wise"], ["row_wise"], ["data_parallel"], ["table_wise", "column_wise"],
    ["table_wise", "row_wise"],
]  # fmt: skip
PROGRAMS: dict[str, Any] = {}


def _add(name: str, function: Any, /, **options: Any) -> None:
    PROGRAMS[name] = lambda root, rank: function(root, rank, **options)


for _kinds in POOLED_KINDS:
    for _together in (True, False):
        for _optimizer in ("EXACT_SGD",) if _kinds == ["data_parallel"] else ("EXACT_SGD", "EXACT_ROWWISE_ADAGRAD"):
            _label = f"{'-'.join(_kinds)}/{'together' if _together else 'each'}/{_optimizer}"
            _add(f"processed/{_label}", processed, kinds=_kinds, together=_together, optimizer=_optimizer)
    if _kinds != ["data_parallel"]:
        _add(
            f"processed/{'-'.join(_kinds)}/variable", processed, kinds=_kinds, together=True, optimizer="EXACT_SGD",
            variable=True,
        )  # fmt: skip
for _policy in ("LFU_EvictionPolicy", "LRU_EvictionPolicy", "DistanceLFU_EvictionPolicy", "hash"):
    for _pooled in (True, False):
        _base = f"collided/{'bags' if _pooled else 'sequences'}/{_policy}"
        # Upstream needs an accelerator to begin means of squared gradients anew.
        for _optimizer in ("EXACT_SGD", "EXACT_ADAGRAD", *(["EXACT_ROWWISE_ADAGRAD"] if _policy == "hash" else [])):
            # Adagrad makes differences of rounding large, step by step.
            _steps = 4 if _optimizer == "EXACT_SGD" else 2
            _add(f"{_base}/{_optimizer}", collided, pooled=_pooled, policy=_policy, optimizer=_optimizer, steps=_steps)
        _add(f"{_base}/alone", collided, pooled=_pooled, policy=_policy, remapped=False)
        _add(f"{_base}/order", collided, pooled=_pooled, policy=_policy, keys=["f3", "f1", "other", "f2"])
        if _policy != "hash":
            _add(f"{_base}/anew", collided, pooled=_pooled, policy=_policy, anew=True)
for _kind in ("table_wise", "column_wise", "data_parallel"):
    _add(f"collided/elsewhere/{_kind}", collided_elsewhere, kind=_kind)


def tower_programs(hosts: int, host: int) -> dict[str, Any]:
    """Programs of towers on one of several hosts; torchrec keeps the groups of the first number of hosts it met."""
    found: dict[str, Any] = {}
    for kinds in (["table_row_wise"], ["table_column_wise"], ["table_row_wise", "table_column_wise"]):
        base, common = f"towers/{hosts}-{host}/{'-'.join(kinds)}", {"kinds": kinds, "hosts": hosts, "host": host}
        for label, options in {
            "one/EXACT_SGD": {}, "one/EXACT_ROWWISE_ADAGRAD": {"optimizer": "EXACT_ROWWISE_ADAGRAD"},
            "weighted": {"weighted": True}, "sequences": {"pooled": False}, "several": {"several": True},
        }.items():  # fmt: skip
            found[f"{base}/{label}"] = partial(towered, **common, **options)
    return found


PROGRAMS |= tower_programs(1, 0)
_add("others/hooks", hooked)
_add("others/collective", own_collective)
for _name in ("all_to_all", "reduce_scatter_tensor", "all_gather_into_tensor"):
    for _divided in (True, False):
        _add(f"others/{_name}/{_divided}", in_graphs, name=_name, divided=_divided)
