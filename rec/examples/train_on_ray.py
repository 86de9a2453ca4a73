"""Train a sharded collection on the workers of a Ray cluster, here one that is started on this machine.

::

    pip install ray
    python train_on_ray.py                    # two workers on this machine
    python train_on_ray.py --address auto     # on a cluster that runs

Ray starts the workers and tells them of each other; from there on it is torch.distributed, as under `torchrun`.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence

import ray
import torch
import torch.distributed as dist
from torch import nn

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
from flambeau.rec.distributed.types import ShardingEnv, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType

ROWS, COLUMNS = 1000, 16


class Ranker(nn.Module):
    """A table, and a layer over it."""

    def __init__(self) -> None:
        super().__init__()
        table = EmbeddingBagConfig(name="t_item", feature_names=["item"], num_embeddings=ROWS, embedding_dim=COLUMNS)
        self.bags = EmbeddingBagCollection([table])
        self.over = nn.Linear(COLUMNS, 1)

    def forward(self, features: KeyedJaggedTensor, labels: torch.Tensor) -> torch.Tensor:
        """The binary cross entropy."""
        logits = self.over(self.bags(features).values()).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(logits, labels)


@ray.remote(num_cpus=1)
class Worker:
    """One process of the training."""

    def address(self) -> str:
        """Where others reach this process: a free port of its machine."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def train(self, address: str, rank: int, world_size: int, steps: int) -> list[float]:
        """Train together with the others; the losses."""
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world_size)
        torch.manual_seed(0)
        model = Ranker()
        fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": 0.5, "eps": 1e-8}
        sharder = EmbeddingBagCollectionSharder(fused_params=fused)
        place = construct_module_sharding_plan(
            model.bags,
            {"t_item": row_wise()},
            sharder,  # type: ignore[arg-type]
            local_size=world_size,
            world_size=world_size,
            device_type="cpu",
        )
        env = ShardingEnv.from_process_group(dist.group.WORLD)  # type: ignore[arg-type]
        sharded = DistributedModelParallel(
            model,
            env,
            torch.device("cpu"),
            ShardingPlan({"bags": place}),
            [sharder],  # type: ignore[list-item]
        )
        dense = [param for name, param in sharded.named_parameters() if name not in set(sharded.fused_optimizer.params)]
        optimizer = torch.optim.Adagrad(dense, lr=0.1)
        losses = []
        for step in range(steps):
            draw = torch.Generator().manual_seed(1000 * step + rank)
            ids = torch.randint(ROWS, (256,), generator=draw)
            features = KeyedJaggedTensor(["item"], ids, lengths=torch.ones(256, dtype=torch.int64))
            optimizer.zero_grad()
            loss = sharded(features, (ids % 3 == 0).float())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        dist.destroy_process_group()
        return losses


def main(arguments: Sequence[str] | None = None) -> None:
    """Start the workers, train, print the losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="of a cluster; without it one is started here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args(arguments)
    here = {"num_cpus": options.workers, "include_dashboard": False} if options.address is None else {}
    ray.init(address=options.address, log_to_driver=False, **here)
    try:
        workers = [Worker.remote() for _ in range(options.workers)]
        address = ray.get(workers[0].address.remote())
        found = ray.get(
            [worker.train.remote(address, rank, len(workers), options.steps) for rank, worker in enumerate(workers)]
        )
        for rank, losses in enumerate(found):
            print(f"worker {rank}: loss {losses[0]:.3f} to {losses[-1]:.3f}")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
