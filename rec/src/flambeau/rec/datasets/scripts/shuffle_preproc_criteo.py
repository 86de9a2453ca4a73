"""Shuffle the days of Criteo's arrays: `python -m flambeau.rec.datasets.scripts.shuffle_preproc_criteo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flambeau.rec.datasets.criteo import CAT_FEATURE_COUNT, DAYS, INT_FEATURE_COUNT, BinaryCriteoUtils

__all__ = ["COLUMNS", "DAYS", "INT_COLUMNS", "count_rows", "main", "parse_args"]

INT_COLUMNS = INT_FEATURE_COUNT
COLUMNS = 1 + INT_FEATURE_COUNT + CAT_FEATURE_COUNT


def parse_args(argv: list[str]) -> argparse.Namespace:
    """The options of the program.

    Args:
        argv: its arguments.
    """
    parser = argparse.ArgumentParser(description="Shuffles the rows of all days but the last one.")
    parser.add_argument(
        "--input_dir_labels_and_dense", type=str, required=True, help="folder of labels and dense features"
    )
    parser.add_argument("--input_dir_sparse", type=str, required=True, help="folder of the categories")
    parser.add_argument("--output_dir_full_set", type=str, default=None, help="gets all rows in one array, if given")
    parser.add_argument("--output_dir_shuffled", type=str, required=True, help="folder of the shuffled days")
    parser.add_argument("--random_seed", type=int, default=0, help="of the order")
    return parser.parse_args(argv)


def count_rows(rows_per_file: dict[int, int], path: str, day: int) -> None:
    """Note how many rows a day has.

    Args:
        rows_per_file: gets day -> rows.
        path: folder of the labels.
        day: number of the day.
    """
    rows_per_file[day] = BinaryCriteoUtils.get_shape_from_npy(str(Path(path) / f"day_{day}_labels.npy"))[0]


def main(argv: list[str]) -> None:
    """Run the program.

    Args:
        argv: its arguments.
    """
    args = parse_args(argv)
    rows_per_day: dict[int, int] = {}
    for day in range(DAYS):
        count_rows(rows_per_day, args.input_dir_labels_and_dense, day)
    for folder in (args.output_dir_shuffled, args.output_dir_full_set):
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
    BinaryCriteoUtils.shuffle(
        args.input_dir_labels_and_dense,
        args.input_dir_sparse,
        args.output_dir_shuffled,
        rows_per_day,
        args.output_dir_full_set,
        random_seed=args.random_seed,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
