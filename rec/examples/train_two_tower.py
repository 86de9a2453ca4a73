"""Retrieval from end to end: two towers trained on two processes, their items indexed, and found again.

::

    python train_two_tower.py

Users and items lie in groups, and users turn to items of their group. The tables are sharded by rows over two
processes, and trained in the backward pass. The items' tower fills an inverted file of product-quantized vectors, which
is searched for the vectors of users; recall@k is measured against the exact search, and against what users turned to.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import processes
import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.datasets.utils import Batch
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
from flambeau.rec.distributed.types import ShardingEnv, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.models.two_tower import (
    TwoTower,
    TwoTowerRetrieval,
    TwoTowerTrainTask,
    convert_TwoTower_to_TwoTowerRetrieval,
)
from flambeau.rec.retrieval import ExactIndex, IVFPQIndex, recall_at_k

PROCESSES = 2
USERS, ITEMS, GROUPS = 200, 600, 10
COLUMNS, LAYERS = 16, [32, 16]
CPU = torch.device("cpu")


def table(name: str, rows: int) -> EmbeddingBagConfig:
    """A table with one feature."""
    return EmbeddingBagConfig(
        name=f"t_{name}",
        feature_names=[name],
        num_embeddings=rows,
        embedding_dim=COLUMNS,
        weight_init_min=-0.3,
        weight_init_max=0.3,
    )


def one_each(**ids: Tensor) -> KeyedJaggedTensor:
    """One id of each feature for each example."""
    count = sum(map(len, ids.values()))
    return KeyedJaggedTensor(list(ids), torch.cat(list(ids.values())), lengths=torch.ones(count, dtype=torch.int64))


def batch(step: int, rank: int, size: int) -> Batch:
    """Users with items: of their group, label 1, or any, label 0."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    users = torch.randint(USERS, (size,), generator=draw)
    labels = torch.randint(2, (size,), generator=draw)
    any_item = torch.randint(ITEMS, (size,), generator=draw)
    fitting = any_item // GROUPS * GROUPS + users % GROUPS  # the item's number says its group, and the user's likewise
    return Batch(torch.empty(size, 0), one_each(user=users, item=torch.where(labels == 1, fitting, any_item)), labels)


def train(steps: int, size: int) -> dict[str, Tensor]:
    """Train on this process and the others; the whole state on the first one."""
    torch.manual_seed(0)
    bags = EmbeddingBagCollection([table("user", USERS), table("item", ITEMS)])
    task = TwoTowerTrainTask(TwoTower(bags, LAYERS))
    fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": 0.3, "eps": 1e-8}
    sharder = EmbeddingBagCollectionSharder(fused_params=fused)
    place = construct_module_sharding_plan(
        bags,
        {"t_user": row_wise(), "t_item": row_wise()},
        sharder,  # type: ignore[arg-type]
        local_size=PROCESSES,
        world_size=PROCESSES,
        device_type="cpu",
    )
    env = ShardingEnv.from_process_group(dist.group.WORLD)  # type: ignore[arg-type]
    plan = ShardingPlan({"two_tower.ebc": place})
    model = DistributedModelParallel(task, env, CPU, plan, [sharder])  # type: ignore[list-item]
    dense = [param for name, param in model.named_parameters() if name not in set(model.fused_optimizer.params)]
    optimizer = torch.optim.Adam(dense, lr=0.005)
    for step in range(steps):
        optimizer.zero_grad()
        loss, _ = model(batch(step, dist.get_rank(), size))
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % (steps // 5) == 0:
            print(f"step {step:4}: loss {loss.item():.3f}", flush=True)
    return gathered(model.state_dict())


def gathered(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state in whole tensors, on the first process."""
    whole = {}
    for name, tensor in state.items():
        if not hasattr(tensor, "local_shards"):
            whole[name] = tensor
            continue
        out = torch.empty(tensor.size()) if dist.get_rank() == 0 else None
        tensor.gather(dst=0, out=out)
        if out is not None:
            whole[name] = out
    return whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, index, retrieve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("-k", type=int, default=10)
    options = parser.parse_args(arguments)
    state = convert_TwoTower_to_TwoTowerRetrieval(
        processes.run(train, PROCESSES, options.steps, options.batch), ["t_user"], ["t_item"]
    )
    index = IVFPQIndex(LAYERS[-1], num_centroids=16, num_probe=8, metric="inner_product")
    model = TwoTowerRetrieval(
        index,
        EmbeddingBagCollection([table("user", USERS)]),
        EmbeddingBagCollection([table("item", ITEMS)]),
        LAYERS,
        options.k,
    )
    model.load_state_dict(state)
    with torch.inference_mode():
        items = model.candidate_proj(model.candidate_ebc(one_each(item=torch.arange(ITEMS))).values())
        users = model.query_proj(model.query_ebc(one_each(user=torch.arange(USERS))).values())
        index.train(items)
        index.add(items)
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "items.safetensors")
            index = model.faiss_index = IVFPQIndex.load(Path(folder) / "items.safetensors")
        exact = ExactIndex(LAYERS[-1], metric="inner_product")
        exact.add(items)
        expected = exact.search(users, options.k)[1]
        for index.nprobe in (1, 4, 16):
            found = index.search(users, options.k)[1]
            fitting = (found % GROUPS == torch.arange(USERS)[:, None] % GROUPS).float().mean()
            print(
                f"{index.nprobe:2} lists: recall@{options.k} of the exact search {recall_at_k(found, expected):.2f}, "
                f"{fitting:.0%} of the users' group"
            )
        scores = model(one_each(user=torch.arange(3))).view(3, options.k)
        print("scores of the first user:", " ".join(f"{score:.2f}" for score in scores[0].tolist()))


if __name__ == "__main__":
    main()
