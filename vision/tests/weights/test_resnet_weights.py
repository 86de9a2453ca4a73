"""What is said about the ResNet weights is what was published."""

import json

import pytest

from flambeau.core.testing.golden import require_shared
from flambeau.vision import models
from flambeau.vision.transforms import InterpolationMode
from flambeau.vision.transforms._presets import ImageClassification
from flambeau.vision.weights import resnet
from flambeau.vision.weights.categories import categories

ENUMS = {name: getattr(resnet, name) for name in resnet.__all__}


def recorded(name: str) -> dict:
    path = require_shared(__file__) / "spec" / "data" / "vision_weights.json"
    return json.loads(path.read_text())["enums"][name]


@pytest.mark.parametrize("name", ENUMS)
def test_members_aliases_and_builders_are_the_published_ones(name):
    enum, record = ENUMS[name], recorded(name)
    assert [member.name for member in enum] == list(record["members"])
    assert {alias: enum[alias].name for alias in record["aliases"]} == record["aliases"]
    (builder,) = record["builders"]
    assert models.get_model_weights(builder) is enum


@pytest.mark.parametrize("name", ENUMS)
def test_the_facts_of_each_member_are_the_published_ones(name):
    for member_name, record in recorded(name)["members"].items():
        member = ENUMS[name][member_name]
        meta = {**record["meta"], "categories": None, "min_size": tuple(record["meta"]["min_size"])}
        assert member.url == record["url"]
        assert member.sha256 == record["sha256_prefix"]
        assert {key: None if key == "categories" else member.meta[key] for key in meta} == meta
        assert len(member.meta["categories"]) == record["meta"]["categories"]["count"]


@pytest.mark.parametrize("name", ENUMS)
def test_the_preprocessing_is_the_published_one(name):
    for member_name, record in recorded(name)["members"].items():
        transforms = ENUMS[name][member_name].transforms
        assert (transforms.func, transforms.keywords) == (ImageClassification, record["transforms"]["given"])
        effective = record["transforms"]["effective"]
        preset = transforms()
        assert preset.crop_size == [effective["crop_size"]]
        assert preset.resize_size == [effective["resize_size"]]
        assert (preset.mean, preset.std) == (effective["mean"], effective["std"])
        assert (preset.interpolation, preset.antialias) == (InterpolationMode.BILINEAR, True)


def test_docs_and_licence_are_stated():
    for enum in ENUMS.values():
        for member in enum:
            assert member.license == "BSD-3-Clause"
            assert member.meta["_docs"].endswith(".")


def test_label_sets_have_their_published_length_and_order():
    sizes = {"imagenet_1000": 1000, "coco_91": 91, "coco_person": 2, "coco_person_keypoints": 17, "voc_21": 21}
    assert {name: len(categories(name)) for name in sizes} == sizes
    assert len(categories("kinetics_400")) == 400
    assert [categories("imagenet_1000")[index] for index in (0, 281, 999)] == ["tench", "tabby", "toilet tissue"]
    with pytest.raises(KeyError):
        categories("imagenet")


def test_label_sets_equal_the_recorded_ones():
    path = require_shared(__file__) / "spec" / "data" / "vision_categories.json"
    record = json.loads(path.read_text())
    assert {name: categories(name) for name in record if name != "about"} == {
        name: labels for name, labels in record.items() if name != "about"
    }
