"""The base of all datasets of images."""

import pickle
from pathlib import Path

import pytest

from flambeau.vision.datasets.vision import StandardTransform, VisionDataset


class Numbers(VisionDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.transforms(index, -index) if self.transforms else (index, -index)


def double(value):
    return 2 * value


def both(image, target):
    return image + 1, target + 1


def test_transforms_of_the_parts_and_of_both_exclude_each_other():
    with pytest.raises(ValueError, match="either the first or the others"):
        Numbers("", transforms=both, transform=double)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (2, -2)),
        ({"transform": double}, (4, -2)),
        ({"target_transform": double}, (2, -4)),
        ({"transform": double, "target_transform": double}, (4, -4)),
        ({"transforms": both}, (3, -1)),
    ],
)
def test_each_form_of_transforms_is_applied(options, expected):
    assert Numbers("", **options)[2] == expected


def test_the_home_folder_is_expanded_in_a_str():
    assert Numbers("~/data").root == str(Path("~/data").expanduser())


def test_a_dataset_pickles_with_its_transforms():
    assert pickle.loads(pickle.dumps(Numbers("", transform=double)))[1] == (2, -1)


def test_a_subclass_has_to_define_its_items():
    with pytest.raises(NotImplementedError, match="VisionDataset has to define __getitem__"):
        VisionDataset()[0]
    with pytest.raises(NotImplementedError, match="__len__"):
        len(VisionDataset())


def test_lines_of_a_transform_are_aligned():
    class Two:
        def __repr__(self):
            return "Two(\n  lines)"

    assert repr(StandardTransform(Two(), Two())).splitlines() == [
        "StandardTransform",
        "Transform: Two(",
        "             lines)",
        "Target transform: Two(",
        "                    lines)",
    ]
