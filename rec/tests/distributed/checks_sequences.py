"""Checks that sharded collections of sequences train for long, and go on after another plan, as one process does."""

from __future__ import annotations

import os

import torch
from checks_training import CPU, KERNELS, LR, STATE_TOLERANCE, Steps, assert_same_loss, assert_same_state, env, local
from models import SEQUENCE_KINDS, batch, plan, sequence_tables, sequences
from processes import World
from torch import nn

from flambeau.rec import checkpoint
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import LazyAwaitable, ShardingPlan

NAMES = ["f1@t1", "f1@t3", "f2", "f3", "f4"]


class Reader(nn.Module):
    """Sequences, and a layer over their sums."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.tables = sequences(seed)
        torch.manual_seed(seed + 1)
        self.over = nn.Linear(8, 1)

    def forward(self, features):
        found = LazyAwaitable._wait_async(self.tables(features))
        rows = torch.cat([found[name].values().sum(0, keepdim=True) * (at + 1) for at, name in enumerate(NAMES)])
        return self.over(rows / 10).square().mean()


class Spread(Steps):
    """A sharded reader."""

    def __init__(self, kinds: list[str], world: World, seed: int = 0, **options) -> None:
        sharder = EmbeddingCollectionSharder(fused_params=dict(KERNELS))
        placing = ShardingPlan({"tables": plan(kinds, sequence_tables(), world.size, local(world), **options)})
        super().__init__(DistributedModelParallel(Reader(seed), env(), CPU, placing, [sharder]), torch.optim.Adagrad)


def check_sequences_train_for_long_and_go_on_after_another_plan(world: World):
    steps = int(os.environ.get("FLAMBEAU_CHECK_STEPS", "5"))
    spread = [[kind] for kind in SEQUENCE_KINDS[1:]]
    mixed = ["row_wise", "table_wise", "column_wise", "row_wise"]
    plans = [*zip(spread, [*spread[1:], spread[0]], strict=True), (mixed, mixed[1:]), (["data_parallel"],) * 2]
    for at, (kinds, after) in enumerate(plans):
        alone = Reader()
        optimizer = torch.optim.Adagrad(alone.parameters(), lr=LR)

        def wanted(step: int, alone=alone, optimizer=optimizer) -> float:
            optimizer.zero_grad()
            losses = [alone(batch(rank, step)) for rank in range(world.size)]
            (sum(losses) / world.size).backward()
            optimizer.step()
            return losses[world.rank].item()

        spread_out = Spread(kinds, world)
        for step in range(steps):
            loss = wanted(step)
            got = spread_out.step(world.rank, step)
            assert_same_loss(got, loss, f"{kinds}, step {step}")
        assert_same_state(spread_out.model.state_dict(), alone.state_dict(), str(kinds), **STATE_TOLERANCE)
        folder = world.folder / f"sequences{at}"
        checkpoint.save(spread_out.model, folder, spread_out.optimizer)
        other = Spread(after, world, seed=5, turn=1)
        checkpoint.load(other.model, folder, other.optimizer)
        what = f"{kinds} to {after}"
        assert_same_state(other.model.state_dict(), alone.state_dict(), what, **STATE_TOLERANCE)
        for step in range(steps, steps + 3):
            loss = wanted(step)
            assert_same_loss(other.step(world.rank, step), loss, f"{what}, step {step}")
        assert_same_state(other.model.state_dict(), alone.state_dict(), what, **STATE_TOLERANCE)
