"""Checks that sharded models compute, train and are saved as the unsharded one."""

from __future__ import annotations

import copy
import os
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from models import (
    POOLED_KINDS,
    SEQUENCE_KINDS,
    bag_tables,
    bags,
    batch,
    outputs,
    plan,
    ranker,
    sequence_tables,
    sequences,
    variable_batch,
)
from processes import World
from torch.distributed._shard.sharded_tensor import ShardedTensor

from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import LazyAwaitable, ShardingEnv, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.optim.clipping import GradientClipping, GradientClippingOptimizer
from flambeau.rec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

CPU = torch.device("cpu")
LR = 0.1
KERNELS = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": LR, "eps": 1e-10}
BY_ROWS = ["row_wise", "table_row_wise", "grid_shard"]
MIXED = ["row_wise", "table_wise", "column_wise", "data_parallel"]
# Sums over processes and kernels are taken in other orders than by one process: float32 rounds them otherwise, and
# steps of Adagrad carry that on. Losses of each step, relative to those above 1:
LOSS_TOLERANCE = 1e-5
# Tables and other parameters after all steps, after they went to another plan, and after steps there:
STATE_TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def env() -> ShardingEnv:
    return ShardingEnv.from_process_group(dist.group.WORLD)


def local(world: World) -> int:
    return get_local_size(world.size)


def whole(tensor):
    """Of a tensor, the parts here, with where they lie; (0, 0) of one that is whole."""
    if isinstance(tensor, ShardedTensor):
        return [(shard.metadata.shard_offsets, shard.tensor) for shard in tensor.local_shards()]
    return [([0] * tensor.dim(), tensor)]


def assert_same_state(sharded: dict, wanted: dict, what: str, **tolerance) -> None:
    assert set(sharded) == set(wanted), what
    for name, tensor in sharded.items():
        for offsets, part in whole(tensor):
            expected = wanted[name][tuple(slice(at, at + n) for at, n in zip(offsets, part.shape, strict=True))]
            torch.testing.assert_close(part, expected, msg=partial("{}: {}: {}".format, what, name), **tolerance)


def assert_same_loss(found: float, wanted: float, what: str) -> None:
    assert abs(found - wanted) < LOSS_TOLERANCE * max(1, abs(wanted)), f"{what}: {found} for {wanted}"


class Steps:
    """A model, and what trains it: kernels their tables, an optimizer outside of them the rest.

    Args:
        model: it.
        outside: the class of the optimizer outside.
    """

    def __init__(self, model: DistributedModelParallel, outside: type[torch.optim.Optimizer]) -> None:
        self.model = model
        fused = set(model.fused_optimizer.params)
        rest = {name: param for name, param in model.named_parameters() if name not in fused and param.numel()}
        dense = KeyedOptimizerWrapper(rest, lambda params: outside(params, lr=LR))
        dense.init_state()
        self.optimizer = CombinedOptimizer([model.fused_optimizer, dense])

    def step(self, rank: int, step: int) -> float:
        self.optimizer.zero_grad()
        loss = self.model(batch(rank, step))
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Trained(Steps):
    """A sharded ranker."""

    def __init__(self, kinds: list[str], world: World, seed: int = 0, **options) -> None:
        sharder = EmbeddingBagCollectionSharder(fused_params=dict(KERNELS))
        placing = plan(kinds, bag_tables(), world.size, local(world), **options)
        model = DistributedModelParallel(ranker(seed), env(), CPU, ShardingPlan({"bags": placing}), [sharder])
        super().__init__(model, torch.optim.Adagrad)

    def state(self) -> dict:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


class Alone:
    """The unsharded model, trained by the mean of what all processes would lose."""

    def __init__(self, world: World) -> None:
        self.model, self.size = ranker(), world.size
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=LR)

    def step(self, step: int) -> list[float]:
        self.optimizer.zero_grad()
        losses = [self.model(batch(rank, step)) for rank in range(self.size)]
        (sum(losses) / self.size).backward()
        self.optimizer.step()
        return [loss.item() for loss in losses]


def check_models_of_all_kinds_train_as_one_process_does_and_go_on_after_another_plan(world: World):
    steps = int(os.environ.get("FLAMBEAU_CHECK_STEPS", "20"))
    # Optimizers outside of kernels call their states otherwise, so that data-parallel tables stay what they are.
    others = ["column_wise", "row_wise", "table_row_wise", "data_parallel"]
    plans = [(["data_parallel"], ["data_parallel"]), (MIXED, others)]
    spread = [[kind] for kind in POOLED_KINDS[1:]]
    plans += zip(spread, [*spread[3:], *spread[:3]], strict=True)
    for at, (mine, after) in enumerate(plans):
        alone, trained = Alone(world), Trained(mine, world)
        for step in range(steps):
            wanted = alone.step(step)[world.rank]
            got = trained.step(world.rank, step)
            assert_same_loss(got, wanted, f"{mine}, step {step}")
        assert_same_state(trained.model.state_dict(), alone.model.state_dict(), str(mine), **STATE_TOLERANCE)

        # Saved, and loaded by a model that begins elsewhere, with tables in other places.
        folder = world.folder / f"checkpoint{at}"
        dcp.save(trained.state(), checkpoint_id=folder)
        other = Trained(after, world, seed=5, turn=1)
        state = other.state()
        dcp.load(state, checkpoint_id=folder)
        other.model.load_state_dict(state["model"])
        other.optimizer.load_state_dict(state["optimizer"])
        what = f"{mine} to {after}"
        assert_same_state(other.model.state_dict(), alone.model.state_dict(), what, **STATE_TOLERANCE)
        for step in range(steps, steps + 3):
            wanted = alone.step(step)[world.rank]
            got = other.step(world.rank, step)
            assert_same_loss(got, wanted, f"{what}, step {step}")
        assert_same_state(other.model.state_dict(), alone.model.state_dict(), what, **STATE_TOLERANCE)


def check_tables_move_to_another_plan_while_they_train(world: World):
    alone, trained = Alone(world), Trained(["table_wise"], world)
    for step, kinds in enumerate([None, ["row_wise"], ["column_wise"], ["table_wise", "grid_shard"]]):
        if kinds is not None:
            placing = plan(kinds, bag_tables(), world.size, local(world), turn=1)
            assert trained.model.reshard({"bags": (1.5, placing)}) == 1.5
        alone.step(step)
        trained.step(world.rank, step)
        assert_same_state(trained.model.state_dict(), alone.model.state_dict(), str(kinds), **STATE_TOLERANCE)


def _same_bags(world: World, kinds: list[str], given, weighted: bool = False, kernel: str = "fused") -> None:
    """Outputs and one step of SGD are those of the unsharded collection."""
    collection, alone = bags(weighted), bags(weighted)
    sharder = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.5})
    placing = plan(kinds, bag_tables(), world.size, local(world), kernel=kernel)
    sharded = sharder.shard(collection, placing, env(), CPU)
    for step in range(2):
        found = sharded(given(world.rank, step)).to_dict()
        wanted = [alone(given(rank, step)).to_dict() for rank in range(world.size)]
        for name, tensor in wanted[world.rank].items():
            torch.testing.assert_close(found[name], tensor, msg=partial("{}, {}: {}".format, kinds, name))
        losses = [
            sum((one[name] ** 2).mean() * (at + 1) for at, name in enumerate(wanted[0])) for one in [found, *wanted]
        ]
        losses[0].backward()
        (sum(losses[1:]) / world.size).backward()
        with torch.no_grad():
            for param in alone.parameters():
                param -= 0.5 * param.grad
                param.grad = None
            for param in sharded.parameters():
                if param.grad is not None:
                    param -= 0.5 * param.grad
            for param in sharded.parameters():
                param.grad = None
    assert_same_state(sharded.state_dict(), alone.state_dict(), str(kinds))


def check_bags_of_all_kinds_take_weights_of_ids(world: World):
    for kind in [*POOLED_KINDS, None]:
        _same_bags(world, [kind] if kind else MIXED, lambda rank, step: batch(rank, step, weighted=True), weighted=True)


def check_bags_of_all_kinds_take_batches_of_features_own(world: World):
    for kind in [*POOLED_KINDS, None]:
        _same_bags(world, [kind] if kind else MIXED, variable_batch)


def check_bags_with_gradients_train_by_an_optimizer_outside(world: World):
    for kind in POOLED_KINDS:
        _same_bags(world, [kind], batch, kernel="dense")


def check_norms_of_gradients_are_those_of_the_whole_model(world: World):
    # Some processes have no part of some tables, or of any.
    for kinds in (["table_wise"], ["column_wise", "row_wise", "table_wise"]):
        for norm_type in (2.0, float("inf")):
            alone = bags()
            placing = plan(kinds, bag_tables(), world.size, local(world), kernel="dense")
            sharded = EmbeddingBagCollectionSharder().shard(bags(), placing, env(), CPU)
            names = [name for name, _ in outputs(bag_tables())]

            def loss(found, names=names):
                return sum((found[name] ** 2).sum() for name in names)

            loss(sharded(batch(world.rank, 0))).backward()
            (sum(loss(alone(batch(rank, 0))) for rank in range(world.size)) / world.size).backward()
            params = dict(sharded.named_parameters())
            optimizer = GradientClippingOptimizer(
                KeyedOptimizerWrapper(params, lambda given: torch.optim.SGD(given, lr=1.0)),
                GradientClipping.NORM,
                max_gradient=0.5,
                norm_type=norm_type,
                enable_global_grad_clip=True,
                param_to_pgs={param: [dist.group.WORLD] for param in params.values()},
                track_grad_norm=True,
            )
            optimizer.step()
            wanted = torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5, norm_type)
            torch.testing.assert_close(optimizer.last_total_grad_norm, wanted, msg=partial("{}: {}".format, kinds))
            with torch.no_grad():
                for param in alone.parameters():
                    param -= param.grad
            assert_same_state(sharded.state_dict(), alone.state_dict(), f"{kinds} {norm_type}")


def check_a_process_without_examples_takes_part(world: World):
    def given(rank: int, step: int):
        return batch(rank, step, size=0 if rank == 0 else 3)

    for kind in POOLED_KINDS:
        collection, alone = bags(), bags()
        placing = plan([kind], bag_tables(), world.size, local(world))
        sharded = EmbeddingBagCollectionSharder().shard(collection, placing, env(), CPU)
        found, wanted = sharded(given(world.rank, 0)).to_dict(), alone(given(world.rank, 0)).to_dict()
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor)
        sum(one.sum() for one in found.values()).backward()


def check_a_process_without_any_rows_takes_part_in_the_backward_pass(world: World):
    # A table of one row, which is on the first process of all, or of a host.
    sizes, keys = {"t1": 1, "t2": 6}, ["f1", "f2"]
    options = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.5}

    def given(rank: int, step: int) -> KeyedJaggedTensor:
        ids = torch.tensor([0, 0, 0, *((rank + step + at) % 6 for at in range(3))])
        return KeyedJaggedTensor(keys, ids, lengths=torch.ones(6, dtype=torch.int64))

    cases = [(EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingBagCollectionSharder, kind) for kind in BY_ROWS]
    for collection, config, sharder, kind in [
        *cases,
        (EmbeddingCollection, EmbeddingConfig, EmbeddingCollectionSharder, "row_wise"),
    ]:
        tables = [
            config(num_embeddings=rows, embedding_dim=8, name=name, feature_names=[feature])
            for (name, rows), feature in zip(sizes.items(), keys, strict=True)
        ]
        torch.manual_seed(0)
        alone = collection(tables)
        placing = plan([kind, "table_wise"], tables, world.size, local(world))
        sharded = sharder(options).shard(copy.deepcopy(alone), placing, env(), CPU)
        for step in range(3):
            for rank, model in [*((rank, alone) for rank in range(world.size)), (world.rank, sharded)]:
                found = LazyAwaitable._wait_async(model(given(rank, step)))
                rows = [found[key] if isinstance(found[key], torch.Tensor) else found[key].values() for key in keys]
                loss = (rows[0] + 0).square().sum() + 2 * (rows[1] + 0).square().sum()
                (loss / world.size if model is alone else loss).backward()
            with torch.no_grad():
                for param in alone.parameters():
                    param -= 0.5 * param.grad
                    param.grad = None
        assert_same_state(sharded.state_dict(), alone.state_dict(), f"{collection.__name__} {kind}")


def own_batches(rank: int, step: int):
    """Batches of features' own, which nothing joins to a full one."""
    return replace(variable_batch(rank, step), None)


def replace(features: KeyedJaggedTensor, inverse_indices) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(
        features.keys(),
        features.values(),
        lengths=features.lengths(),
        stride_per_key_per_rank=features.stride_per_key_per_rank(),
        inverse_indices=inverse_indices,
    )


def full_batch(features: KeyedJaggedTensor) -> KeyedJaggedTensor:
    """The full batch that features with batches of their own stand for."""
    if features.inverse_indices_or_none() is None:
        return features
    parts = {}
    for key, rows in zip(*features.inverse_indices(), strict=True):
        bags = features[key].to_dense()
        parts[key] = JaggedTensor.from_dense([bags[row] for row in rows.tolist()])
    return KeyedJaggedTensor.from_jt_dict(parts)


def check_sequences_of_all_kinds_train_as_one_process_does(world: World):
    cases = [([kind], once) for kind in SEQUENCE_KINDS for once in (False, True)]
    for kinds, once in [*cases, (["row_wise", "data_parallel"], False)]:
        for given in (batch, variable_batch, own_batches):
            collection, alone = sequences(), sequences()
            sharder = EmbeddingCollectionSharder(
                {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.5}, use_index_dedup=once
            )
            placing = plan(kinds, sequence_tables(), world.size, local(world))
            sharded = sharder.shard(collection, placing, env(), CPU)
            for step in range(2):
                found = sharded(given(world.rank, step)).wait()
                wanted = [alone(full_batch(given(rank, step))) for rank in range(world.size)]
                for name, rows in wanted[world.rank].items():
                    what = f"{kinds}, {name}, once {once}, {given.__name__}"
                    torch.testing.assert_close(found[name].values(), rows.values(), msg=partial("{}: {}".format, what))
                    assert torch.equal(found[name].lengths().long(), rows.lengths().long()), what
                    assert torch.equal(found[name].weights(), rows.weights()), what
                losses = [sum((one[name].values() ** 2).sum() for name in wanted[0]) for one in [found, *wanted]]
                losses[0].backward()
                (sum(losses[1:]) / world.size).backward()
                with torch.no_grad():
                    for param in alone.parameters():
                        param -= 0.5 * param.grad
                        param.grad = None
                    for param in sharded.parameters():
                        if param.grad is not None:
                            param -= 0.5 * param.grad
                    for param in sharded.parameters():
                        param.grad = None
            assert_same_state(sharded.state_dict(), alone.state_dict(), str(kinds), **STATE_TOLERANCE)
