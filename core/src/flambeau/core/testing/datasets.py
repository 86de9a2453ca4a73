"""Datasets by name, asked what datasets are asked."""

from __future__ import annotations

from flambeau.core.registry import DATASETS
from flambeau.core.testing import dataset_file_checks, dataset_item_checks
from flambeau.core.testing.dataset_subject import DatasetSubject
from flambeau.core.testing.results import BoundCheck, Level, Result, bind, run
from flambeau.core.testing.samples import provision


def check_dataset(name: str, *, samples: object | None = None, level: Level = "default") -> list[Result]:
    """Ask everything that datasets are asked.

    Args:
        name: canonical id or short name of a registered dataset.
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.
        level: "full" starts workers by spawn too.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
    """
    return run(bind_dataset(name, samples=samples, level=level))


def bind_dataset(name: str, *, samples: object | None = None, level: Level = "default") -> list[BoundCheck]:
    """The checks of one dataset."""
    entry = DATASETS.entry(name)
    provided = provision(samples, entry.plugin)
    subject = DatasetSubject(entry.id, provided)
    return [
        bound
        for catalogue in (dataset_item_checks.CHECKS, dataset_file_checks.CHECKS)
        for bound in bind(catalogue, subject, entry.id, level=level, expected_failures=provided.expected_failures)
    ]
