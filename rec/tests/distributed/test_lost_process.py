"""A process that dies makes the others say so, instead of waiting."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from models import bag_tables, bags, batch, plan

from flambeau.rec.distributed._failures import LostProcessError
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.types import ShardingEnv


def _train(rank: int, size: int, folder: str) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = str(size)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    placing = plan(["row_wise", "table_wise"], bag_tables(), size, size)
    sharded = EmbeddingBagCollectionSharder().shard(bags(), placing, env, torch.device("cpu"))
    for step in range(3):
        if rank == 1 and step == 2:
            os._exit(0)
        try:
            sharded(batch(rank, step)).values().sum().backward()
        except LostProcessError as error:
            with open(f"{folder}/said{rank}", "w") as file:
                file.write(f"{step} {error}")
            os._exit(0)


def test_processes_that_are_left_name_the_one_that_died(tmp_path):
    mp.spawn(_train, (2, str(tmp_path)), nprocs=2)
    said = (tmp_path / "said0").read_text()
    assert re.match(r"2 an exchange of .* failed on process 0 of 2: process 1 does not answer any more", said), said
