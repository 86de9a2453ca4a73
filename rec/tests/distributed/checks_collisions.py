"""Checks that tables whose collisions are managed map, compute and train as the unsharded ones would of each part."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checks_faults import raised
from checks_training import CPU, env, full_batch, whole
from models import placed
from processes import World

from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.mc_embedding import ManagedCollisionEmbeddingCollectionSharder
from flambeau.rec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.hash_mc_modules import HashZchManagedCollisionModule
from flambeau.rec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from flambeau.rec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    LFU_EvictionPolicy,
    LRU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

LR, ROWS, IDS = 0.5, 16, 400
KEYS = ["f1", "f2", "f3"]
POLICIES = {"lfu": LFU_EvictionPolicy, "lru": LRU_EvictionPolicy, "distance": DistanceLFU_EvictionPolicy}


def hashed(ids: torch.Tensor, size: int) -> torch.Tensor:
    return (ids * 7919 + 3) % size


def tables(pooled: bool) -> list:
    kind = EmbeddingBagConfig if pooled else EmbeddingConfig
    made = [
        kind(num_embeddings=ROWS, embedding_dim=4, name="t1", feature_names=["f1"]),
        kind(num_embeddings=2 * ROWS, embedding_dim=4, name="t2", feature_names=["f2", "f3"]),
    ]
    if pooled:
        made[1].pooling = PoolingType.MEAN
    for table in made:
        table.init_fn = partial(torch.nn.init.constant_, val=0.25)
    return made


def manager(how: str, rows: int):
    """What manages collisions, of all rows."""
    if how.startswith("hash"):
        return HashZchManagedCollisionModule(
            rows, CPU, total_num_buckets=4, max_probe=3, input_hash_size=0 if how == "hash-unbounded" else IDS,
            disable_fallback=how == "hash-missing",
        )  # fmt: skip
    return MCHManagedCollisionModule(
        rows, CPU, POLICIES[how.partition("-")[0]](), 2, input_hash_size=IDS,
        input_hash_func=hashed if how.endswith("-hashed") else None,
    )  # fmt: skip


def module(pooled: bool, how: str, *, anew: bool = False, need_indices: bool = False, weighted: bool = False):
    torch.manual_seed(0)
    configs = tables(pooled)
    managers = ManagedCollisionCollection({one.name: manager(how, one.num_embeddings) for one in configs}, configs)
    if pooled:
        base = EmbeddingBagCollection(configs, is_weighted=weighted)
        kind = ManagedCollisionEmbeddingBagCollection
    else:
        base = EmbeddingCollection(configs, need_indices=need_indices)
        kind = ManagedCollisionEmbeddingCollection
    made = kind(base, managers, return_remapped_features=True, allow_in_place_embed_weight_update=anew)
    with torch.no_grad():
        for at, param in enumerate(made._embedding_module.parameters()):
            param.copy_(torch.rand(param.shape, generator=torch.Generator().manual_seed(at)))
    return made


def sharded(world: World, made, *, once: bool = False):
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LR}
    if isinstance(made, ManagedCollisionEmbeddingBagCollection):
        sharder = ManagedCollisionEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(fused))
    else:
        sharder = ManagedCollisionEmbeddingCollectionSharder(EmbeddingCollectionSharder(fused, use_index_dedup=once))
    plan = {
        table.name: placed("row_wise", table, world.size, 1)
        for table in made._managed_collision_collection.embedding_configs()
    }
    return sharder.shard(made, plan, env(), CPU)


def batch(rank: int, step: int, *, weighted: bool = False, most: int = IDS) -> KeyedJaggedTensor:
    drawn = torch.Generator().manual_seed(1000 * step + rank)
    lengths = torch.randint(0, 5, (len(KEYS) * 3,), generator=drawn)
    count = int(lengths.sum())
    ids = torch.randint(0, most, (count,), generator=drawn)
    ids = torch.where(torch.rand(count, generator=drawn) < 0.5, ids % 23, ids)  # some come often
    return KeyedJaggedTensor(KEYS, ids, torch.rand(count, generator=drawn) if weighted else None, lengths=lengths)


def variable(rank: int, step: int) -> KeyedJaggedTensor:
    drawn = torch.Generator().manual_seed(1000 * step + rank)
    sizes = [1 + (at + rank + step) % 3 for at in range(len(KEYS))]
    lengths = [torch.randint(0, 5, (size,), generator=drawn) for size in sizes]
    count = int(torch.cat(lengths).sum())
    inverse = torch.stack([torch.randint(0, size, (3,), generator=drawn) for size in sizes])
    return KeyedJaggedTensor(
        KEYS, torch.randint(0, IDS, (count,), generator=drawn), lengths=torch.cat(lengths),
        stride_per_key_per_rank=[[size] for size in sizes], inverse_indices=(KEYS, inverse),
    )  # fmt: skip


class Parts:
    """The unsharded modules, one for each part of ids and rows: what processes together should be."""

    def __init__(self, world: World, made) -> None:
        self.world, self.made = world, made
        collection = made._managed_collision_collection
        self.configs, self.need_preprocess = collection.embedding_configs(), collection.need_preprocess
        self.managers, self.segments = {}, {}
        for table in self.configs:
            one, size = collection._managed_collision_modules[table.name], table.num_embeddings // world.size
            bounds = [size * at for at in range(world.size + 1)]
            segments = getattr(one, "_output_segments", bounds)
            self.managers[table.name] = [
                one.rebuild_with_output_id_range((bounds[at], bounds[at + 1]), segments, CPU)
                for at in range(world.size)
            ]

    def part(self, one, ids: torch.Tensor) -> torch.Tensor:
        """The process of each id."""
        size = self.world.size
        if hasattr(one, "input_mapper"):
            buckets = one.buckets()
            bucket = ids % buckets if not one.input_size() else ids // -(-one.input_size() // buckets)
            return bucket // (buckets // size)
        return ids // -(-one.input_size() // size)

    def mapped(self, given: list[KeyedJaggedTensor]) -> list[KeyedJaggedTensor]:
        """Batches of all processes with rows in place of ids, where every id has one."""
        rows = [one.values().clone() for one in given]
        for table in self.configs:
            managers, pieces = self.managers[table.name], []
            for key in table.feature_names:
                for rank, one in enumerate(given):
                    at = one.keys().index(key)
                    ends = one.offset_per_key()
                    ids = one.values()[ends[at] : ends[at + 1]]
                    if self.need_preprocess:
                        ids = managers[0].preprocess({"x": jagged(ids)})["x"].values()
                    pieces.append((rank, slice(ends[at], ends[at + 1]), ids))
            joined = torch.cat([ids for *_, ids in pieces])
            found = torch.empty_like(joined)
            parts = self.part(managers[0], joined)
            for number, one in enumerate(managers):
                mine = parts == number
                features = jagged(joined[mine])
                mapped = one.rows_of(features) if hasattr(one, "rows_of") else one({"x": features})["x"].values()
                found[mine] = mapped
            for (rank, place, _), values in zip(pieces, found.split([len(ids) for *_, ids in pieces]), strict=True):
                rows[rank][place] = values
        return [left(one, values) for one, values in zip(given, rows, strict=True)]

    def evict(self) -> dict:
        found = {}
        for name, managers in self.managers.items():
            rows = [one.evict() for one in managers]
            rows = [one for one in rows if one is not None]
            found[name] = torch.cat(rows) if rows else None
        return found


def jagged(ids: torch.Tensor) -> JaggedTensor:
    return JaggedTensor(ids, lengths=torch.ones(len(ids), dtype=torch.int64))


def left(features: KeyedJaggedTensor, rows: torch.Tensor) -> KeyedJaggedTensor:
    """Features with rows in place of ids, without ids that have none."""
    kept, lengths = rows >= 0, features.lengths()
    counts = torch.stack([one.sum() for one in kept.split(lengths.tolist())]) if len(lengths) else lengths
    weights = features.weights_or_none()
    uneven = features.variable_stride_per_key()
    return KeyedJaggedTensor(
        features.keys(), rows[kept], None if weights is None else weights[kept], lengths=counts.to(lengths.dtype),
        stride_per_key_per_rank=features.stride_per_key_per_rank() if uneven else None,
        inverse_indices=features.inverse_indices_or_none(),
    )  # fmt: skip


def losses(pooled: bool, found) -> torch.Tensor:
    names = KEYS
    if pooled:
        return sum((found[name] ** 2).mean() * (at + 1) for at, name in enumerate(names))
    return sum((found[name].values() ** 2).sum() * (at + 1) for at, name in enumerate(names))


def _compare(
    world: World, pooled: bool, how: str, source, *, anew=False, once=False, need_indices=False, weighted=False
):
    options = {"anew": anew, "need_indices": need_indices, "weighted": weighted}
    what = f"pooled {pooled}, {how}, {source.__name__}, once {once}, {options}"
    model, alone = sharded(world, module(pooled, how, **options), once=once), module(pooled, how, **options)
    parts = Parts(world, alone)
    for step in range(5):
        extra = {"weighted": True} if weighted else {}
        given = [source(rank, step, **extra) for rank in range(world.size)]
        found, rows = model(given[world.rank])
        mapped = parts.mapped(given)
        message = partial("{}, step {}: {}".format, what, step)
        mine = mapped[world.rank]
        torch.testing.assert_close(rows.values(), mine.values(), msg=message)
        assert torch.equal(rows.lengths().long(), mine.lengths().long()), message("lengths of rows")
        if weighted:
            torch.testing.assert_close(rows.weights(), mine.weights(), msg=message)
        begin_anew(alone, parts.evict())
        if pooled:
            wanted = [alone._embedding_module(one) for one in mapped]
        else:
            wanted = [alone._embedding_module(full_batch(one)) for one in mapped]
        found = found.wait()
        for name in KEYS:
            one, other = found[name], wanted[world.rank][name]
            if pooled:
                torch.testing.assert_close(one, other, msg=message)
                continue
            torch.testing.assert_close(one.values(), other.values(), msg=message)
            assert torch.equal(one.lengths().long(), other.lengths().long()), message("lengths")
            if need_indices:
                assert torch.equal(one.weights(), other.weights()), message("rows as weights")
        losses(pooled, found).backward()
        alone.zero_grad()
        (sum(losses(pooled, one) for one in wanted) / world.size).backward()
        with torch.no_grad():
            for param in alone._embedding_module.parameters():
                param -= LR * param.grad
    state = model.state_dict()
    assert set(state) == set(alone.state_dict()), what
    for name, param in alone.named_parameters():
        if "_embedding_module" in name:
            for offsets, piece in whole(state[name]):
                row = offsets[0]
                torch.testing.assert_close(
                    piece,
                    param[row : row + len(piece)].detach(),
                    rtol=1e-4,
                    atol=1e-5,
                    msg=partial("{}: {}".format, what),
                )


def begin_anew(alone, evicted: dict) -> None:
    inside = alone._embedding_module
    held = inside.embedding_bags if hasattr(inside, "embedding_bags") else inside.embeddings
    for name, rows in evicted.items():
        if rows is not None:
            held[name].weight.data[rows] = 0.25


def check_rows_of_ids_are_those_of_each_part_by_itself_and_train_as_them(world: World):
    for pooled in (True, False):
        for how in ("lfu", "lru", "distance", "distance-hashed", "hash", "hash-unbounded", "hash-missing"):
            _compare(world, pooled, how, batch)


def check_rows_that_change_hands_begin_anew(world: World):
    for pooled in (True, False):
        for how in ("lru", "distance"):
            _compare(world, pooled, how, batch, anew=True)


def check_batches_of_features_own_are_mapped_and_looked_up(world: World):
    for pooled in (True, False):
        for how in ("lru", "hash", "hash-missing"):
            _compare(world, pooled, how, variable)


def check_weights_of_ids_stay_with_them(world: World):
    for how in ("lru", "hash-missing"):
        _compare(world, True, how, batch, weighted=True)


def check_rows_are_given_as_weights_of_sequences_where_that_is_asked_for(world: World):
    for how in ("lru", "hash", "hash-missing"):
        for source in (batch, variable):
            _compare(world, False, how, source, need_indices=True)


def check_ids_that_are_sent_once_get_the_same_rows(world: World):
    # What is counted differs by it, so that only modules that do not count give the same.
    for how in ("hash", "hash-missing", "hash-unbounded"):
        for need_indices in (True, False):
            made = module(False, how, need_indices=need_indices)
            model, other = (
                sharded(world, made, once=True),
                sharded(world, module(False, how, need_indices=need_indices)),
            )
            model.eval(), other.eval()
            given = batch(world.rank, 0)
            found, rows = model(given)
            wanted, mapped = other(given)
            torch.testing.assert_close(rows.values(), mapped.values())
            assert torch.equal(rows.lengths(), mapped.lengths())
            for name, one in wanted.wait().items():
                torch.testing.assert_close(found[name].values(), one.values())
                assert torch.equal(found[name].lengths().long(), one.lengths().long())


def check_states_go_on_in_the_same_plan_and_on_one_process(world: World):
    for how in ("distance", "hash"):
        first = sharded(world, module(True, how))
        for step in range(4):
            first(batch(world.rank, step))[0].wait()
        first.eval()
        path = world.folder / f"collisions-{how}"
        dcp.save(first.state_dict(), checkpoint_id=path)
        second = sharded(world, module(True, how))
        state = second.state_dict()
        dcp.load(state, checkpoint_id=path)
        second.load_state_dict(state)
        second.eval()
        given = batch(world.rank, 9)
        one, other = first(given), second(given)
        torch.testing.assert_close(one[1].values(), other[1].values())
        torch.testing.assert_close(one[0].values(), other[0].values())
        # One process has all rows, and finds each id in the row that it had; ids without one may share another.
        alone = module(True, how)
        flat = alone.state_dict()
        dcp.load(flat, checkpoint_id=path, no_dist=True)
        alone.load_state_dict(flat)
        alone.eval()
        _, rows = alone(given)
        mine, theirs = one[1].values(), rows.values()
        if how == "hash":
            torch.testing.assert_close(mine, theirs)
        else:
            shared = {ROWS * part // world.size - 1 for part in range(1, 2 * world.size + 1)} | {
                2 * ROWS * part // world.size - 1 for part in range(1, world.size + 1)
            }
            kept = torch.tensor([row not in shared for row in mine.tolist()])
            assert kept.any() and torch.equal(mine[kept], theirs[kept])
        dist.barrier()


def check_a_model_with_managed_collisions_is_parallel_as_a_whole(world: World):
    model = torch.nn.ModuleDict({"tables": module(True, "distance")})
    plan = {table.name: placed("row_wise", table, world.size, 1) for table in tables(True)}
    sharder = ManagedCollisionEmbeddingBagCollectionSharder(
        fused_params={"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": LR}
    )
    assert sharder.fused_params["learning_rate"] == LR
    made = DistributedModelParallel(
        model, env(), CPU, ShardingPlan({"tables": EmbeddingModuleShardingPlan(plan)}), [sharder]
    )
    inside = made.module["tables"]
    pooled, _ = inside(batch(world.rank, 0))
    pooled.values().square().mean().backward()
    kept = made.fused_optimizer.state_dict()["state"]
    assert sorted(kept) == [f"tables._embedding_module.embedding_bags.{name}.weight" for name in ("t1", "t2")]
    assert set(made.state_dict()) == set(torch.nn.ModuleDict({"tables": module(True, "distance")}).state_dict())


def check_what_does_not_fit_managed_collisions_is_named(world: World):
    made = module(True, "distance")
    sharder = ManagedCollisionEmbeddingBagCollectionSharder()
    for kind in ("table_wise", "column_wise", "data_parallel"):
        plan = {table.name: placed(kind, table, world.size, 1) for table in tables(True)}
        said = raised(ValueError, lambda plan=plan: sharder.shard(made, plan, env(), CPU))
        assert "'t1'" in said and kind in said and "row_wise" in said, said
    model = sharded(world, made)
    strange = KeyedJaggedTensor(KEYS, torch.tensor([1, 2, -3]), lengths=torch.ones(3, dtype=torch.int64))
    said = raised(IndexError, lambda: model(strange))
    assert all(one in said for one in ("feature 'f3'", "id -3", f"process {world.rank}", "table 't2'")), said
    model = sharded(world, module(True, "hash"))
    large = KeyedJaggedTensor(KEYS, torch.tensor([1, IDS, 3]), lengths=torch.ones(3, dtype=torch.int64))
    said = raised(IndexError, lambda: model(large))
    assert all(one in said for one in ("feature 'f2'", f"id {IDS}", f"process {world.rank}", "table 't2'")), said
    few = KeyedJaggedTensor(KEYS[:1], torch.tensor([1]), lengths=torch.tensor([1]))
    assert "['f2', 'f3'] are not in the batch" in raised(ValueError, lambda: model(few))
    odd = [EmbeddingBagConfig(num_embeddings=world.size - 1, embedding_dim=4, name="t1", feature_names=["f1"])]
    small = ManagedCollisionEmbeddingBagCollection(
        EmbeddingBagCollection(odd), ManagedCollisionCollection({"t1": manager("lru", world.size - 1)}, odd)
    )
    plan = {"t1": placed("row_wise", odd[0], world.size, 1)}
    said = raised(ValueError, lambda: sharder.shard(small, plan, env(), CPU))
    assert "table 't1'" in said and "some processes have none" in said, said
