"""What all datasets have in common, asked of each one in the registry over its miniature: the registry is the table."""

import json

import pytest

from flambeau.core.datasets import get_dataset_info, list_datasets
from flambeau.core.testing import parametrize_with_checks
from flambeau.core.testing.golden import upstream_facts
from flambeau.vision import datasets

EVERY = [getattr(datasets, name) for name in datasets.__all__]  # importing one registers it
NAMES = [name.removeprefix("vision/") for name in list_datasets(plugin="vision")]


@parametrize_with_checks("vision", kinds=["dataset"])
def test_it_answers_what_every_dataset_is_asked(check):
    check()


def recorded():
    return upstream_facts("datasets", __file__)["datasets"]


@pytest.mark.parametrize("name", sorted(set(NAMES) & {name.lower() for name in recorded()}))
def test_its_facts_are_those_on_record(name):
    record = next(value for key, value in recorded().items() if key.lower() == name)
    known = get_dataset_info(name)
    text = json.dumps([record.get("constants", {}), record.get("md5_in_code", [])])
    digests = {content.md5 for file in known.files for content in (file, *file.contents) if content.md5}
    strange = {digest for digest in digests if digest not in text}
    assert not strange
    sizes = record["sizes"] or {}
    assert {split: known.sizes[split] for split in sizes if split in known.sizes} == {
        split: size for split, size in sizes.items() if split in known.sizes
    }
