"""What is said about all weights is what was published."""

import math
from enum import Enum
from functools import cache

import pytest

from flambeau.core.testing.golden import upstream_facts
from flambeau.core.weights import WeightsEnum
from flambeau.vision import models, weights
from flambeau.vision.weights.categories import categories

OURS = {"DigitCNN_Weights"}
NAMES = sorted(set(weights.__all__) - OURS)


@cache
def all_recorded() -> dict:
    return upstream_facts("weights", __file__)["enums"]


def recorded(name: str) -> dict:
    return all_recorded()[name]


def members(name: str):
    enum = getattr(weights, name)
    return [(enum[member], record) for member, record in recorded(name)["members"].items()]


def plain(value):
    """As the record has it: lists, names of enums' members, weights by name."""
    if isinstance(value, WeightsEnum):
        return repr(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def stated(value):
    """A recorded value without the numbers that upstream could not state."""
    if isinstance(value, dict) and "ref" not in value:
        kept = {key: stated(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item != {} and not _is_nan(item)}
    return value


def _is_nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize("name", NAMES)
def test_members_aliases_and_builders_are_the_published_ones(name):
    enum, record = getattr(weights, name), recorded(name)
    assert [member.name for member in enum] == list(record["members"])
    assert {alias: enum[alias].name for alias in record["aliases"]} == record["aliases"]
    for builder in record["builders"]:
        assert models.get_model_weights(builder) is enum


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_each_member_is_the_published_one(name):
    for member, record in members(name):
        assert (member.url, member.sha256) == (record["url"], record["sha256_prefix"])


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_of_each_member_are_the_published_ones(name):
    for member, record in members(name):
        for key, expected in record["meta"].items():
            value = member.meta[key]
            if isinstance(expected, dict) and "ref" in expected:
                assert value is categories(expected["ref"])
                assert len(value) == expected["count"]
            elif key == "license":
                assert member.meta["license_url"] == expected
            else:
                assert plain(value) == (stated(expected) if key == "_metrics" else expected), key


@pytest.mark.parametrize("name", NAMES)
def test_the_preprocessing_is_the_published_one(name):
    for member, record in members(name):
        transforms, expected = member.transforms, record["transforms"]
        assert transforms.func.__name__ == expected["factory"].rpartition(".")[2]
        assert {key: plain(value) for key, value in transforms.keywords.items()} == expected["given"]
        preset = transforms()
        for key, value in expected["effective"].items():
            actual = plain(getattr(preset, key))
            assert actual in (value, [value]), key


@pytest.mark.parametrize("name", NAMES)
def test_licence_and_a_description_are_stated(name):
    for member, record in members(name):
        assert member.license == (record["license"] or "BSD-3-Clause")
        assert member.meta["_docs"].endswith(".")


def test_label_sets_have_their_published_length_and_order():
    sizes = {"imagenet_1000": 1000, "coco_91": 91, "coco_person": 2, "coco_person_keypoints": 17, "voc_21": 21}
    assert {name: len(categories(name)) for name in sizes} == sizes
    assert len(categories("kinetics_400")) == 400
    assert [categories("imagenet_1000")[index] for index in (0, 281, 999)] == ["tench", "tabby", "toilet tissue"]
    with pytest.raises(KeyError):
        categories("imagenet")


def test_label_sets_equal_the_recorded_ones():
    record = upstream_facts("categories", __file__)
    assert {name: categories(name) for name in record if name != "about"} == {
        name: labels for name, labels in record.items() if name != "about"
    }
