"""Number the ids of Criteo's arrays: `python -m flambeau.rec.datasets.scripts.contiguous_preproc_criteo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flambeau.rec.datasets.criteo import DAYS, FREQUENCY_THRESHOLD, BinaryCriteoUtils

__all__ = ["DAYS", "main", "parse_args"]


def parse_args(argv: list[str]) -> argparse.Namespace:
    """The options of the program.

    Args:
        argv: its arguments.
    """
    parser = argparse.ArgumentParser(description="day_<n>_sparse.npy -> day_<n>_sparse_contig_freq.npy")
    parser.add_argument("--input_dir", type=str, required=True, help="folder of the arrays")
    parser.add_argument("--output_dir", type=str, required=True, help="folder of the new ones")
    parser.add_argument(
        "--frequency_threshold", type=int, default=FREQUENCY_THRESHOLD, help="ids that come less often all become 1"
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    """Run the program.

    Args:
        argv: its arguments.
    """
    args = parse_args(argv)
    files = [str(Path(args.input_dir) / f"day_{day}_sparse.npy") for day in range(DAYS)]
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    BinaryCriteoUtils.sparse_to_contiguous(files, args.output_dir, frequency_threshold=args.frequency_threshold)


if __name__ == "__main__":
    main(sys.argv[1:])
