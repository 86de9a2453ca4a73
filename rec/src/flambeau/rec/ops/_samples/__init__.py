"""Inputs of every operator, by which the conformance kit checks it; see `flambeau.core.testing.samples`."""

from __future__ import annotations

from collections.abc import Iterator

from flambeau.core.testing import Sample
from flambeau.rec.ops._samples._inputs import operator
from flambeau.rec.ops._samples.expected import expected_failures
from flambeau.rec.ops._samples.jagged import jagged_samples
from flambeau.rec.ops._samples.quantized import quantized_samples
from flambeau.rec.ops._samples.sparse import sparse_samples
from flambeau.rec.ops._samples.tables import table_samples

__all__ = ["expected_failures", "op_samples", "operator"]


def op_samples() -> Iterator[Sample]:
    """A sample of each operator, by its name."""
    yield from sparse_samples()
    yield from jagged_samples()
    yield from quantized_samples()
    yield from table_samples()
