"""Datasets over their miniatures, for tests of single parsers."""

import pytest

from flambeau.audio import conformance, datasets
from flambeau.audio.prototype import datasets as prototypes
from flambeau.core.testing.dataset_subject import DatasetSubject
from flambeau.core.testing.samples import provision


@pytest.fixture
def miniature():
    """A dataset's miniature by name: `.build(**options)` is the dataset over it, `.placed` the root."""
    for package in (datasets, prototypes):
        for name in package.__all__:  # importing one registers it
            getattr(package, name)
    subjects = {}

    def of(name: str) -> DatasetSubject:
        if name not in subjects:
            subjects[name] = DatasetSubject(f"audio/{name}", provision(conformance, "audio"))
        return subjects[name]

    return of
