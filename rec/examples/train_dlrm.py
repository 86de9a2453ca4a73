"""From a file of clicks to a trained DLRM: columns of a frame, sparse features, batches, metrics.

::

    python train_dlrm.py                         # a made-up file in Criteo's layout, some seconds
    python train_dlrm.py --data train.txt --rows 200000

The file has a line for each advertisement shown: 0 or 1 for a click, 13 whole numbers and 26 categories in hexadecimal,
between tabs; values may be missing. Numbers become logarithms, categories are hashed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

import flambeau.data.frame as frames
from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig
from flambeau.rec.datasets.frames import jagged_features
from flambeau.rec.datasets.utils import Batch
from flambeau.rec.metrics.auc import compute_auc
from flambeau.rec.models.dlrm import DLRM, DLRMTrain

NUMBERS = [f"int_{at}" for at in range(13)]
CATEGORIES = [f"cat_{at}" for at in range(26)]


def write_clicks(path: Path, count: int) -> None:
    """A file in Criteo's layout, whose clicks follow from two of the columns."""
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(count):
            numbers = [draw.randrange(1000) for _ in NUMBERS]
            categories = [draw.randrange(50) for _ in CATEGORIES]
            likely = 0.1 + 0.4 * (categories[3] % 3 == 0) + 0.3 * (numbers[5] > 100)
            shown = [str(number) if draw.random() > 0.1 else "" for number in numbers]
            named = [f"{category:08x}" if draw.random() > 0.1 else "" for category in categories]
            file.write("\t".join([str(int(draw.random() < likely)), *shown, *named]) + "\n")


def batches(path: Path, size: int, rows: int) -> Iterator[Batch]:
    """The file's lines as a model takes them.

    Args:
        path: the file.
        size: lines of a batch.
        rows: of each table, which categories are hashed to.
    """
    names = ["label", *NUMBERS, *CATEGORIES]
    columns: list[list[str]] = [[] for _ in names]
    with path.open() as file:
        for line in file:
            for column, cell in zip(columns, line.rstrip("\n").split("\t"), strict=True):
                column.append(cell)
            if len(columns[0]) == size:
                yield _batch(dict(zip(names, columns, strict=True)), rows)
                columns = [[] for _ in names]


def _batch(columns: dict[str, list[str]], rows: int) -> Batch:
    numbers = frames.dataframe({name: [float(cell or 0) for cell in columns[name]] for name in NUMBERS})
    dense = torch.stack([(numbers[name] + 3.0).log().to_tensor() for name in NUMBERS], 1)
    # A line without a category has none: its bag is empty.
    listed = frames.dataframe(
        {name: [[int(cell, 16)] if cell else [] for cell in columns[name]] for name in CATEGORIES}
    )
    hashed = {
        name: frames.functional.sigrid_hash(listed[name], at, rows).to_tensor() for at, name in enumerate(CATEGORIES)
    }
    labels = torch.tensor([int(cell) for cell in columns["label"]])
    return Batch(dense.float(), jagged_features(hashed), labels)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on nine tenths of the batches, measure on the last one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="in Criteo's layout; made up where it is not given")
    parser.add_argument("--rows", type=int, default=500, help="of each table")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = options.data or Path(folder) / "clicks.tsv"
        if options.data is None:
            write_clicks(path, 5120)
        held = list(batches(path, options.batch, options.rows))
    train, test = held[: len(held) * 9 // 10], held[len(held) * 9 // 10 :]
    tables = [
        EmbeddingBagConfig(name=f"t_{name}", feature_names=[name], num_embeddings=options.rows, embedding_dim=16)
        for name in CATEGORIES
    ]
    model = DLRMTrain(DLRM(EmbeddingBagCollection(tables), len(NUMBERS), [32, 16], [64, 1]))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    for epoch in range(options.epochs):
        total = 0.0
        for batch in train:
            optimizer.zero_grad()
            loss, _ = model(batch)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(train):.4f}")
    with torch.inference_mode():
        logits, labels = zip(*((found[1], found[2]) for _, found in map(model, test)), strict=True)
    parts = [part.view(1, -1).float() for part in labels]
    weights = [torch.ones_like(part) for part in parts]
    print(f"AUC {float(compute_auc(1, [part.view(1, -1) for part in logits], parts, weights)):.3f}")


if __name__ == "__main__":
    main()
