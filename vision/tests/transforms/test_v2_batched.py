"""`batched`: parameters for each sample of a batch."""

import pytest
import torch
from classes_table import TABLE, picture, sample

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2

SIZES_DIFFER = {"RandomResize", "RandomShortestSize", "ScaleJitter", "RandomZoomOut", "RandomRotation", "RandomOrder"}
# Their result is no tensor, they take no image, or take batches anyway.
NOT_FOR_BATCHES = {
    "CutMix", "FiveCrop", "LinearTransformation", "MixUp", "Normalize", "PILToTensor", "RandomIoUCrop",
    "SanitizeBoundingBoxes", "SanitizeKeyPoints", "TenCrop", "ToPILImage", "RandomApply", "RandomChoice",
}  # fmt: skip


def images(count: int = 4) -> tv_tensors.Image:
    return tv_tensors.Image(torch.stack([picture(seed=seed) for seed in range(count)]))


@pytest.mark.parametrize("name", sorted(set(TABLE) - SIZES_DIFFER - NOT_FOR_BATCHES))
def test_a_batch_is_a_loop_over_its_samples_with_the_same_draws(name):
    transform = TABLE[name][0]
    torch.manual_seed(0)
    out, params = v2.batched(transform)(images(), return_params=True)
    assert type(out) is type(transform(picture()))
    for index, row in enumerate(out.as_subclass(torch.Tensor)):
        single = transform(tv_tensors.Image(images().as_subclass(torch.Tensor)[index]), replay=params[index])
        assert torch.allclose(row.double(), single.as_subclass(torch.Tensor).double(), atol=1e-6)


def test_samples_draw_for_themselves():
    torch.manual_seed(0)
    _, params = v2.batched(v2.RandomHorizontalFlip())(images(16), return_params=True)
    assert {record[0]["params"]["applied"] for record in params} == {True, False}


def test_a_batch_can_be_replayed_and_takes_a_generator():
    transform = v2.batched(v2.Compose([v2.RandomResizedCrop(8), v2.RandAugment()]))
    first, params = transform(images(), generator=torch.Generator().manual_seed(1), return_params=True)
    assert torch.equal(transform(images(), replay=params), first)
    assert torch.equal(transform(images(), generator=torch.Generator().manual_seed(1)), first)


def test_masks_and_labels_go_along():
    given = {"image": images(), "mask": tv_tensors.Mask(images()[:, 0]), "label": torch.arange(4)}
    out = v2.batched(v2.Compose([v2.RandomCrop(9), v2.RandomVerticalFlip()]))(given)
    assert torch.equal(out["image"][:, 0], out["mask"])
    assert isinstance(out["mask"], tv_tensors.Mask)
    assert torch.equal(out["label"], torch.arange(4))


def test_results_of_different_sizes_are_refused():
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="different shapes"):
        v2.batched(v2.RandomResize(8, 30))(images())


def test_boxes_are_refused():
    with pytest.raises(TypeError, match="BoundingBoxes"):
        v2.batched(v2.RandomHorizontalFlip())({"image": images(), "boxes": sample()["boxes"]})


def test_a_recording_has_one_entry_for_each_sample():
    with pytest.raises(ValueError, match="recordings of 1"):
        v2.batched(v2.RandomInvert())(images(), replay=[[]])
