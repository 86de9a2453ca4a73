"""Checks that features weighted where they are looked up train as the unsharded module does."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checks_faults import raised
from checks_training import CPU, MIXED, assert_same_state, env, full_batch, local
from models import KEYS, POOLED_KINDS, bag_tables, bags, batch, outputs, plan, variable_batch
from processes import World
from torch import nn

from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.feature_processor_ import (
    FeatureProcessor,
    PositionWeightedModule,
    PositionWeightedModuleCollection,
)
from flambeau.rec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

LR = 0.5


def processed(*, together: bool, seed: int = 0) -> FeatureProcessedEmbeddingBagCollection:
    made = PositionWeightedModuleCollection(dict.fromkeys(KEYS, 4)) if together else None
    each = {key: PositionWeightedModule(4) for key in KEYS}
    module = FeatureProcessedEmbeddingBagCollection(bags(weighted=True, seed=seed), made or each)
    with torch.no_grad():
        for at, weights in enumerate(module._feature_processors.parameters()):
            weights += 0.1 * torch.arange(4) + 0.05 * at
    return module


class Model(nn.Module):
    """Pooled embeddings, and a loss of them that is not the same for all."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.bags = module

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.bags(features)
        return sum((pooled[name] ** 2).mean() * (at + 1) for at, (name, _) in enumerate(outputs(bag_tables())))


def sharder() -> FeatureProcessedEmbeddingBagCollectionSharder:
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LR}
    return FeatureProcessedEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder(fused_params=fused))


def sharded(kinds: list[str], world: World, *, together: bool, seed: int = 0) -> DistributedModelParallel:
    placing = plan(kinds, bag_tables(), world.size, local(world))
    model = Model(processed(together=together, seed=seed))
    return DistributedModelParallel(model, env(), CPU, ShardingPlan({"bags": placing}), [sharder()])


def stepped(model: nn.Module, loss: torch.Tensor) -> None:
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            if param.grad is not None:
                param -= LR * param.grad
    for param in model.parameters():  # tables that one kernel looks up share one gradient
        param.grad = None


def check_features_are_weighted_and_train_as_on_one_process_whichever_way_tables_are_spread(world: World):
    cases = [([kind], together) for kind in POOLED_KINDS for together in (True, False)]
    for kinds, together in [*cases, (MIXED, True), (MIXED, False)]:
        for given in (batch, variable_batch):
            model, alone = sharded(kinds, world, together=together), Model(processed(together=together))
            for step in range(3):
                what = f"{kinds}, together {together}, {given.__name__}, step {step}"
                loss = model(given(world.rank, step))
                wanted = [alone(full_batch(given(rank, step))) for rank in range(world.size)]
                torch.testing.assert_close(loss, wanted[world.rank], msg=partial("{}: {}".format, what))
                stepped(model, loss)
                stepped(alone, sum(wanted) / world.size)
            assert_same_state(model.state_dict(), alone.state_dict(), what, rtol=1e-4, atol=1e-5)


def check_states_of_weighted_features_go_from_any_plan_to_any_other(world: World):
    first = sharded(["row_wise"], world, together=True)
    stepped(first, first(batch(world.rank, 0)))
    path = world.folder / "weighted"
    dcp.save(first.state_dict(), checkpoint_id=path)
    for kinds in (["table_wise"], MIXED, ["column_wise"]):
        second = sharded(kinds, world, together=True, seed=1)
        state = second.state_dict()
        assert set(state) == set(first.state_dict())
        dcp.load(state, checkpoint_id=path)
        second.load_state_dict(state)
        torch.testing.assert_close(second(batch(world.rank, 1)), first(batch(world.rank, 1)))
    # Of an unsharded model, too.
    second.load_state_dict(Model(processed(together=True)).state_dict())
    torch.testing.assert_close(second(batch(world.rank, 1)), Model(processed(together=True))(batch(world.rank, 1)))


def check_a_pipeline_that_prepares_arguments_leaves_the_callers_features_alone(world: World):
    model = sharded(["row_wise"], world, together=True).module.bags
    given = batch(world.rank, 0)
    args, kwargs = model.preprocess_input([given], {"other": 3})
    assert given.weights_or_none() is None and kwargs == {"other": 3}
    prepared = args[0].weights()
    assert prepared.dtype == torch.float32 and float(prepared.max()) <= 3
    names = outputs(bag_tables())
    found, wanted = model(args[0]).to_dict(), model(given).to_dict()
    for name, _ in names:
        torch.testing.assert_close(found[name], wanted[name])


class Halves(FeatureProcessor):
    """Weighs ids by themselves, without parameters."""

    def forward(self, features: JaggedTensor) -> JaggedTensor:
        return JaggedTensor(features.values(), features.values() / 2.0, features.lengths(), features.offsets())


def check_processors_without_parameters_work_where_bags_stay_whole_and_are_refused_elsewhere(world: World):
    module = FeatureProcessedEmbeddingBagCollection(bags(weighted=True), {key: Halves() for key in KEYS})
    placing = plan(["table_wise", "column_wise"], bag_tables(), world.size, local(world))
    found = sharder().shard(module, placing, env(), CPU)(batch(world.rank, 0)).to_dict()
    for name, wanted in module(batch(world.rank, 0)).to_dict().items():
        torch.testing.assert_close(found[name], wanted)
    placing = plan(["row_wise"], bag_tables(), world.size, local(world))
    said = raised(ValueError, lambda: sharder().shard(module, placing, env(), CPU))
    assert "Halves" in said and "pre_process_input" in said, said


def check_bags_that_are_too_long_and_ids_without_a_row_are_named_on_the_process_they_come_from(world: World):
    for kind in ("table_wise", "row_wise"):
        model = sharded([kind], world, together=True)
        long = KeyedJaggedTensor(KEYS, torch.zeros(8, dtype=torch.int64), lengths=torch.tensor([1, 5, 1, 1]))
        said = raised(IndexError, lambda model=model, long=long: model(long))
        wanted = ("feature 'f2'", "5 ids", f"process {world.rank}", "table 't2'")
        assert all(one in said for one in wanted), said
        stray = KeyedJaggedTensor(KEYS, torch.tensor([1, 2, 3, 5]), lengths=torch.ones(4, dtype=torch.int64))
        said = raised(IndexError, lambda model=model, stray=stray: model(stray))
        assert all(one in said for one in ("feature 'f4'", "id 5", f"process {world.rank}", "table 't4'")), said
    dist.barrier()


def check_processes_with_different_plans_are_told_of_the_table_and_of_each_other(world: World):
    model = processed(together=True)
    for turn, differing in ((int(world.rank == 1), [1]), (world.rank % 2, list(range(1, world.size, 2)))):
        placing = plan(["table_wise"], bag_tables(), world.size, local(world), turn=turn)
        said = raised(ValueError, partial(sharder().shard, model, placing, env(), CPU))
        wanted = ("different plans", f"{differing} differ from process 0", "table 't1'")
        assert all(one in said for one in wanted), said
