"""Checks of plans by hand and by the planner, and of parameters and copies of sharded models."""

from __future__ import annotations

import torch
from checks_training import CPU, env
from models import bag_tables, bags, batch, outputs, ranker, sequences
from processes import World
from torch import nn

from flambeau.rec.distributed.composable.table_batched_embedding_slice import TableBatchedEmbeddingSlice
from flambeau.rec.distributed.embedding import ShardedEmbeddingCollection
from flambeau.rec.distributed.embeddingbag import EmbeddingBagSharder, ShardedEmbeddingBagCollection
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.shard import shard, shard_modules
from flambeau.rec.distributed.sharding_plan import column_wise, data_parallel, row_wise, table_wise
from flambeau.rec.distributed.types import ParameterSharding
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType


def assert_same_outputs(found, wanted) -> None:
    for name, _ in outputs(bag_tables()):
        torch.testing.assert_close(found[name] + 0, wanted[name])


def check_a_module_is_sharded_by_a_plan_for_each_table_or_for_all(world: World):
    given, wanted = batch(world.rank, 0), bags()(batch(world.rank, 0))
    assert_same_outputs(shard(bags(), row_wise())(given), wanted)
    each = {"t1": table_wise(rank=1), "t2": column_wise(ranks=[1, 0]), "t3": row_wise(), "t4": data_parallel()}
    assert_same_outputs(shard(bags(), each)(given), wanted)
    rows = shard(sequences(), row_wise())(given)
    for name, wanted_rows in sequences()(given).items():
        torch.testing.assert_close(rows[name].values() + 0, wanted_rows.values())


def check_all_modules_of_a_model_are_sharded_by_the_planner(world: World):
    given = batch(world.rank, 0)
    model = nn.ModuleDict({"bags": bags(), "sequences": sequences()})
    made = shard_modules(model)
    assert made is model
    assert isinstance(made["bags"], ShardedEmbeddingBagCollection)
    assert isinstance(made["sequences"], ShardedEmbeddingCollection)
    assert_same_outputs(made["bags"](given), bags()(given))
    planned = DistributedModelParallel(ranker())
    assert set(planned.plan.plan) == {"bags"}
    torch.testing.assert_close(planned(given), ranker()(given))


def check_parameters_view_tables_and_their_gradients(world: World):
    sharded = shard(bags(), {name: data_parallel() for name in ("t1", "t2", "t3", "t4")})
    sharded(batch(world.rank, 0)).values().sum().backward()
    params = dict(sharded.named_parameters())
    assert list(params) == [f"embedding_bags.{table.name}.weight" for table in bag_tables()]
    for table in bag_tables():
        param = params[f"embedding_bags.{table.name}.weight"]
        assert isinstance(param, TableBatchedEmbeddingSlice) and isinstance(param, nn.Parameter)
        assert param.shape == param.grad.shape == (table.num_embeddings, table.embedding_dim)
    first = params["embedding_bags.t1.weight"]
    with torch.no_grad():
        first.zero_()
    assert sharded.state_dict()["embedding_bags.t1.weight"].abs().sum() == 0
    first.grad = None
    # Tables that one kernel looks up share one gradient.
    assert [name for name, param in params.items() if param.grad is not None] == ["embedding_bags.t3.weight"]


def check_a_model_on_the_meta_device_is_filled_where_it_is_sharded(world: World):
    with torch.device("meta"):
        model = ranker()
    model.bags = type(model.bags)(bag_tables(), device=torch.device("meta"))
    made = DistributedModelParallel(model)
    assert made(batch(world.rank, 0)).isfinite()


def check_a_table_of_torch_is_sharded(world: World):
    for mode in ("sum", "mean"):
        torch.manual_seed(0)
        table = nn.EmbeddingBag(6, 4, mode=mode)
        alone = nn.EmbeddingBag.from_pretrained(table.weight.detach().clone(), freeze=False, mode=mode)
        spec = row_wise()(table.weight, world.size, world.size, "cpu", EmbeddingBagSharder())
        plan = {"weight": ParameterSharding(spec.sharding_type, "fused", spec.ranks, spec.sharding_spec)}
        fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.5}
        sharded = EmbeddingBagSharder(fused).shard(table, plan, env(), CPU)
        ids, offsets = (
            torch.tensor([5, 1, 2, 0, 1]) if world.rank else torch.tensor([1, 2, 3, 4, 5]),
            torch.tensor([0, 2]),
        )
        torch.testing.assert_close(sharded(ids, offsets) + 0, alone(ids, offsets))
        state = sharded.state_dict()
        assert list(state) == ["weight"] and tuple(state["weight"].size()) == (6, 4)
