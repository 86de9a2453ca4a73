"""The transforms of the first generation."""

import pickle
import random

import pytest
import torch
from classes_table import double, picture

import flambeau.vision.transforms as v1
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F

IMAGE = picture().as_subclass(torch.Tensor)
# (first generation, second generation): the same result from the same seed
TWINS = {
    "Resize": (v1.Resize(12), v2.Resize(12)),
    "CenterCrop": (v1.CenterCrop((30, 8)), v2.CenterCrop((30, 8))),
    "FiveCrop": (v1.FiveCrop(7), v2.FiveCrop(7)),
    "TenCrop": (v1.TenCrop(7, True), v2.TenCrop(7, True)),
    "Pad": (v1.Pad((1, 2), 3), v2.Pad((1, 2), 3)),
    "RandomResizedCrop": (v1.RandomResizedCrop(8), v2.RandomResizedCrop(8)),
    "RandomCrop": (v1.RandomCrop(9, 2), v2.RandomCrop(9, 2)),
    "RandomHorizontalFlip": (v1.RandomHorizontalFlip(), v2.RandomHorizontalFlip()),
    "RandomVerticalFlip": (v1.RandomVerticalFlip(), v2.RandomVerticalFlip()),
    "RandomPerspective": (v1.RandomPerspective(p=0.9), v2.RandomPerspective(p=0.9)),
    "RandomRotation": (v1.RandomRotation(20), v2.RandomRotation(20)),
    "RandomAffine": (
        v1.RandomAffine(9, (0.1, 0.1), (0.8, 1.2), (1, 2, 3, 4)),
        v2.RandomAffine(9, (0.1, 0.1), (0.8, 1.2), (1, 2, 3, 4)),
    ),
    "ElasticTransform": (v1.ElasticTransform(20.0, 1.0), v2.ElasticTransform(20.0, 1.0)),
    "ColorJitter": (v1.ColorJitter(0.3, 0.3, 0.3, 0.1), v2.ColorJitter(0.3, 0.3, 0.3, 0.1)),
    "Grayscale": (v1.Grayscale(3), v2.Grayscale(3)),
    "RandomGrayscale": (v1.RandomGrayscale(0.6), v2.RandomGrayscale(0.6)),
    "GaussianBlur": (v1.GaussianBlur(5), v2.GaussianBlur(5)),
    "RandomInvert": (v1.RandomInvert(), v2.RandomInvert()),
    "RandomPosterize": (v1.RandomPosterize(3), v2.RandomPosterize(3)),
    "RandomSolarize": (v1.RandomSolarize(99), v2.RandomSolarize(99)),
    "RandomAdjustSharpness": (v1.RandomAdjustSharpness(2), v2.RandomAdjustSharpness(2)),
    "RandomAutocontrast": (v1.RandomAutocontrast(), v2.RandomAutocontrast()),
    "RandomEqualize": (v1.RandomEqualize(), v2.RandomEqualize()),
    "RandomErasing": (v1.RandomErasing(0.9, value=(1, 2, 3)), v2.RandomErasing(0.9, value=(1, 2, 3))),
    "RandomApply": (v1.RandomApply([v1.RandomCrop(9)], 0.9), v2.RandomApply([v2.RandomCrop(9)], 0.9)),
    "ConvertImageDtype": (v1.ConvertImageDtype(torch.float32), v2.ConvertImageDtype(torch.float32)),
    "Compose": (v1.Compose([v1.Resize(9), v1.RandomCrop(7)]), v2.Compose([v2.Resize(9), v2.RandomCrop(7)])),
    "Lambda": (v1.Lambda(double), v2.Lambda(double)),
}


def seeded(transform, image, seed=0):
    torch.manual_seed(seed)
    out = transform(image)
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seed", [0, 1])
def test_one_seed_gives_what_the_second_generation_gives(name, seed):
    old, new = TWINS[name]
    for mine, theirs in zip(seeded(old, IMAGE, seed), seeded(new, IMAGE, seed), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", TWINS)
def test_they_pickle_and_show_themselves(name):
    old = TWINS[name][0]
    again = pickle.loads(pickle.dumps(old))
    assert repr(again) == repr(old)
    assert repr(old).startswith(name + "(")


@pytest.mark.parametrize("name", sorted(set(TWINS) - {"ConvertImageDtype", "Lambda", "RandomErasing"}))
def test_they_take_pil_images(name):
    for out in seeded(TWINS[name][0], F.to_pil_image(IMAGE)):
        assert not isinstance(out, torch.Tensor)


def test_conversions():
    pil = v1.ToPILImage()(IMAGE)
    assert torch.equal(v1.PILToTensor()(pil), IMAGE)
    assert torch.equal(v1.ToTensor()(pil), IMAGE / 255)


def test_values_are_normalized_and_multiplied():
    image = IMAGE / 255
    assert torch.equal(v1.Normalize([0.5] * 3, [0.2] * 3)(image), F.normalize(image, [0.5] * 3, [0.2] * 3))
    tiny = torch.rand(1, 2, 2)
    assert torch.allclose(v1.LinearTransformation(2 * torch.eye(4), torch.ones(4))(tiny), 2 * (tiny - 1))


def test_choice_and_order_come_from_pythons_generator():
    steps = [v1.Lambda(lambda x: x + 1), v1.Lambda(lambda x: x * 2)]
    random.seed(0)
    results = {v1.RandomOrder(steps)(3) for _ in range(20)}
    assert results == {8, 7}
    assert {v1.RandomChoice(steps, p=[0, 1])(5) for _ in range(5)} == {10}


def test_padding_if_needed_adds_the_whole_difference_on_both_sides():
    torch.manual_seed(0)
    assert v1.RandomCrop((30, 30), pad_if_needed=True)(IMAGE).shape == (3, 30, 30)
    with pytest.raises(ValueError, match="does not fit into the image"):
        v1.RandomCrop((30, 30))(IMAGE)


def test_parameters_can_be_drawn_alone():
    torch.manual_seed(3)
    part = v1.RandomResizedCrop.get_params(IMAGE, (0.1, 0.5), (0.7, 1.4))
    torch.manual_seed(3)
    assert v2.RandomResizedCrop.get_params(IMAGE, (0.1, 0.5), (0.7, 1.4)) == part
