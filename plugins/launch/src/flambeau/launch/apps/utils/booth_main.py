"""`python -m flambeau.launch.apps.utils.booth_main --x1 A --x2 B`: the value of Booth's function, to a tracker."""

from __future__ import annotations

import argparse
import sys

from flambeau.launch.runtime.tracking import FsspecResultTracker

__all__ = ["booth", "main", "parse_args"]


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compute Booth's function (x1 + 2 x2 - 7)^2 + (2 x1 + x2 - 5)^2.")
    parser.add_argument("--x1", type=float, required=True, help="first coordinate")
    parser.add_argument("--x2", type=float, required=True, help="second coordinate")
    parser.add_argument("--trial_idx", type=int, default=0, help="key of the result (default: %(default)s)")
    parser.add_argument("--tracker_base", required=True, help="where the result goes")
    return parser.parse_args(argv)


def booth(x1: float, x2: float) -> float:
    """Booth's function, whose least value is 0 at (1, 3)."""
    return (x1 + 2 * x2 - 7) ** 2 + (2 * x1 + x2 - 5) ** 2


def main(argv: list[str]) -> None:
    """Compute the value and put it, as `booth_eval`, under the trial's key."""
    arguments = parse_args(argv)
    value = booth(arguments.x1, arguments.x2)
    FsspecResultTracker(arguments.tracker_base)[arguments.trial_idx] = {"booth_eval": value}
    print(f"booth({arguments.x1}, {arguments.x2}) = {value}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
