"""`python -m flambeau.launch.apps.utils.copy_main --src FROM --dst TO`: copy a file between places of fsspec."""

from __future__ import annotations

import argparse
import shutil
import sys

import fsspec

__all__ = ["main", "parse_args"]


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Copy a file between places that fsspec reaches.")
    parser.add_argument("--src", required=True, help="from where")
    parser.add_argument("--dst", required=True, help="to where")
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    """Copy; folders of the target are made."""
    arguments = parse_args(argv)
    with (
        fsspec.open(arguments.src, "rb") as source,
        fsspec.open(arguments.dst, "wb", auto_mkdir=True) as target,
    ):
        shutil.copyfileobj(source, target, 1 << 20)


if __name__ == "__main__":
    main(sys.argv[1:])
