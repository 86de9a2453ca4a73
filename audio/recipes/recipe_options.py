"""What the command lines of the training recipes have in common, and how results are printed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from resumable import Trainer


def parser_of(documentation: str) -> argparse.ArgumentParser:
    """A parser that shows a recipe's documentation as it is written."""
    return argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add where the run is kept, on what it runs, and how it is cut into pieces."""
    parser.add_argument("--out", type=Path, help="folder of the run; one that is there already goes on")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...; an accelerator where there is one")
    parser.add_argument("--workers", type=int, default=4, help="processes that read recordings (default: %(default)s)")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of one step (default: %(default)s)")
    parser.add_argument("--save-every", type=int, default=1000, help="steps between checkpoints (default: %(default)s)")
    parser.add_argument("--stop-after", type=int, help="leave off after so many steps, to go on another time")
    parser.add_argument("--seed", type=int, default=0)
    add_result(parser)


def add_result(parser: argparse.ArgumentParser) -> None:
    """Add how the result is printed, and the trial without data."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--tiny", action="store_true", help="a trial of seconds, on data made for it, without network")


def required(parser: argparse.ArgumentParser, arguments: argparse.Namespace, *names: str) -> None:
    """End with a message where an option is missing that only a trial can do without."""
    lacking = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) is None]
    if lacking:
        parser.error(f"{', '.join(lacking)} must be given, or --tiny for a trial without data")


def progress_of(trainer: Trainer) -> dict[str, Any]:
    """How far a training is: what every result says."""
    return {
        "steps": trainer.step,
        "epochs": trainer.epoch,
        "resumed_at": trainer.resumed_at,
        "loss": trainer.last_loss,
    }


def report(result: dict[str, Any], as_json: bool) -> None:
    """Print a result: JSON on one line, or a line for each entry."""
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' ')}: {shown}")
