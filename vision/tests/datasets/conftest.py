"""Datasets over their miniatures, for tests of single parsers."""

import pytest

from flambeau.core.testing.dataset_subject import DatasetSubject
from flambeau.core.testing.samples import provision
from flambeau.vision import datasets


@pytest.fixture
def miniature():
    """A dataset's miniature by name: `.build(**options)` is the dataset over it, `.placed` the root."""
    for name in datasets.__all__:  # importing one registers it
        getattr(datasets, name)
    subjects = {}

    def of(name: str) -> DatasetSubject:
        if name not in subjects:
            subjects[name] = DatasetSubject(f"vision/{name}", provision(None, "vision"))
        return subjects[name]

    return of
