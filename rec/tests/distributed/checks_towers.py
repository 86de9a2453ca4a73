"""Checks that towers on several hosts compute and train as those on one process."""

from __future__ import annotations

import contextlib
import os
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checks_faults import raised
from checks_training import CPU, assert_same_state, env, full_batch
from models import batch, placed, variable_batch
from processes import World
from torch import nn

from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.embedding_tower_sharding import EmbeddingTowerCollectionSharder, EmbeddingTowerSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from flambeau.rec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

LR = 0.5
FUSED = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LR}
KINDS = [["table_row_wise"], ["table_column_wise"], ["table_row_wise", "table_column_wise"]]


@contextlib.contextmanager
def hosts_of(processes: int):
    """Hosts with so many processes each."""
    before = os.environ["LOCAL_WORLD_SIZE"]
    os.environ["LOCAL_WORLD_SIZE"] = str(processes)
    try:
        yield
    finally:
        os.environ["LOCAL_WORLD_SIZE"] = before


class Mixed(nn.Module):
    """A layer over pooled embeddings."""

    def __init__(self, names: list[str], width: int) -> None:
        super().__init__()
        self.names = names
        self.linear = nn.Linear(8 * len(names), width)

    def forward(self, pooled) -> torch.Tensor:
        return self.linear(torch.cat([pooled[name] for name in self.names], 1)).tanh()


class Summed(nn.Module):
    """A layer over sums of sequences."""

    def __init__(self, names: list[str], width: int) -> None:
        super().__init__()
        self.names = names
        self.linear = nn.Linear(8, width)

    def forward(self, rows) -> torch.Tensor:
        sums = [torch.stack([bag.sum(0) for bag in rows[name].to_dense()]) for name in self.names]
        return self.linear(torch.stack(sums).sum(0)).tanh()


def tower(number: int, names: list[str], width: int, *, weighted: bool = False, pooled: bool = True) -> EmbeddingTower:
    options = {"num_embeddings": 8, "embedding_dim": 8}
    if not pooled:
        rows = [EmbeddingConfig(name=f"t{number}_{name}", feature_names=[name], **options) for name in names]
        return EmbeddingTower(EmbeddingCollection(rows), Summed(names, width))
    tables = [EmbeddingBagConfig(name=f"t{number}_{name}", feature_names=[name], **options) for name in names]
    return EmbeddingTower(EmbeddingBagCollection(tables, is_weighted=weighted), Mixed(names, width))


def towers() -> EmbeddingTowerCollection:
    torch.manual_seed(0)
    return EmbeddingTowerCollection(
        [
            tower(0, ["f1", "f2"], 3),
            tower(1, ["f3"], 2, weighted=True),
            tower(2, ["f2", "f4"], 2),
            tower(3, ["f4"], 1, pooled=False),
        ]
    )


def table_names(module: nn.Module) -> list[str]:
    return [
        name.split(".")[-2]
        for name, _ in module.named_parameters()
        if "embedding_bags." in name or "embeddings." in name
    ]


class _Table:
    def __init__(self, name: str) -> None:
        self.name, self.num_embeddings, self.embedding_dim = name, 8, 8


def on_host(names: list[str], kinds: list[str], host: int, world: World, local: int) -> dict:
    """Where tables of a tower go."""
    made = {}
    for at, name in enumerate(names):
        kind, hosts = kinds[at % len(kinds)], world.size // local
        if kind == "table_row_wise":
            made[name] = placed(kind, _Table(name), world.size, local, turn=(host + 1) % hosts)
            continue
        made[name] = within(placed("table_column_wise", _Table(name), local, local), host * local)
    return made


def within(sharding, first: int):
    """A plan for the processes of one host, for those that follow `first`."""
    from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata

    shards = [
        ShardMetadata(one.shard_offsets, one.shard_sizes, placement=f"rank:{one.placement.rank() + first}/cpu")
        for one in sharding.sharding_spec.shards
    ]
    sharding.ranks = [one.placement.rank() for one in shards]
    sharding.sharding_spec = EnumerableShardingSpec(shards)
    return sharding


class Model(nn.Module):
    """Towers, and a loss of their columns."""

    def __init__(self, inside: nn.Module, several: bool) -> None:
        super().__init__()
        self.towers, self.several = inside, several

    def forward(self, features, weighted=None) -> torch.Tensor:
        joined = self.towers(features, weighted) if self.several else self.towers(features)
        joined = joined + 0
        return (joined * torch.arange(1, joined.shape[1] + 1)).square().mean()


def given_of(source, rank: int, step: int):
    plain, weighted = source(rank, step), batch(rank, step, weighted=True)
    if source is variable_batch:
        weighted = batch(rank, step, size=4, weighted=True)
    return plain, weighted


def stepped(model: nn.Module, loss: torch.Tensor) -> None:
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            if param.grad is not None:
                param -= LR * param.grad
    for param in model.parameters():  # tables that one kernel looks up share one gradient
        param.grad = None


def trained(world: World, make, several: bool, plan: dict, source, what: str) -> None:
    sharder = EmbeddingTowerCollectionSharder(dict(FUSED)) if several else EmbeddingTowerSharder(dict(FUSED))
    placing = ShardingPlan({"towers": EmbeddingModuleShardingPlan(plan)})
    model = DistributedModelParallel(Model(make(), several), env(), CPU, placing, [sharder])
    alone = Model(make(), several)
    for step in range(3):
        inputs = [given_of(source, rank, step) for rank in range(world.size)]
        loss = model(*inputs[world.rank][: 1 + several])
        wanted = [
            alone(*(full_batch(one) if one.weights_or_none() is None else one for one in of_rank[: 1 + several]))
            for of_rank in inputs
        ]
        torch.testing.assert_close(loss, wanted[world.rank], msg=partial("{}, step {}: {}".format, what, step))
        stepped(model, loss)
        stepped(alone, sum(wanted) / world.size)
    state, whole = model.state_dict(), alone.state_dict()
    assert_same_state(state, {name: whole[name] for name in state}, what, rtol=1e-4, atol=1e-5)
    names: list = [None] * world.size
    dist.all_gather_object(names, list(state))
    assert {name for of_rank in names for name in of_rank} == set(whole), what
    assert model.load_state_dict(alone.state_dict()).unexpected_keys == []


def check_one_tower_on_any_host_trains_as_on_one_process(world: World):
    for local in {1, get_local_size(world.size)}:
        with hosts_of(local):
            for host in range(world.size // local):
                for kinds in KINDS:
                    for pooled in (True, False):

                        def make(pooled=pooled):
                            torch.manual_seed(0)
                            return tower(0, ["f1", "f3"], 3, pooled=pooled)

                        plan = on_host(["t0_f1", "t0_f3"], kinds, host, world, local)
                        for source in (batch, variable_batch):
                            what = f"{kinds} on host {host} of {local}, pooled {pooled}, {source.__name__}"
                            trained(world, make, False, plan, source, what)


def check_towers_on_several_hosts_train_as_on_one_process_and_keep_their_order(world: World):
    for local in {1, get_local_size(world.size)}:
        with hosts_of(local):
            hosts = world.size // local
            for kinds in KINDS:
                for turn in range(hosts):
                    plan = {}
                    for number, one in enumerate(towers().towers):
                        # The first tower is not on the first host, and a host may have none.
                        host = (hosts - 1 - number // 2 + turn) % hosts
                        plan |= on_host(table_names(one), kinds, host, world, local)
                    for source in (batch, variable_batch):
                        trained(world, towers, True, plan, source, f"{kinds}, {local} a host, {source.__name__}")


def check_optimizers_and_states_of_towers_go_to_another_host(world: World):
    with hosts_of(1):

        def made(host: int, seed: int):
            torch.manual_seed(seed)
            plan = on_host(["t0_f1", "t0_f3"], ["table_row_wise"], host, world, 1)
            fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": LR}
            return EmbeddingTowerSharder(fused).shard(tower(0, ["f1", "f3"], 3), plan, env(), CPU)

        first, second = made(0, 0), made(1, 1)
        for one in (first, second):
            here: list = [None] * world.size
            dist.all_gather_object(here, list(one.fused_optimizer.state_dict()["state"]))
            names = sorted(name for of_rank in here for name in of_rank)
            assert names == ["embedding_bags.t0_f1.weight", "embedding_bags.t0_f3.weight"], names
        (first(batch(world.rank, 0)) + 0).square().mean().backward()
        path = world.folder / "tower"
        dcp.save(first.state_dict(), checkpoint_id=path)
        state = second.state_dict()
        dcp.load(state, checkpoint_id=path)
        second.load_state_dict(state)
        torch.testing.assert_close(second(batch(world.rank, 1)) + 0, first(batch(world.rank, 1)) + 0)


def check_what_does_not_fit_towers_is_named(world: World):
    with hosts_of(1):
        sharder = EmbeddingTowerSharder(dict(FUSED))
        plan = on_host(["t0_f1"], ["table_row_wise"], 0, world, 1) | on_host(["t0_f3"], ["table_row_wise"], 1, world, 1)
        said = raised(ValueError, lambda: sharder.shard(tower(0, ["f1", "f3"], 3), plan, env(), CPU))
        assert "expected one host" in said and "t0_f1" in said and "t0_f3" in said, said
        wise = {"t0_f1": placed("table_wise", _Table("t0_f1"), world.size, 1)}
        said = raised(ValueError, lambda: sharder.shard(tower(0, ["f1"], 3), wise, env(), CPU))
        assert "table 't0_f1' is spread table_wise" in said, said
        strange = EmbeddingTower(nn.EmbeddingBag(8, 8), nn.Linear(8, 3))
        said = raised(RuntimeError, lambda: sharder.shardable_parameters(strange))
        assert "EmbeddingBag" in said, said
        plan = on_host(["t0_f1"], ["table_row_wise"], 0, world, 1)
        made = sharder.shard(tower(0, ["f1"], 3), plan, env(), CPU)
        stray = KeyedJaggedTensor(["f1"], torch.tensor([3, 8]), lengths=torch.tensor([2]))
        said = raised(IndexError, lambda: made(stray))
        assert all(one in said for one in ("feature 'f1'", "id 8", f"process {world.rank}", "table 't0_f1'")), said
        other = KeyedJaggedTensor(["x"], torch.tensor([3]), lengths=torch.tensor([1]))
        said = raised(ValueError, lambda: made(other))
        assert "['f1'] are not in the batch" in said, said
