"""The suite against torchtext 0.18, whose outcomes are on record."""

from __future__ import annotations

from pathlib import Path

import torchtext_data
import torchtext_datasets
import torchtext_models
import torchtext_signatures
import torchtext_tokenizers
from recorded import RecordedSuite

OUTCOMES = Path(__file__).resolve().parents[1] / "upstream" / "torchtext_outcomes.json.gz"

SUITE = RecordedSuite(
    "torchtext",
    ours="flambeau.text",
    peer="torchtext",
    outcomes=OUTCOMES,
    differences=Path(__file__).with_name("differences.toml"),
    # Ten releases of torch lie between the two sides, with other kernels.
    rtol=1e-4,
    atol=1e-5,
)
for part in (torchtext_tokenizers, torchtext_data, torchtext_models, torchtext_datasets, torchtext_signatures):
    SUITE.add(*part.cells())
