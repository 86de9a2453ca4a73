"""MixUp, CutMix and RandomErasing."""

import pytest
import torch
from classes_table import batch, picture, sample

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2


def test_mixup_mixes_each_sample_with_the_one_before_and_labels_alike():
    images, labels = batch()
    (mixed, soft), params = v2.MixUp(num_classes=3)(images, labels, return_params=True)
    lam = params[0]["params"]["lam"]
    assert torch.allclose(mixed, lam * images + (1 - lam) * images.roll(1, 0))
    assert soft.shape == (4, 3)
    assert torch.allclose(soft.sum(1), torch.ones(4))


def test_cutmix_mixes_labels_by_the_area_that_is_left():
    images, labels = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 10).clone(), torch.arange(4)
    mixed, soft = v2.CutMix(num_classes=4)(images, labels)
    kept = (mixed == images).float().mean((1, 2, 3))
    assert torch.allclose(soft.diagonal(), kept, atol=1e-6)


@pytest.mark.parametrize("key", ["labels", "LABELS", "class_label"])
def test_labels_are_found_in_a_dictionary(key):
    images, labels = batch()
    out = v2.MixUp(num_classes=3)({"image": tv_tensors.Image(images), "weight": torch.ones(4), key: labels})
    assert out[key].shape == (4, 3)
    assert torch.equal(out["weight"], torch.ones(4))
    assert isinstance(out["image"], tv_tensors.Image)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((batch()[0], batch()[1][:3]), "batch of 3"),
        ((batch()[0][0], batch()[1]), "batch of 4"),
        ((picture(), "cat"), "looks for a tensor"),
        ({"image": batch()[0]}, "no key with 'label'"),
        (sample(), "does not mix"),
        ((batch()[0], torch.zeros(4, 3, 2)), r"expected \[B\]"),
        ((batch()[0], torch.zeros(4, 5)), "5 classes"),
    ],
)
def test_what_cannot_be_mixed_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        v2.MixUp(num_classes=3)(given)


def test_labels_that_are_indices_need_the_number_of_classes():
    with pytest.raises(ValueError, match="pass num_classes"):
        v2.CutMix()(*batch())


def test_erasing_writes_the_value_into_one_rectangle():
    torch.manual_seed(0)
    out, params = v2.RandomErasing(1.0, value=(1, 2, 3))(torch.zeros(3, 20, 26), return_params=True)
    place = params[1]["params"]
    i, j, h, w = (place[name] for name in "ijhw")
    assert out[:, i : i + h, j : j + w].flatten(1).unique(dim=1).tolist() == [[1.0], [2.0], [3.0]]
    assert out.count_nonzero() == 3 * h * w


def test_erasing_warns_that_boxes_stay():
    with pytest.warns(UserWarning, match="BoundingBoxes"):
        v2.RandomErasing(1.0)({"image": picture(), "boxes": sample()["boxes"]})
