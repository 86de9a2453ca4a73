"""Preprocess Parquet files as NVTabular does, on Arrow: categories by frequency, logarithms, lists; then batches.

::

    python preprocess_parquet.py                              # a made-up file
    python preprocess_parquet.py --data events --out ready    # folders of Parquet files

Two passes over files that need not fit into memory: the first counts the values of categories, the second writes
numbers. A value that is met fewer times than the threshold is 1, what is missing is 0; others are numbered from 2 by
frequency, so that rows of a table that are met often lie together. Numbers become log(1 + x), missing ones 0. Columns
of lists stay lists.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from flambeau.data.jagged import JaggedValues
from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig
from flambeau.rec.datasets.frames import jagged_features
from flambeau.rec.datasets.utils import Batch

CATEGORIES, LISTS, NUMBERS, LABEL = ("user", "country"), ("genres",), ("price", "clicks"), "bought"
MISSING, RARE, FIRST = 0, 1, 2


def write_events(folder: Path, count: int, files: int = 2) -> None:
    """Made-up events, with rare values and missing ones."""
    draw = np.random.default_rng(0)
    genres = np.array(["drama", "farce", "crime", "space"])
    for number in range(files):
        users = draw.zipf(1.5, count) % 10_000
        columns = {
            "user": pa.array([f"u{user}" for user in users]),
            "country": pa.array([None if one == 9 else f"c{one}" for one in draw.integers(0, 10, count)]),
            "genres": pa.array([list(draw.choice(genres, draw.integers(0, 3))) for _ in range(count)]),
            "price": pa.array([None if one < 0.1 else one * 100 for one in draw.random(count)]),
            "clicks": pa.array(draw.integers(0, 50, count)),
            "bought": pa.array(draw.integers(0, 2, count)),
        }
        pq.write_table(pa.table(columns), folder / f"events-{number}.parquet")


def record_batches(folder: Path, size: int) -> Iterator[pa.RecordBatch]:
    """All files' rows, so many at a time."""
    for path in sorted(folder.glob("*.parquet")):
        yield from pq.ParquetFile(path).iter_batches(size)


def _flat(column: Any) -> Any:
    return pc.list_flatten(column) if pa.types.is_list(column.type) else column


def count_values(folder: Path, threshold: int, size: int = 65_536) -> dict[str, list[Any]]:
    """The first pass: of each category the values that are met often enough, most frequent first."""
    counts: dict[str, Counter[Any]] = {name: Counter() for name in (*CATEGORIES, *LISTS)}
    for batch in record_batches(folder, size):
        for name, counter in counts.items():
            found = pc.value_counts(_flat(batch.column(name)).drop_null())
            counter.update(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))
    # Of equally frequent ones the smaller first, so that the numbers do not depend on the files' order.
    return {
        name: [value for value, met in sorted(counter.items(), key=lambda one: (-one[1], one[0])) if met >= threshold]
        for name, counter in counts.items()
    }


def _numbered(column: Any, values: list[Any]) -> Any:
    flat = _flat(column)
    place = pc.index_in(flat, value_set=pa.array(values, flat.type))
    known = pc.add(pc.fill_null(place, RARE - FIRST), FIRST)
    numbers = pc.if_else(pc.is_null(flat), MISSING, known).cast(pa.int64())
    if not pa.types.is_list(column.type):
        return numbers
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]), pa.int32())
    return pa.ListArray.from_arrays(offsets, numbers)


def transform(folder: Path, out: Path, values: dict[str, list[Any]], size: int = 65_536) -> None:
    """The second pass: numbers in the place of everything, in one file, and the values that they stand for."""
    writer = None
    for batch in record_batches(folder, size):
        columns = {name: _numbered(batch.column(name), values[name]) for name in (*CATEGORIES, *LISTS)}
        for name in NUMBERS:
            numbers = pc.fill_null(batch.column(name).cast(pa.float32()), 0.0)
            columns[name] = pc.log1p(pc.max_element_wise(numbers, pa.scalar(0, pa.float32())))
        columns[LABEL] = batch.column(LABEL)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(out / "ready.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    (out / "values.json").write_text(json.dumps(values))


def _tensor(column: Any) -> torch.Tensor:
    """A column without missing values as a tensor of its own: Arrow's memory is not to be written to."""
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).copy())


def batches(out: Path, size: int) -> Iterator[Batch]:
    """What was written as a model takes it."""
    for batch in record_batches(out, size):
        ids: dict[str, Any] = {name: _tensor(batch.column(name)) for name in CATEGORIES}
        for name in LISTS:
            column = batch.column(name)
            lengths = _tensor(pc.list_value_length(column)).long()
            ids[name] = JaggedValues(_tensor(pc.list_flatten(column)), lengths=lengths)
        dense = torch.stack([_tensor(batch.column(name)) for name in NUMBERS], 1)
        yield Batch(dense, jagged_features(ids), _tensor(batch.column(LABEL)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Both passes, and one look-up of the first batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of Parquet files; made up where it is not given")
    parser.add_argument("--out", type=Path, help="folder for what is written")
    parser.add_argument("--threshold", type=int, default=3, help="times that a value is met at least to have a number")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = options.data or Path(temporary) / "events", options.out or Path(temporary) / "ready"
        out.mkdir(parents=True, exist_ok=True)
        if options.data is None:
            folder.mkdir()
            write_events(folder, 5000)
        values = count_values(folder, options.threshold)
        transform(folder, out, values)
        for name, held in values.items():
            print(f"{name}: {len(held)} values have numbers, the first {', '.join(map(str, held[:3]))}")
        tables = [
            EmbeddingBagConfig(
                name=f"t_{name}", feature_names=[name], num_embeddings=FIRST + len(held), embedding_dim=8
            )
            for name, held in values.items()
        ]
        collection = EmbeddingBagCollection(tables)
        count = 0
        for batch in batches(out, 1024):
            pooled = collection(batch.sparse_features)
            count += len(batch.labels)
        shapes = f"embeddings {tuple(pooled.values().shape)}, numbers {tuple(batch.dense_features.shape)}"
        print(f"{count} events; in the last batch {shapes}")


if __name__ == "__main__":
    main()
