"""What the conformance kit needs to check rl: inputs of its policies, data sets in miniature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.rl._miniatures import write_miniature

expected_failures = {
    "schema-agrees-with-samples:rl/*": "an item is a tensordict; the kit takes it for a mapping, and iterates over it",
    "length-agrees-with-iteration:rl/*": "iterating over a buffer draws batches; its length counts the steps",
    "state-resumes:rl/*": "a buffer's state is its content; draws with replacement have no place to resume at",
}


def example_inputs(model_name: str, batch: int) -> tuple[Tensor, ...]:
    """Observations of a control problem."""
    return (torch.randn(batch, {"cartpole_policy": 4, "pendulum_policy": 3}[model_name]),)


def dataset_fixture(name: str, root: Path) -> dict[str, Any]:
    """Write a few episodes in the source's true layout; returns what to build the data set with."""
    dataset_id = write_miniature(name, root)
    first = {"lerobot": "repo_id", "openml": "name"}.get(name, "dataset_id")
    config: dict[str, Any] = {first: dataset_id, "root": root, "batch_size": 2, "download": False}
    # The kit's transforms give something else than tensordicts, which must come last.
    further = {"openx": {"streaming": False}, "vd4rl": {"totensor": False}, "lerobot": {"decode_video": False}}
    return config | further.get(name, {})
