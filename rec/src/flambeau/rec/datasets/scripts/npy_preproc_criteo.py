"""Make NumPy arrays of Criteo's files of text: `python -m flambeau.rec.datasets.scripts.npy_preproc_criteo`."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from flambeau.rec.datasets.criteo import BinaryCriteoUtils

__all__ = ["main", "parse_args"]

logger = logging.getLogger(__name__)


def parse_args(argv: list[str]) -> argparse.Namespace:
    """The options of the program.

    Args:
        argv: its arguments.
    """
    parser = argparse.ArgumentParser(
        description="Criteo's text -> <name>_dense.npy, <name>_sparse.npy, <name>_labels.npy"
    )
    parser.add_argument(
        "--input_dir", type=str, required=True, help="folder of the text: day_0 to day_23, or train.txt"
    )
    parser.add_argument("--output_dir", type=str, required=True, help="folder of the arrays")
    parser.add_argument(
        "--dataset_name", type=str, choices=["criteo_1tb", "criteo_kaggle"], default="criteo_1tb", help="which data set"
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    """Run the program.

    Args:
        argv: its arguments.
    """
    args = parse_args(argv)
    output = Path(args.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    names = ["train.txt"] if args.dataset_name == "criteo_kaggle" else [f"day_{day}" for day in range(24)]
    for name in names:
        source = Path(args.input_dir) / name
        if not source.exists():
            logger.warning("%s is not there, and left out.", source)
            continue
        stem = source.stem
        # Whole files alone become visible.
        with tempfile.TemporaryDirectory(dir=output) as folder:
            made = [Path(folder) / f"{stem}_{kind}.npy" for kind in ("dense", "sparse", "labels")]
            dense, sparse, labels = map(str, made)
            BinaryCriteoUtils.tsv_to_npys(str(source), dense, sparse, labels, args.dataset_name)
            for path in made:
                shutil.move(path, output / path.name)
        logger.info("%s is done.", source)


if __name__ == "__main__":
    main(sys.argv[1:])
