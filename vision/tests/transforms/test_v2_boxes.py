"""Transforms of boxes and points themselves, types, and functions of one's own."""

import pytest
import torch
from classes_table import double, picture, sample

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2


def test_sanitizing_drops_boxes_with_their_labels_and_masks():
    given = sample()
    given["boxes"][1] = torch.tensor([8.0, 6.0, 8.5, 18.0])
    given["semantic"] = tv_tensors.Mask(torch.zeros(20, 26))
    out = v2.SanitizeBoundingBoxes()(given)
    assert out["labels"].tolist() == [1, 3]
    assert torch.equal(out["masks"], given["masks"][[0, 2]])
    assert out["semantic"] is given["semantic"]
    assert out["boxes"].format is tv_tensors.BoundingBoxFormat.XYXY


def test_sanitizing_takes_several_labels():
    def labels(given):
        return given["labels"], given["scores"]

    given = sample() | {"scores": torch.tensor([0.1, 0.2, 0.3])}
    given["boxes"][0, 2:] = 99.0
    out = v2.SanitizeBoundingBoxes(labels_getter=labels)(given)
    assert (out["labels"].tolist(), out["scores"].tolist()) == ([2, 3], pytest.approx([0.2, 0.3]))


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="one each"):
        v2.SanitizeBoundingBoxes()(sample() | {"labels": torch.tensor([1])})


def test_sanitizing_drops_points_outside():
    points = tv_tensors.KeyPoints(torch.tensor([[3.0, 4.0], [26.0, 4.0]]), canvas_size=(20, 26))
    out, labels = v2.SanitizeKeyPoints(labels_getter="default")(points, torch.tensor([5, 6]))
    assert (out.tolist(), labels.tolist()) == ([[3.0, 4.0]], [5])


def test_a_crop_by_overlap_keeps_boxes_whose_centre_is_inside():
    torch.manual_seed(0)
    out, params = v2.RandomIoUCrop(sampler_options=[0.3])(sample(), return_params=True)
    inside = params[0]["params"]["is_within_crop_area"]
    assert inside.any()
    assert torch.equal(out["boxes"][~inside], torch.zeros(int((~inside).sum()), 4))


def test_the_mode_of_clamping_is_kept_by_what_follows():
    given = sample()
    out = v2.Compose([v2.SetClampingMode(None), v2.CenterCrop(6)])(given)
    assert (out["boxes"] < 0).any()
    assert given["boxes"].clamping_mode == "soft"


def test_dtypes_go_by_type():
    out = v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.bool, "others": None}, scale=True)(
        sample()
    )
    assert (out["image"].dtype, out["masks"].dtype, out["boxes"].dtype) == (torch.float32, torch.bool, torch.float32)
    assert out["image"].max() <= 1
    with pytest.raises(ValueError, match="BoundingBoxes"):
        v2.ToDtype({tv_tensors.Image: torch.float32})(sample())


def test_one_dtype_is_for_images_alone():
    out = v2.ToDtype(torch.float64)(sample())
    assert (out["image"].dtype, out["masks"].dtype) == (torch.float64, torch.int64)


def test_types_come_and_go():
    assert type(v2.ToPureTensor()(picture())) is torch.Tensor
    image = v2.Compose([v2.ToPILImage(), v2.ToImage()])(picture())
    assert isinstance(image, tv_tensors.Image)
    assert torch.equal(image, picture())


def test_a_function_is_applied_to_its_types():
    out = v2.Lambda(double, tv_tensors.Mask)(sample())
    assert torch.equal(out["masks"], sample()["masks"] * 2)
    assert torch.equal(out["image"], picture())


def test_the_old_conversion_names_the_new_one():
    with pytest.warns(UserWarning, match="ToDtype"):
        v2.ToTensor()
