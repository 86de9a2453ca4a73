"""The command `flambeau example`: measure the model on its dataset."""

from __future__ import annotations

import argparse

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, and say what to run."""
    parser.add_argument("--split", choices=("train", "test"), default="test", help="default: %(default)s")
    parser.add_argument("--count", type=int, metavar="N", help="use the first N points alone")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print how many points the model gets right; returns the exit code."""
    import torch

    from flambeau_plugin_example.datasets import Spirals
    from flambeau_plugin_example.models import spiral_net
    from flambeau_plugin_example.weights import SpiralNet_Weights

    dataset = Spirals(arguments.split)
    points, labels = dataset.points[: arguments.count], dataset.labels[: arguments.count]
    with torch.inference_mode():
        answers = spiral_net(weights=SpiralNet_Weights.DEFAULT).eval()(points).argmax(-1)
    right = int((answers == labels).sum())
    print(f"{right} of {len(points)} points of the {arguments.split} split are right")
    return 0
