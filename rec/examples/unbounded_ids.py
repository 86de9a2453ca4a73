"""Ids without bound in a table of few rows: a row for each id that matters now, and who loses its row to whom.

::

    python unbounded_ids.py

Ids come from a range of 2^40, and the fashion changes: some are met often for a while. Hashed into the table, ids share
rows and disturb each other. With managed collisions (zero-collision hashing) each id that is met often has a row of its
own, which it loses when it is not met any more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.modules.mc_embedding_modules import ManagedCollisionEmbeddingBagCollection
from flambeau.rec.modules.mc_modules import DistanceLFU_EvictionPolicy, ManagedCollisionCollection
from flambeau.rec.modules.mc_modules import MCHManagedCollisionModule as ZeroCollision

ROWS, BOUND = 64, 2**40
POPULAR = 40  # ids that are met often at a time


def table() -> EmbeddingBagConfig:
    """Few rows."""
    return EmbeddingBagConfig(name="t_item", feature_names=["item"], num_embeddings=ROWS, embedding_dim=8)


def batch(step: int, size: int) -> tuple[Tensor, Tensor]:
    """Ids, and labels that follow from the id; every 100 steps other ids are popular."""
    draw = torch.Generator().manual_seed(step)
    popular = torch.randint(BOUND, (POPULAR,), generator=torch.Generator().manual_seed(step // 100))
    rare = torch.randint(BOUND, (size,), generator=draw)
    chosen = popular[torch.randint(POPULAR, (size,), generator=draw)]
    ids = torch.where(torch.rand(size, generator=draw) < 0.9, chosen, rare)
    return ids, (ids // 7 % 2).float()


def train(look_up: Callable[[Tensor], Tensor], parameters: list[nn.Parameter], steps: int) -> tuple[float, list[float]]:
    """Train a layer over embeddings; the error in the second half of each fashion, and its course."""
    torch.manual_seed(0)
    over = nn.Linear(8, 1)
    optimizer = torch.optim.Adagrad([*parameters, *over.parameters()], lr=0.3)
    wrong: list[float] = []
    for step in range(steps):
        ids, labels = batch(step, 128)
        logits = over(look_up(ids)).squeeze(1)
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
        optimizer.step()
        wrong.append(float(((logits > 0).float() != labels).float().mean()))
    late = [error for step, error in enumerate(wrong) if step % 100 >= 50]
    return sum(late) / len(late), wrong


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with hashed ids, and with managed ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args(arguments).steps

    def features(ids: Tensor) -> KeyedJaggedTensor:
        return KeyedJaggedTensor(["item"], ids, lengths=torch.ones(len(ids), dtype=torch.int64))

    torch.manual_seed(1)
    plain = EmbeddingBagCollection([table()])
    hashed, _ = train(lambda ids: plain(features(ids % ROWS)).values(), list(plain.parameters()), steps)

    torch.manual_seed(1)
    zero_collision = ZeroCollision(
        zch_size=ROWS,
        device=torch.device("cpu"),
        eviction_policy=DistanceLFU_EvictionPolicy(),
        eviction_interval=10,
        input_hash_size=BOUND,
    )
    bags = EmbeddingBagCollection([table()])
    managed = ManagedCollisionEmbeddingBagCollection(
        bags, ManagedCollisionCollection({"t_item": zero_collision}, bags.embedding_bag_configs())
    )
    own_rows, _ = train(lambda ids: managed(features(ids))[0].values(), list(bags.parameters()), steps)
    print(f"{ROWS} rows for ids below 2^40, of which {POPULAR} are popular at a time")
    print(f"hashed:  {hashed:.1%} wrong")
    print(f"managed: {own_rows:.1%} wrong, {int(zero_collision.open_slots())} rows are nobody's")


if __name__ == "__main__":
    main()
