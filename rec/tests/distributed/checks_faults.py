"""Checks of what is said when something is wrong."""

from __future__ import annotations

import functools

import torch
import torch.distributed as dist
from checks_training import CPU, MIXED, env, local
from models import KEYS, bag_tables, bags, batch, plan, ranker
from processes import World

from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import ShardingPlan
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode
from flambeau.rec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor


def raised(kind: type[BaseException], function) -> str:
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def check_an_id_without_a_row_is_named_by_its_feature_before_it_is_sent(world: World):
    for kind in ("table_wise", "row_wise", "column_wise", "data_parallel", "grid_shard"):
        placing = plan([kind], bag_tables(), world.size, local(world))
        sharded = EmbeddingBagCollectionSharder().shard(bags(), placing, env(), CPU)
        strange = KeyedJaggedTensor(
            KEYS, torch.tensor([1, 2, 3, 4, 5, 5]), lengths=torch.tensor([1, 1, 1, 1, 0, 1, 0, 1])
        )
        said = raised(IndexError, functools.partial(sharded, strange))
        assert "feature 'f4' has the id 5" in said and "table 't4' has 5 rows" in said, said


def check_ids_without_a_row_become_0_where_that_is_asked_for(world: World):
    options = {"bounds_check_mode": BoundsCheckMode.IGNORE}
    for kind in ("table_wise", "row_wise"):
        placing = plan([kind], bag_tables(), world.size, local(world))
        sharded = EmbeddingBagCollectionSharder(fused_params=options).shard(bags(), placing, env(), CPU)
        features = KeyedJaggedTensor(KEYS, torch.tensor([1, 2, 3, 99]), lengths=torch.tensor([1, 1, 1, 1]))
        row = sharded(features)["f4"].wait()
        torch.testing.assert_close(row[0], bags().embedding_bags["t4"].weight[0].detach())


def check_plans_and_features_that_do_not_fit_are_named(world: World):
    placing = plan(["table_wise"], bag_tables(), world.size, local(world))
    sharder = EmbeddingBagCollectionSharder()
    said = raised(ValueError, lambda: sharder.shard(bags(), {"t1": placing["t1"]}, env(), CPU))
    assert "says nothing of table 't2'" in said, said
    said = raised(ValueError, lambda: sharder.shard(bags(), {**placing, "t9": placing["t1"]}, env(), CPU))
    assert "'t9'" in said, said
    sharded = sharder.shard(bags(), placing, env(), CPU)
    few = KeyedJaggedTensor(["f1", "f2"], torch.tensor([1, 2]), lengths=torch.tensor([1, 1]))
    said = raised(ValueError, lambda: sharded(few))
    assert "['f3', 'f4'] are not in the batch" in said, said
    strange = ShardingPlan({"bag": placing})
    said = raised(ValueError, lambda: DistributedModelParallel(ranker(), env(), CPU, strange, [sharder]))
    assert "['bag']" in said, said


def check_an_optimizer_noted_at_a_table_is_the_kernels(world: World):
    model = ranker()
    tables = model.bags.embedding_bags
    apply_optimizer_in_backward(torch.optim.Adagrad, [tables["t1"].weight], {"lr": 0.25})
    apply_optimizer_in_backward(torch.optim.SGD, [tables["t2"].weight, tables["t3"].weight], {"lr": 0.5})
    placing = plan(["table_wise", "row_wise"], bag_tables(), world.size, local(world))
    trained = DistributedModelParallel(
        model, env(), CPU, ShardingPlan({"bags": placing}), [EmbeddingBagCollectionSharder()]
    )
    groups = {
        name: group["lr"]
        for _, optimizer in trained.fused_optimizer.optimizers
        for name, group in zip(optimizer.params, optimizer.param_groups, strict=True)
    }
    found = [None] * world.size
    dist.all_gather_object(found, groups)
    joined = {name.split(".")[1]: lr for one in found for name, lr in one.items()}
    assert joined["t1"] == 0.25 and joined["t2"] == 0.5, joined
    trained(batch(world.rank, 0)).backward()


def check_features_in_another_order_are_found_by_name(world: World):
    placing = plan(MIXED, bag_tables(), world.size, local(world))
    sharded = EmbeddingBagCollectionSharder().shard(bags(), placing, env(), CPU)
    given = batch(world.rank, 0)
    before = sharded(given).to_dict()
    after = sharded(given.permute([2, 0, 3, 1])).to_dict()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor)
