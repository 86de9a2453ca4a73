"""The dataset."""

import pytest
import torch
from flambeau.core import get_dataset, get_dataset_info


def test_the_dataset_is_found_by_name_with_its_facts():
    info = get_dataset_info("example/spirals")
    assert (info.sizes, info.license) == ({"train": 2000, "test": 1000}, "BSD-3-Clause")
    assert len(get_dataset("example/spirals", split="test")) == 1000


def test_an_item_is_a_point_and_its_spiral():
    point, label = get_dataset("example/spirals")[1]
    assert (point.shape, point.dtype, label) == ((2,), torch.float32, 1)


def test_items_are_the_same_each_time_and_differ_between_splits():
    first, again, other = (get_dataset("example/spirals", split=split).points for split in ("train", "train", "test"))
    assert torch.equal(first, again)
    assert not torch.equal(first[: len(other)], other)


def test_transforms_are_applied():
    data = get_dataset("example/spirals", transform=lambda point: "point", target_transform=lambda label: label + 10)
    assert data[0] == ("point", 10)


def test_a_split_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="split is 'val'"):
        get_dataset("example/spirals", split="val")
