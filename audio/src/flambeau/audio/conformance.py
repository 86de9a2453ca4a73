"""What the conformance kit needs to check audio: miniature datasets, inputs of models and operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio._miniatures import write_miniature
from flambeau.audio.functional._samples import op_samples as op_samples
from flambeau.audio.models import _samples
from flambeau.audio.models._samples import as_batch as as_batch
from flambeau.audio.models._samples import example_inputs as example_inputs
from flambeau.audio.models._samples import model_config as model_config
from flambeau.audio.models._samples import raw_input as raw_input

expected_failures = {
    **_samples.expected_failures,
    "facts-complete:audio/voxceleb1*": "its owner states no checksum of the lists, and none is on record",
}


def dataset_fixture(name: str, root: Path) -> dict[str, Any]:
    """Write a few items in the dataset's true layout; returns what to build it with."""
    return write_miniature(name, root)
