"""Train `interaction_ranker` on generated collections: `python rec/recipes/interaction_ranker.py --out FOLDER`.

Data: there is none of people's. Each of 60 collections is made by `generated_interactions.py`: 40 of users who choose
by taste and popularity, 20 of sessions, in which an item leads to the next one, all with other numbers of users and
items and other tastes. They hold what these models give, and nothing says that people are like that. Of each user the
last fifth of interactions is what is to be ranked: they are positive, and for each of them four items are negative that
the user does not turn to, drawn at random. Features are made of what was before.

Measured on 16 and 8 collections that training has not seen, whose sizes and tastes are drawn anew.

The run is deterministic: one thread, fixed seeds. It takes about three minutes on one CPU core, writes
`interaction_ranker-generated_v1-<hash>.safetensors`, and prints what belongs into the record.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from generated_interactions import sessions, tastes
from safetensors.torch import save
from torch import Tensor, nn

from flambeau.rec.metrics.auc import compute_auc
from flambeau.rec.metrics.ne import compute_ne, get_ne_states
from flambeau.rec.models.interaction_features import Interactions, InteractionStatistics
from flambeau.rec.models.interaction_ranker import InteractionRanker
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

NEGATIVES = 4
HELD = 0.2  # of each user's interactions


@dataclass
class Examples:
    """Pairs with their features, in the order of users; the features' ids of each pair, padded."""

    users: Tensor
    dense: Tensor
    ids: Tensor  # (n, H + 3), -1 where there is none: the history, then one id of each other feature
    labels: Tensor
    keys: list[str]

    def batch(self, rows: Tensor) -> tuple[Tensor, KeyedJaggedTensor, Tensor]:
        """Some of the pairs as the model takes them."""
        ids = self.ids[rows]
        columns = [ids[:, :-3], *ids[:, -3:].split(1, 1)]
        real = [column >= 0 for column in columns]
        sparse = KeyedJaggedTensor(
            self.keys,
            torch.cat([column[held] for column, held in zip(columns, real, strict=True)]),
            lengths=torch.cat([held.sum(1) for held in real]),
        )
        return self.dense[rows], sparse, self.labels[rows]


def split(world: Interactions) -> tuple[Interactions, Interactions]:
    """The first interactions of each user, and the last ones; all are in the order of time."""
    order = world.users.argsort(stable=True)
    counts = torch.bincount(world.users)
    place = torch.arange(len(order)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    late = torch.empty(len(order), dtype=torch.bool)
    late[order] = place >= (counts * (1 - HELD)).ceil().repeat_interleave(counts)
    values = world.values
    return tuple(  # type: ignore[return-value]
        Interactions(world.users[part], world.items[part], None, None if values is None else values[part])
        for part in (~late, late)
    )


def examples(world: Interactions, generator: torch.Generator) -> Examples:
    """Positive and negative pairs of a collection."""
    before, after = split(world)
    statistics = InteractionStatistics(before)
    known = after.items < statistics.num_items
    positive = torch.zeros(statistics.num_users, statistics.num_items, dtype=torch.bool)
    positive[after.users[known], after.items[known]] = True
    parts = []
    for users, new in statistics.unseen(torch.arange(statistics.num_users)):
        wanted = positive[users] & new
        # Each user's negatives: as many as it takes, of those with the largest random numbers.
        drawn = torch.rand(new.shape, generator=generator).masked_fill_(~new | wanted, -1.0)
        rank = drawn.argsort(1, descending=True).argsort(1)
        others = (rank < NEGATIVES * wanted.sum(1, keepdim=True)) & (drawn >= 0)
        made = statistics.candidates(users, new, wanted | others)
        parts.append((made, wanted[wanted | others]))
    keys = parts[0][0].sparse.keys()
    ids = [torch.cat([made.sparse[key].to_padded_dense(30 if key == "history" else 1, padding_value=-1)
                      for key in keys], 1) for made, _ in parts]  # fmt: skip
    return Examples(
        torch.cat([made.users for made, _ in parts]),
        torch.cat([made.dense for made, _ in parts]),
        torch.cat(ids).long(),
        torch.cat([labels for _, labels in parts]).float(),
        keys,
    )


def train(worlds: Iterable[Interactions], *, epochs: int = 3, size: int = 2048, seed: int = 0) -> InteractionRanker:
    """A trained model."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    held = [examples(world, generator) for world in worlds]
    data = Examples(
        held[0].users,
        *(torch.cat([getattr(one, name) for one in held]) for name in ("dense", "ids", "labels")),
        held[0].keys,
    )
    model = InteractionRanker().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    steps = -(-len(data.labels) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=epochs * steps)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(data.labels), generator=generator).split(size):
            dense, sparse, labels = data.batch(rows)
            loss = nn.functional.binary_cross_entropy_with_logits(model(dense, sparse).squeeze(1), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch + 1}: {len(data.labels)} pairs, loss {total / len(data.labels):.4f}")
    return model.eval()


@torch.inference_mode()
def measure(model: nn.Module, worlds: Iterable[Interactions]) -> dict[str, float]:
    """AUC, normalized entropy and calibration over all pairs; AUC of the popularity and of the similarity alone."""
    generator = torch.Generator().manual_seed(1)
    scores, labels, popular, similar = [], [], [], []
    for world in worlds:
        held = examples(world, generator)
        dense, sparse, truth = held.batch(torch.arange(len(held.labels)))
        scores.append(model(dense, sparse).squeeze(1).sigmoid())
        labels.append(truth)
        popular.append(dense[:, 1])
        similar.append(dense[:, 4])
    truth, made = torch.cat(labels), torch.cat(scores)

    def auc(of: list[Tensor]) -> float:
        """The mean of the collections, each of which has a scale of its own."""
        each = [
            compute_auc(1, [one.unsqueeze(0)], [held.unsqueeze(0)], [torch.ones(1, len(held))])
            for one, held in zip(of, labels, strict=True)
        ]
        return float(torch.cat(each).mean())

    weights = torch.ones_like(truth, dtype=torch.float64)
    states = get_ne_states(truth.double(), made.double(), weights, 1e-12)
    entropy = compute_ne(
        states["cross_entropy_sum"], weights.sum(), states["pos_labels"], states["neg_labels"], 1e-12, False
    )
    return {
        "AUC": auc(scores),
        "NE": float(entropy),
        "calibration": float(made.sum() / truth.sum()),
        "AUC of popularity": auc(popular),
        "AUC of similarity": auc(similar),
        "pairs": float(len(truth)),
    }


def main() -> None:
    """Train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--worlds", type=int, default=60)
    folder = parser.parse_args()
    model = train([(sessions if seed % 3 == 2 else tastes)(seed) for seed in range(folder.worlds)])
    content = save({name: value.contiguous() for name, value in model.state_dict().items()})
    digest = hashlib.sha256(content).hexdigest()
    path = folder.out / f"interaction_ranker-generated_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    print(f"parameters {sum(p.numel() for p in model.parameters())}")
    print("tastes", measure(model, [tastes(seed) for seed in range(1000, 1016)]))
    print("sessions", measure(model, [sessions(seed) for seed in range(1000, 1008)]))


if __name__ == "__main__":
    main()
