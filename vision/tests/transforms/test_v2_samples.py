"""How transforms of the second generation see a sample."""

import pytest
import torch
from classes_table import picture, sample

from flambeau.core.errors import TensorTypeError
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F


class Halve(v2.Transform):
    def transform(self, inpt, params):
        return inpt // 2


def test_structure_and_what_it_does_not_know_come_back_unchanged():
    marker = object()
    out = v2.RandomHorizontalFlip(1.0)({"a": [picture(), (marker, 3)], "b": None})
    assert out["a"][1] == (marker, 3)
    assert out["b"] is None
    assert torch.equal(out["a"][0], picture().flip(-1))


def test_several_inputs_come_back_as_a_tuple():
    image, label = v2.Resize((4, 5))(picture(), 7)
    assert (tuple(image.shape), label) == ((3, 4, 5), 7)


def test_the_first_plain_tensor_is_the_image_where_there_is_no_other():
    first, second = Halve()(torch.tensor([4]), torch.tensor([8]))
    assert (first.item(), second.item()) == (2, 8)


@pytest.mark.parametrize("image", [picture(), tv_tensors.Video(picture()[None])])
def test_plain_tensors_stay_beside_an_image_or_a_video(image):
    label = torch.tensor([8])
    assert Halve()(image, label)[1] is label


def test_plain_tensors_stay_beside_a_pil_image():
    label = torch.tensor([8])
    assert v2.RandomHorizontalFlip(1.0)(F.to_pil_image(picture()), label)[1] is label


def test_all_parts_of_a_sample_move_together():
    out = v2.RandomCrop(10)(sample())
    assert {tuple(F.get_size(out[name])) for name in ("image", "boxes", "masks", "points")} == {(10, 10)}


def test_transforms_of_colours_leave_boxes_masks_and_points_as_they_are():
    given = sample()
    out = v2.ColorJitter(0.5)(given)
    assert all(out[name] is given[name] for name in ("boxes", "masks", "points", "labels"))


def test_a_transform_with_probability_returns_the_very_input_when_it_does_not_apply():
    given = sample()
    assert v2.RandomHorizontalFlip(0.0)(given) is given


def test_sizes_have_to_agree():
    with pytest.raises(ValueError, match="different sizes"):
        v2.RandomCrop(4)(picture(8, 9), picture(9, 8))


def test_a_size_needs_something_that_has_one():
    with pytest.raises(TypeError, match="no image"):
        v2.query_size(["a word"])
    with pytest.raises(TypeError, match="no image"):
        v2.query_chw([tv_tensors.Mask(torch.zeros(4, 5))])


def test_questions_about_leaves():
    flat = [picture(), sample()["boxes"], "a word"]
    assert v2.has_any(flat, tv_tensors.Mask, tv_tensors.Image)
    assert not v2.has_all(flat, tv_tensors.Mask, tv_tensors.Image)
    assert v2.check_type("a word", (int, lambda value: value == "a word"))
    assert v2.get_bounding_boxes(flat) is flat[1]
    with pytest.raises(ValueError, match="no key points"):
        v2.get_keypoints(flat)


def test_a_dictionary_of_fills_goes_by_type():
    out = v2.Pad(1, fill={tv_tensors.Image: 9, tv_tensors.Mask: 4})(
        {"i": picture(), "m": sample()["masks"], "b": sample()["boxes"]}
    )
    assert (out["i"][0, 0, 0].item(), out["m"][0, 0, 0].item()) == (9, 4)
    with pytest.raises(ValueError, match="Mask"):
        v2.Pad(1, fill={tv_tensors.Image: 9})(sample())


def test_a_type_of_ones_own_passes_unless_a_kernel_serves_it():
    class Depth(tv_tensors.TVTensor):
        pass

    depth = Depth(torch.zeros(3, 4))
    assert v2.ColorJitter(0.5)(picture(), depth)[1] is depth
    with pytest.raises(TensorTypeError):
        F.adjust_brightness(depth, 0.5)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: v2.RandomHorizontalFlip(1.5), ValueError),
        (lambda: v2.Resize(None), ValueError),
        (lambda: v2.Resize((1, 2, 3)), ValueError),
        (lambda: v2.RandomZoomOut(side_range=(0.5, 2)), ValueError),
        (lambda: v2.RandomAffine(10, translate=(2, 0)), ValueError),
        (lambda: v2.RandomAffine(10, scale=(0, 1)), ValueError),
        (lambda: v2.RandomRotation(-3), ValueError),
        (lambda: v2.RandomPerspective(2.0), ValueError),
        (lambda: v2.ColorJitter(hue=0.7), ValueError),
        (lambda: v2.ColorJitter("much"), TypeError),
        (lambda: v2.GaussianBlur(4), ValueError),
        (lambda: v2.GaussianBlur(3, (0.0, 1.0)), ValueError),
        (lambda: v2.JPEG(0), ValueError),
        (lambda: v2.RandomErasing(value="zeros"), ValueError),
        (lambda: v2.RandomErasing(scale=(0.5, 0.1)), ValueError),
        (lambda: v2.Pad(1, fill="red"), TypeError),
        (lambda: v2.AugMix(severity=11), ValueError),
        (lambda: v2.Compose([]), ValueError),
        (lambda: v2.Compose(3), TypeError),
        (lambda: v2.RandomChoice([v2.Identity()], [1.0, 2.0]), ValueError),
        (lambda: v2.SanitizeBoundingBoxes(min_size=0), ValueError),
        (lambda: v2.SanitizeBoundingBoxes(labels_getter="mine"), ValueError),
        (lambda: v2.SetClampingMode("softly"), ValueError),
        (lambda: v2.ToDtype("float32"), ValueError),
        (lambda: v2.MixUp(alpha=0.0), ValueError),
        (lambda: v2.Lambda(3), TypeError),
        (lambda: v2.RandomCrop(40)(picture()), ValueError),
        (lambda: v2.FiveCrop(4)(sample()), TypeError),
        (lambda: v2.RandomIoUCrop()(picture()), TypeError),
        (lambda: v2.AutoAugment()(sample()), TypeError),
        (lambda: v2.RandAugment()(picture(), picture()), TypeError),
        (lambda: v2.Normalize([0.5], [0.5])(F.to_pil_image(picture())), TypeError),
    ],
)
def test_wrong_arguments_and_samples_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_a_pipeline_that_draws_nothing_compiles_as_one_graph():
    pipeline = v2.Compose([v2.Resize(12), v2.CenterCrop(8), v2.ToDtype(torch.float32, scale=True)])
    image = picture().as_subclass(torch.Tensor)
    compiled = torch.compile(pipeline, fullgraph=True, backend="eager")
    assert torch.equal(compiled(image), pipeline(image))


def test_a_list_of_transforms_may_hold_functions():
    assert torch.equal(v2.Compose([v2.ToPureTensor(), torch.neg])(picture()), -picture().as_subclass(torch.Tensor))
