"""Transfer: tables trained on one task begin another one, frozen or trained on.

::

    python pretrained_embeddings.py

Items have traits that two tasks depend on. The first has many examples, the second few: with the first one's table it
is learned from those; with a fresh table it is not. The table goes over as a `state_dict`, by its name.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor

ITEMS, COLUMNS, TRAITS = 500, 8, 4


class Task(nn.Module):
    """Bags of items, pooled, and a layer that says something about them."""

    def __init__(self) -> None:
        super().__init__()
        table = EmbeddingBagConfig(name="t_item", feature_names=["item"], num_embeddings=ITEMS, embedding_dim=COLUMNS)
        self.bags = EmbeddingBagCollection([table])
        self.over = nn.Sequential(nn.Linear(COLUMNS, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        """Logits (B,)."""
        return self.over(self.bags(features).values()).squeeze(1)  # type: ignore[no-any-return]


def examples(count: int, seed: int, weights: Tensor) -> tuple[KeyedJaggedTensor, Tensor]:
    """Bags of three items, and whether their traits, weighted, are more than nothing."""
    traits = torch.randn(ITEMS, TRAITS, generator=torch.Generator().manual_seed(7))
    ids = torch.randint(ITEMS, (count, 3), generator=torch.Generator().manual_seed(seed))
    labels = (traits[ids].sum(1) @ weights > 0).float()
    return KeyedJaggedTensor(["item"], ids.flatten(), lengths=torch.full((count,), 3)), labels


def train(model: Task, features: KeyedJaggedTensor, labels: Tensor, steps: int) -> None:
    """All parameters that ask for it."""
    optimizer = torch.optim.Adam([param for param in model.parameters() if param.requires_grad], lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(features), labels).backward()
        optimizer.step()


@torch.inference_mode()
def accuracy(model: Task, features: KeyedJaggedTensor, labels: Tensor) -> float:
    """The share of right answers."""
    return float(((model(features) > 0).float() == labels).float().mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the first task, save its table, and begin the second one three ways."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(arguments)
    first, second = torch.tensor([1.0, 1.0, -1.0, 0.0]), torch.tensor([1.0, 0.8, -0.8, 0.2])
    torch.manual_seed(0)
    source = Task()
    train(source, *examples(20_000, 1, first), steps=150)
    print(f"first task, 20,000 examples: {accuracy(source, *examples(5000, 2, first)):.1%}")
    few, held_out = examples(100, 3, second), examples(5000, 4, second)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(source.bags.state_dict(), Path(folder) / "items.pt")
        for way in ("fresh", "frozen", "trained on"):
            torch.manual_seed(1)
            model = Task()
            if way != "fresh":
                model.bags.load_state_dict(torch.load(Path(folder) / "items.pt", weights_only=True))
            model.bags.requires_grad_(way != "frozen")
            train(model, *few, steps=60)
            print(f"second task, 100 examples, {way} table: {accuracy(model, *held_out):.1%}")


if __name__ == "__main__":
    main()
