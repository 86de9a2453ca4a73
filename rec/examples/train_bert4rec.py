"""Train BERT4Rec on two processes twice: with its table of items sharded, and with a copy of everything on each.

::

    python train_bert4rec.py                                   # 60,000 items of 64 columns, 12 steps
    python train_bert4rec.py --items 400000 --steps 30

Where the table dominates, copies of it cost: its gradient has a row for every item, and is summed over the processes at
each step. Sharded by rows, a process sends the rows that a batch names, and updates them in the backward pass.
How much that gains depends on the sizes: small tables are copied sooner than rows are asked for.

Histories are made up: each user goes around in a few items. The last item is masked, and is to be found among as many
drawn ones; scoring all items at every position would hide what the table costs (Sun et al. 2019, arXiv:1904.06690, do
so for vocabularies of some ten thousand).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import processes
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
from flambeau.rec.distributed.types import ShardingEnv, ShardingPlan
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.models.bert4rec import BERT4Rec
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

PROCESSES = 2
LENGTH = 16  # items of a history
TABLE_RATE = 0.05  # of learning; what lies over the table learns at a tenth of it
CPU = torch.device("cpu")


class MaskedItems(nn.Module):
    """BERT4Rec's body, and which of some candidates the masked item is.

    Args:
        items: ids are below it; 0 is none, and the last is the mask.
        columns: of every embedding.
        candidates: that scores are made for.
    """

    def __init__(self, items: int, columns: int, candidates: int) -> None:
        super().__init__()
        self.body = BERT4Rec(items, LENGTH, columns, nhead=2, num_layers=2, dropout=0.0)
        self.body.out = nn.Linear(columns, candidates)  # type: ignore[assignment]

    def forward(self, histories: KeyedJaggedTensor, wanted: Tensor) -> Tensor:
        """The cross entropy of the masked items, which are the last ones."""
        logits = self.body(histories)[:, -1]
        return nn.functional.cross_entropy(logits, wanted)


def batch(step: int, rank: int, size: int, items: int, candidates: int) -> tuple[KeyedJaggedTensor, Tensor]:
    """Histories that end with the mask, and what it stands for, which follows from the item before."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    # Some items are met all the time, most of them rarely.
    ids = (torch.rand(size, LENGTH, generator=draw) ** 3 * (items - 2)).long() + 1
    wanted = ids[:, -2] % candidates
    ids[:, -1] = items - 1
    return KeyedJaggedTensor(["item"], ids.flatten(), lengths=torch.full((size,), LENGTH)), wanted


def train(kind: str, options: argparse.Namespace) -> tuple[float, list[float]]:
    """Train on this process and the others.

    Args:
        kind: "sharded" or "copied".
        options: of the command line.

    Returns:
        Histories in a second, of all processes; and the losses.
    """
    torch.manual_seed(0)
    model: nn.Module = MaskedItems(options.items, options.columns, options.candidates)
    rank = dist.get_rank()
    if kind == "sharded":
        fused = {"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": TABLE_RATE, "eps": 1e-8}
        sharder = EmbeddingCollectionSharder(fused_params=fused)
        place = construct_module_sharding_plan(
            model.body.history.ec,  # type: ignore[union-attr, arg-type]
            {"item_embedding": row_wise()},
            sharder,  # type: ignore[arg-type]
            local_size=PROCESSES,
            world_size=PROCESSES,
            device_type="cpu",
        )
        env = ShardingEnv.from_process_group(dist.group.WORLD)  # type: ignore[arg-type]
        plan = ShardingPlan({"body.history.ec": place})
        model = DistributedModelParallel(model, env, CPU, plan, [sharder])  # type: ignore[list-item]
        in_backward = set(model.fused_optimizer.params)
        groups = [{"params": [param for name, param in model.named_parameters() if name not in in_backward]}]
    else:
        table = {"params": list(model.body.history.ec.parameters()), "lr": TABLE_RATE}  # type: ignore[union-attr]
        of_table = {id(param) for param in table["params"]}  # type: ignore[attr-defined]
        groups = [{"params": [param for param in model.parameters() if id(param) not in of_table]}, table]  # type: ignore[list-item]
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(groups, lr=0.005, eps=1e-8)
    losses, fastest = [], float("inf")
    for step in range(options.steps):
        histories, wanted = batch(step, rank, options.batch, options.items, options.candidates)
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model(histories, wanted)
        loss.backward()
        optimizer.step()
        dist.barrier()
        if step > 1:
            fastest = min(fastest, time.perf_counter() - start)
        losses.append(loss.item())
    return PROCESSES * options.batch / fastest, losses


def main(arguments: Sequence[str] | None = None) -> None:
    """Train both ways, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args(arguments)
    rates = {}
    for kind in ("sharded", "copied"):
        rates[kind], losses = processes.run(train, PROCESSES, kind, options)
        print(f"{kind:8} {rates[kind]:8.0f} histories/s, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    print(f"sharded is {rates['sharded'] / rates['copied']:.2f} times as fast")


if __name__ == "__main__":
    main()
