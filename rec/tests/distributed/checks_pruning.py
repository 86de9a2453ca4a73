"""Checks of tables that are pruned while they are trained, of batches in two parts, and of tables that move."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from checks_training import CPU, env
from processes import World

from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embedding_types import KJTList
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder, ShardedEmbeddingBagCollection
from flambeau.rec.distributed.itep_embeddingbag import ITEPEmbeddingBagCollectionSharder, ITEPEmbeddingCollectionSharder
from flambeau.rec.distributed.pec_embedding import PECEmbeddingCollectionSharder
from flambeau.rec.distributed.sharding.dynamic_sharding import (
    move_sharded_tensors_to_cpu,
    output_sharding_plan_delta_single,
    output_sharding_plans_delta,
    prepare_comm_ops,
    transfer_data,
    update_module_sharding_plan,
    update_state_dictionaries,
)
from flambeau.rec.distributed.sharding_plan import (
    column_wise,
    construct_module_sharding_plan,
    row_wise,
    table_row_wise,
    table_wise,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.itep_embedding_modules import ITEPEmbeddingBagCollection, ITEPEmbeddingCollection
from flambeau.rec.modules.itep_modules import GenericITEPModule
from flambeau.rec.modules.pec_embedding_modules import PECEmbeddingCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

IDS = {"t1": 30, "t2": 60}
WAYS = {
    "table_wise": lambda: table_wise(rank=1),
    "column_wise": lambda: column_wise(ranks=[0, 1]),
    "row_wise": row_wise,
    "table_row_wise": lambda: table_row_wise(host_index=0),
}
FUSED = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.1}


def bags() -> EmbeddingBagCollection:
    torch.manual_seed(0)
    return EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(num_embeddings=10, embedding_dim=8, name="t1", feature_names=["a"]),
            EmbeddingBagConfig(num_embeddings=12, embedding_dim=8, name="t2", feature_names=["b", "c"]),
            EmbeddingBagConfig(num_embeddings=9, embedding_dim=8, name="t3", feature_names=["c"]),
        ]
    )


def sequences() -> EmbeddingCollection:
    torch.manual_seed(0)
    return EmbeddingCollection(
        tables=[
            EmbeddingConfig(num_embeddings=10, embedding_dim=8, name="t1", feature_names=["a"]),
            EmbeddingConfig(num_embeddings=12, embedding_dim=8, name="t2", feature_names=["b", "c"]),
        ]
    )


def plan_of(module, way, names, kernel: str = "fused"):
    size = dist.get_world_size()
    plan = construct_module_sharding_plan(
        module, {name: way() for name in names}, world_size=size, local_size=get_local_size(size), device_type="cpu"
    )
    for sharding in plan.values():
        sharding.compute_kernel = kernel
    return plan


def parts_of(name: str, world: World) -> int:
    """How many processes have rows of a table that is spread in a way."""
    return {"row_wise": world.size, "table_row_wise": get_local_size(world.size)}.get(name, 1)


def pruned(way, interval: int = 1001):
    module = bags()
    itep = ITEPEmbeddingBagCollection(module, GenericITEPModule(dict(IDS), pruning_interval=interval))
    sharder = ITEPEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(fused_params=FUSED))
    return sharder.shard(itep, plan_of(module, way, ("t1", "t2", "t3")), env(), CPU)


def features(a: list[int], b: list[int], c: list[int]) -> KeyedJaggedTensor:
    lengths = torch.tensor([len(a), len(b), len(c)])
    return KeyedJaggedTensor(["a", "b", "c"], torch.tensor([*a, *b, *c]), lengths=lengths)


def check_ids_below_the_rows_have_them_and_others_share_a_row(world: World):
    whole = bags()
    for name, way in WAYS.items():
        sharded = pruned(way)
        found, wanted = sharded(features([3], [7, 11], [4])), whole(features([3], [7, 11], [4]))
        for key in wanted.keys():  # noqa: SIM118, RUF100 - a KeyedTensor is no dictionary
            torch.testing.assert_close(found[key] + 0, wanted[key])
        lost = sharded(features([22], [50], [0]))
        shared = whole.embedding_bags["t1"].weight
        block = -(-len(shared) // parts_of(name, world))
        assert any(torch.allclose(lost["a"] + 0, shared[row : row + 1]) for row in range(0, len(shared), block))


def check_rows_go_to_the_ids_that_are_seen_most(world: World):
    for name, way in WAYS.items():
        sharded = pruned(way, interval=5)
        often = [22, 23, 24, 25]
        for _ in range(6):
            sharded(features(often * 3, [50, 51], [3])).values().sum().backward()
        module = sharded._rowwise_itep_module if "row" in name else sharded._itep_module
        holders = {"table_wise": [1], "column_wise": [0, 1], "table_row_wise": range(get_local_size(world.size))}
        assert ("t1" in module.table_name_to_idx) == (world.rank in holders.get(name, range(world.size))), name
        if "t1" not in module.table_name_to_idx:
            continue
        rows = module.get_buffer("t1_itp_address_lookup")
        own = rows[rows != 0]
        here = module.emb_sizes[module.table_name_to_idx["t1"]]
        assert len(own) == len(own.unique()) == here - 1, name
        parts = parts_of(name, world)
        mine = [id_ // parts for id_ in often if id_ % parts == world.rank % parts]
        # The first row is shared by all that have none of their own.
        assert int((rows[mine] != 0).sum()) == min(len(mine), here - 1), name


def check_rows_that_change_hands_begin_at_zero(world: World):
    sharded = pruned(WAYS["column_wise"], interval=3)
    ids = list(range(10, 16))
    for _ in range(8):
        out = sharded(features(ids, [0], [0]))
        out.values().sum().backward()
    other = list(range(20, 29))
    if world.rank > 1:  # without columns of the table, which the others see change hands
        sharded(features(other, [0], [0]))
        sharded(features([0], [0], [0]))
        return
    # At the ninth batch ids that come anew take rows over.
    module = sharded._itep_module
    before = module.get_buffer("t1_itp_address_lookup").clone()
    module.get_buffer("t1_itp_row_util")[other] += 1000
    sharded.train()
    out = sharded(features(other, [0], [0]))
    after = module.get_buffer("t1_itp_address_lookup")
    changed = [id_ for id_ in other if before[id_] == 0 and after[id_] != 0]
    assert changed
    torch.testing.assert_close(sharded(features([changed[0]], [0], [0]))["a"] + 0, torch.zeros(1, 8))


def check_evaluation_neither_counts_nor_prunes(world: World):
    sharded = pruned(WAYS["row_wise"], interval=1).eval()
    for _ in range(4):
        sharded(features([22], [50], [3])).values()
    module = sharded._rowwise_itep_module
    assert module.row_util.sum() == 0 and module.last_pruned_iter == -1


def check_states_of_pruning_are_loaded_again(world: World):
    for way in WAYS.values():
        first, second = pruned(way, interval=5), pruned(way, interval=5)
        for _ in range(6):
            first(features([22, 23, 24] * 3, [50, 51], [3])).values().sum().backward()
        second.load_state_dict(first.state_dict())
        assert int(second._iter) == 6
        one, other = (module.eval()(features([22, 5], [50], [3])) for module in (first, second))
        torch.testing.assert_close(one.values() + 0, other.values() + 0)


def check_sequences_are_pruned_as_well(world: World):
    for name in ("row_wise", "column_wise", "table_wise"):
        module = sequences()
        itep = ITEPEmbeddingCollection(module, GenericITEPModule(dict(IDS), pruning_interval=5))
        sharder = ITEPEmbeddingCollectionSharder(EmbeddingCollectionSharder(fused_params=FUSED))
        sharded = sharder.shard(itep, plan_of(module, WAYS[name], ("t1", "t2")), env(), CPU)
        wanted = sequences()(features([3, 9], [7], [11]))
        for key, one in sharded(features([3, 9], [7], [11])).wait().items():
            torch.testing.assert_close(one.values(), wanted[key].values())
        for _ in range(5):
            rows = sharded(features([22, 23, 24, 25], [50], [59])).wait()
            sum(one.values().sum() for one in rows.values()).backward()
        rows = sharded(features([22, 24], [50], [59])).wait()
        assert not torch.allclose(rows["a"].values()[0], rows["a"].values()[1])


def check_what_pruning_refuses_names_the_table_or_the_feature(world: World):
    sharded = pruned(WAYS["row_wise"])
    with pytest.raises(IndexError, match=f"feature 'a' has the id 30 .* on process {world.rank}"):
        sharded(features([30], [0], [0]))
    module = bags()
    sharder = ITEPEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(fused_params=FUSED))
    plan = plan_of(module, WAYS["row_wise"], ("t1", "t2", "t3"))
    for sizes, message in (
        ({"t2": 3}, f"'t2' has {12 // world.size} rows here for {-(-3 // world.size)} ids"),
        ({"t9": 30}, "'t9', which is not in the plan"),
    ):
        with pytest.raises(OptionError, match=message):
            sharder.shard(ITEPEmbeddingBagCollection(module, GenericITEPModule(sizes)), plan, env(), CPU)


# ----- batches in two parts -------------------------------------------------------------------------------------------


def in_parts(module):
    pec = PECEmbeddingCollection(module)
    plan = plan_of(module, row_wise, ("t1", "t2"))
    sharder = EmbeddingCollectionSharder(fused_params=FUSED)
    return PECEmbeddingCollectionSharder(sharder).shard(pec, plan, env(), CPU)


def loss_of(rows):
    return sum((one.values() ** 2).sum() * (at + 1) for at, (_, one) in enumerate(sorted(rows.items())))


def batches(rank: int) -> list[KeyedJaggedTensor]:
    given = [([1, 2, 9], [3, 4], []), ([2, 2, 8], [4, 11], [0]), ([5], [], [7]), ([5, 1], [7], [7, 3])]
    return [features(*[[(one + rank) % 10 for one in of_key] for of_key in batch]) for batch in given]


def check_batches_in_two_parts_train_as_whole_ones_do(world: World):
    plain, parted = in_parts(sequences()), in_parts(sequences())
    waiting = None
    for batch in [*batches(world.rank), None]:
        if batch is None:
            given = {}
        else:
            ctx = parted.create_context()
            given = {"ctx": ctx, "dist_input": parted.input_dist(ctx, batch).wait().wait()}
        before = {} if waiting is None else {"prev_ctx": waiting["ctx"], "prev_dist_input": waiting["dist_input"]}
        ((forward, backward),) = [one.wait() for one in parted.overlap_dist(**given, **before)]
        if waiting is not None:
            own = waiting["forward"]
            ways = [
                parted.compute_and_output_dist_in_partition(waiting["ctx"], part, own.splits, inside)
                for part, inside in ((own.ol_features, True), (own.nol_features, False))
            ]
            rows = parted.merge_partitioned_embeddings(waiting["ctx"], *ways, [own], [backward]).wait()
            wanted = plain(waiting["batch"]).wait()
            for key, one in wanted.items():
                torch.testing.assert_close(rows[key].values(), one.values())
                assert torch.equal(rows[key].lengths(), one.lengths())
            loss_of(rows).backward()
            loss_of(wanted).backward()
            for part, inside in ((backward.ol_features, True), (backward.nol_features, False)):
                for one in parted.grad_dist(waiting["ctx"], KJTList([part]), inside):
                    one.wait()
        waiting = {"forward": forward, "batch": batch, **given}
    for name, whole in plain.state_dict().items():
        for one, other in zip(whole.local_shards(), parted.state_dict()[name].local_shards(), strict=True):
            torch.testing.assert_close(other.tensor, one.tensor)


def check_what_batches_in_two_parts_refuse(world: World):
    sharded = in_parts(sequences())
    ctx = sharded.create_context()
    with pytest.raises(OptionError, match="both its context and its features"):
        sharded.overlap_dist(ctx)
    with pytest.raises(OptionError, match="neither"):
        sharded.overlap_dist()
    with pytest.raises(OptionError, match="not merged"):
        sharded.grad_dist(ctx, KJTList([]), True)
    module = sequences()
    plan = plan_of(module, lambda: table_wise(rank=0), ("t1", "t2"))
    with pytest.raises(OptionError, match="table 't1' is spread by table_wise"):
        PECEmbeddingCollectionSharder().shard(PECEmbeddingCollection(module), plan, env(), CPU)


# ----- tables that move -----------------------------------------------------------------------------------------------


def trained(plan) -> ShardedEmbeddingBagCollection:
    sharded = EmbeddingBagCollectionSharder(fused_params=FUSED).shard(bags(), plan, env(), CPU)
    sharded(features([1, 2], [3], [4])).values().sum().backward()
    return sharded


def check_tables_move_by_messages(world: World):
    names = ("t1", "t2", "t3")
    plans = {name: plan_of(bags(), way, names) for name, way in WAYS.items() if name != "table_row_wise"}
    plans["elsewhere"] = plan_of(bags(), lambda: table_wise(rank=0), names)
    for old_name, old_plan in plans.items():
        for new_name, new_plan in plans.items():
            old = trained(old_plan)
            new = EmbeddingBagCollectionSharder(fused_params=FUSED).shard(bags(), new_plan, env(), CPU)
            before, after = old.state_dict(), new.state_dict()
            kept = old.fused_optimizer.state_dict(), new.fused_optimizer.state_dict()
            messages = []
            for table in names:
                found = prepare_comm_ops(
                    old_plan, before, after, new_plan, table, env(), old.extend_shard_name, *kept, True
                )
                messages += transfer_data(found)
            update_state_dictionaries(
                messages, *kept, before, after, new_plan, old.extend_shard_name, update_local=True
            )
            given = features([1, 5], [3, 8], [4])
            for step in range(2):
                found, wanted = new(given), old(given)
                for key in wanted.keys():  # noqa: SIM118, RUF100 - a KeyedTensor is no dictionary
                    torch.testing.assert_close(found[key] + 0, wanted[key] + 0)
                # What is kept of rows decides how far they are trained; that of parts of columns is of their own.
                if step == 0 and "column_wise" not in (old_name, new_name):
                    for one in (found, wanted):
                        one.values().sum().backward()
                    continue
                break


def check_what_changes_between_plans_is_named(world: World):
    names = ("t1", "t2", "t3")
    old, new = plan_of(bags(), row_wise, names), plan_of(bags(), row_wise, names)
    assert output_sharding_plan_delta_single(old, new, True) == (0.0, {})
    new["t2"] = plan_of(bags(), WAYS["table_wise"], names)["t2"]
    volume, changed = output_sharding_plan_delta_single(old, new, True)
    assert list(changed) == ["t2"] and volume == pytest.approx(12 * 8 * 4 / 1024**2)
    assert output_sharding_plans_delta({"m": old}, {"m": new})["m"] == (0.0, changed)
    sharded = trained(old)
    update_module_sharding_plan(sharded, changed, sharded._sharding_infos)
    assert sharded.module_sharding_plan["t2"].sharding_type == "table_wise"
    assert {kind: len(infos) for kind, infos in sharded._sharding_infos.items()} == {"row_wise": 2, "table_wise": 1}
    with pytest.raises(OptionError, match="says nothing of modules \\['m'\\]"):
        output_sharding_plans_delta({"m": old}, {})
    with pytest.raises(OptionError, match="expected the same"):
        output_sharding_plan_delta_single(old, {"t1": old["t1"]})
    with pytest.raises(OptionError, match="'t9'"):
        update_module_sharding_plan(sharded, {"t9": old["t1"]}, {})


def check_states_are_moved_to_the_cpu_as_they_are(world: World):
    state = trained(plan_of(bags(), row_wise, ("t1", "t2", "t3"))).state_dict()
    for name, one in move_sharded_tensors_to_cpu(state).items():
        assert one.metadata().shards_metadata == state[name].metadata().shards_metadata
        assert all(part.tensor.device.type == "cpu" for part in one.local_shards())
