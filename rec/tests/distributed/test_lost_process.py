"""A process that dies makes the others say so, instead of waiting."""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from models import bag_tables, bags, batch, plan

from flambeau.rec.distributed._failures import LostProcessError
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.types import ShardingEnv


def _train(rank: int, size: int, kinds: list[str], lost: int, folder: str) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    sharded = EmbeddingBagCollectionSharder().shard(
        bags(), plan(kinds, bag_tables(), size, 2), env, torch.device("cpu")
    )
    for step in range(3):
        if rank == lost and step == 2:
            os._exit(0)
        try:
            sharded(batch(rank, step)).values().sum().backward()
        except LostProcessError as error:
            with open(f"{folder}/said{rank}", "w") as file:
                file.write(f"{step} {error}")
            os._exit(0)


@pytest.mark.parametrize(
    ("size", "kinds", "lost"),
    [
        (2, ["row_wise", "table_wise"], 1),
        pytest.param(4, ["row_wise", "table_wise"], 2, marks=pytest.mark.slow),
        # Exchanges within hosts, and between them: some processes wait for one that waits for the one that died.
        pytest.param(4, ["table_row_wise", "grid_shard"], 3, marks=pytest.mark.slow),
    ],
)
def test_processes_that_are_left_name_the_one_that_died(tmp_path, size, kinds, lost):
    mp.spawn(_train, (size, kinds, lost, str(tmp_path)), nprocs=size)
    for rank in set(range(size)) - {lost}:
        said = (tmp_path / f"said{rank}").read_text()
        wanted = rf"2 .* failed on process {rank} of {size}: process {lost} does not answer any more"
        assert re.match(wanted, said), said


def _lose_in_the_backward_pass(rank: int, size: int, folder: str) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    placing = plan(["row_wise"], bag_tables(), size, 2)
    sharded = EmbeddingBagCollectionSharder().shard(bags(), placing, env, torch.device("cpu"))
    loss = sharded(batch(rank, 0)).values().sum()
    if rank == size - 1:
        os._exit(0)
    try:
        loss.backward()
    except LostProcessError as error:
        with open(f"{folder}/said{rank}", "w") as file:
            file.write(str(error))
        os._exit(0)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_process_that_dies_before_the_backward_pass_is_named(tmp_path, size):
    mp.spawn(_lose_in_the_backward_pass, (size, str(tmp_path)), nprocs=size)
    for rank in range(size - 1):
        said = (tmp_path / f"said{rank}").read_text()
        assert f"failed on process {rank} of {size}: process {size - 1} does not answer any more" in said, said


def _shard_on_the_first_alone(rank: int, size: int, folder: str) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = str(size)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=3))
    said = Path(folder) / "said0"
    if rank:
        while not said.exists():
            time.sleep(0.1)
        os._exit(0)
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    placing = plan(["row_wise"], bag_tables(), size, size)
    try:
        EmbeddingBagCollectionSharder().shard(bags(), placing, env, torch.device("cpu"))
    except LostProcessError as error:
        said.write_text(str(error))
    os._exit(0)


def test_a_process_that_does_not_spread_the_same_modules_is_waited_for_no_longer_than_the_groups_time(tmp_path):
    mp.spawn(_shard_on_the_first_alone, (2, str(tmp_path)), nprocs=2)
    said = (tmp_path / "said0").read_text()
    assert "a comparison of plans" in said and "process 1 does not answer any more" in said, said
