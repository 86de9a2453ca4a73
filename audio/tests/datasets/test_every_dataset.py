"""What all datasets have in common, asked of each one in the registry over its miniature: the registry is the table."""

import json

import pytest

from flambeau.audio import conformance, datasets
from flambeau.audio.prototype import datasets as prototypes
from flambeau.core.datasets import get_dataset_info, list_datasets
from flambeau.core.testing import parametrize_with_checks
from flambeau.core.testing.golden import upstream_facts

EVERY = [getattr(package, name) for package in (datasets, prototypes) for name in package.__all__]  # registers them
NAMES = {cls.__name__.lower(): f"audio/{cls.__name__.lower()}" for cls in EVERY}


@parametrize_with_checks("audio", samples=conformance, kinds=["dataset"])
def test_it_answers_what_every_dataset_is_asked(check):
    check()


def recorded():
    return upstream_facts("datasets", __file__)["datasets"]


def test_every_recorded_dataset_is_registered():
    assert {name.rpartition(".")[2].lower() for name in recorded()} <= set(NAMES)
    assert set(NAMES.values()) <= set(list_datasets(plugin="audio"))


@pytest.mark.parametrize("name", sorted(recorded()))
def test_its_archives_and_digests_are_those_on_record(name):
    record = recorded()[name]
    known = {file.url: file.sha256 for file in get_dataset_info(NAMES[name.rpartition(".")[2].lower()]).files}
    text = json.dumps(recorded()["VoxCeleb1Identification"] if "VoxCeleb1" in name else record)
    if name == "LibriSpeechBiasing":
        text = json.dumps(recorded()["LIBRISPEECH"])
    if name == "VoxCeleb1Verification":
        text += json.dumps(record)
    assert all(url in text and (digest is None or digest in text) for url, digest in known.items())
    archives = record.get("archives", record.get("files", {}))
    if isinstance(archives, dict) and not name.startswith("VoxCeleb1"):
        assert set(archives) <= set(known)
