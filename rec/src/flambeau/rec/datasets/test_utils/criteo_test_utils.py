"""Criteo's files in miniature, for test cases."""

from __future__ import annotations

import contextlib
import csv
import random
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.rec.datasets.criteo import CAT_FEATURE_COUNT, INT_FEATURE_COUNT

__all__ = ["CAT_FEATURE_COUNT", "INT_FEATURE_COUNT", "CriteoTest"]


class CriteoTest(unittest.TestCase):
    """A test case that can write Criteo's files; the attributes are the ranges of their values."""

    INT_FEATURE_COUNT = INT_FEATURE_COUNT
    CAT_FEATURE_COUNT = CAT_FEATURE_COUNT
    LABEL_VAL_RANGE = (0, 1)
    INT_VAL_RANGE = (0, 100)
    CAT_VAL_RANGE = (0, 1000)

    @classmethod
    @contextlib.contextmanager
    def _create_dataset_tsv(cls, num_rows: int = 10, train: bool = True, filename: str = "criteo") -> Iterator[str]:
        """A file of text with random rows, with labels if it is one for training; gives its path."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / filename
            with path.open("w", newline="") as file:
                writer = csv.writer(file, delimiter="\t", lineterminator="\n")
                for _ in range(num_rows):
                    label = [str(random.randint(*cls.LABEL_VAL_RANGE))] if train else []
                    numbers = [str(random.randint(*cls.INT_VAL_RANGE)) for _ in range(INT_FEATURE_COUNT)]
                    ids = [f"{random.randint(*cls.CAT_VAL_RANGE):08x}" for _ in range(CAT_FEATURE_COUNT)]
                    writer.writerow([*label, *numbers, *ids])
            yield str(path)

    @classmethod
    @contextlib.contextmanager
    def _create_dataset_npys(
        cls,
        num_rows: int = 10,
        filename: str | None = "criteo",
        filenames: list[str] | None = None,
        generate_dense: bool = True,
        generate_sparse: bool = True,
        generate_labels: bool = True,
        dense: NDArray[Any] | None = None,
        sparse: NDArray[Any] | None = None,
        labels: NDArray[Any] | None = None,
    ) -> Iterator[tuple[str, ...]]:
        """Files of arrays, random unless they are given; gives the paths of each name's dense, sparse and "
        "label files.
        """
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name in filenames or [filename or "criteo"]:
                random_arrays: dict[str, NDArray[Any]] = {
                    "dense": np.random.random((num_rows, INT_FEATURE_COUNT)).astype(np.float32),
                    "sparse": np.random.randint(*cls.CAT_VAL_RANGE, (num_rows, CAT_FEATURE_COUNT)),
                    "labels": np.random.randint(0, 2, (num_rows, 1)).astype(np.int32),
                }
                given = {"dense": dense, "sparse": sparse, "labels": labels}
                wanted = {"dense": generate_dense, "sparse": generate_sparse, "labels": generate_labels}
                for kind in (kind for kind, want in wanted.items() if want):
                    path = Path(folder) / f"{name}_{kind}.npy"
                    chosen = given[kind]
                    np.save(path, random_arrays[kind] if chosen is None else chosen)
                    paths.append(str(path))
            yield tuple(paths)

    def _validate_sample(self, sample: dict[str, Any], train: bool = True) -> None:
        """Check the names, types and ranges of a row."""
        self.assertEqual(len(sample), INT_FEATURE_COUNT + CAT_FEATURE_COUNT + train)
        if train:
            self.assertIn(sample["label"], range(self.LABEL_VAL_RANGE[0], self.LABEL_VAL_RANGE[1] + 1))
        for at in range(INT_FEATURE_COUNT):
            self.assertIn(sample[f"int_{at}"], range(self.INT_VAL_RANGE[0], self.INT_VAL_RANGE[1] + 1))
        for at in range(CAT_FEATURE_COUNT):
            self.assertIsInstance(sample[f"cat_{at}"], str)
            self.assertLessEqual(int(sample[f"cat_{at}"], 16), self.CAT_VAL_RANGE[1])
