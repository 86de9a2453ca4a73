"""Steps of a first-generation pipeline that one kernel does together: nothing is to be seen of it but the time."""

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.vision import transforms
from flambeau.vision.ops._resize import is_native
from flambeau.vision.transforms import InterpolationMode, _v1_fusion

NUMBERS = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
NORMALIZE = transforms.Normalize(*NUMBERS)
# Of the whole range, after division by the smallest standard deviation.
LEVEL = 1 / 255 / 0.224


def levels(height=61, width=83):
    generator = torch.Generator().manual_seed(4)
    coarse = torch.rand(1, 3, height // 8 + 1, width // 8 + 1, generator=generator)
    return (torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0] * 255).to(torch.uint8)


def as_pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


TO_FLOAT = transforms.ConvertImageDtype(torch.float32)
PIPELINES = {
    "training": lambda first: [
        transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), first, NORMALIZE,
    ],
    "training, oblong": lambda first: [transforms.RandomResizedCrop((24, 41), scale=(0.5, 1)), first, NORMALIZE],
    "evaluation": lambda first: [transforms.Resize(40), transforms.CenterCrop(32), first, NORMALIZE],
    "two sides": lambda first: [transforms.Resize((33, 20)), first],
    "longer side": lambda first: [transforms.Resize(None, max_size=50), first, transforms.Normalize([0.5], [0.25])],
    "end": lambda first: [transforms.RandomHorizontalFlip(0.9), first, NORMALIZE],
    "in the middle": lambda first: [
        transforms.ColorJitter(0.5), *PIPELINES["training"](first), transforms.RandomErasing(1.0),
    ],
    "policy": lambda first: [
        transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.TrivialAugmentWide(), first,
        NORMALIZE,
    ],
}  # fmt: skip


def run(monkeypatch, fused, pipeline, sample):
    monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", "1" if fused else "0")
    torch.manual_seed(7)
    result = transforms.Compose(pipeline)(sample)
    return result, torch.rand(1)


@pytest.mark.parametrize("name", [name for name in PIPELINES if name != "policy"])
@pytest.mark.parametrize("kind", ["PIL", "gray PIL", "tensor"])
def test_one_pass_gives_what_the_steps_give_and_draws_as_much(monkeypatch, name, kind):
    sample = levels() if kind == "tensor" else as_pil(levels())
    pipeline = PIPELINES[name](TO_FLOAT if kind == "tensor" else transforms.ToTensor())
    if kind == "gray PIL":
        sample = sample.convert("L")
        pipeline = [transforms.Normalize([0.5], [0.25]) if step is NORMALIZE else step for step in pipeline]
    fused, after = run(monkeypatch, True, pipeline, sample)
    single, expected = run(monkeypatch, False, pipeline, sample)
    assert torch.equal(after, expected)
    assert (fused.shape, fused.dtype, fused.is_contiguous()) == (single.shape, single.dtype, True)
    assert (fused - single).abs().max() <= (2 * LEVEL if name == "in the middle" else LEVEL) + 1e-5


@pytest.mark.skipif(not is_native(), reason="without the kernel, steps stay single")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("training", ["Run"]),
        ("evaluation", ["Run"]),
        ("end", ["Run"]),
        ("in the middle", ["ColorJitter", "Run", "RandomErasing"]),
        ("policy", ["Run", "TrivialAugmentWide", "Run"]),
    ],
)
def test_runs_are_found(name, kinds):
    plan = _v1_fusion.planned(PIPELINES[name](transforms.ToTensor()))
    assert [type(part).__name__ for part in plan] == kinds


class Mirrored(transforms.RandomHorizontalFlip):
    """A transform of someone's own."""


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.ToTensor()],
        [transforms.RandomHorizontalFlip(), transforms.RandomErasing()],
        [Mirrored(), transforms.ToTensor()],
        [transforms.CenterCrop(4), transforms.ToTensor()],
        [transforms.Resize(4), transforms.ConvertImageDtype(torch.float64)],
        [NORMALIZE],
    ],
)
def test_what_is_no_run_stays_as_it_is(steps):
    assert _v1_fusion.planned(steps) == steps


@pytest.mark.parametrize(
    ("steps", "sample"),
    [
        ([transforms.Resize(20, InterpolationMode.BICUBIC), transforms.ToTensor()], as_pil(levels())),
        ([transforms.Resize(20), transforms.ToTensor()], as_pil(levels()).convert("RGBA")),
        ([transforms.Resize(20), transforms.ToTensor()], as_pil(levels()).convert("1")),
        ([transforms.Resize(20), transforms.CenterCrop(60), transforms.ToTensor()], as_pil(levels())),
        ([transforms.ToTensor(), NORMALIZE], np.zeros((5, 6, 3), np.uint8)),
        ([transforms.ToTensor(), transforms.Normalize(torch.zeros(3, 1, 1), torch.ones(3, 1, 1))], as_pil(levels())),
        ([transforms.Resize(20), TO_FLOAT], levels().float() / 255),
        ([transforms.RandomResizedCrop(8, antialias=False), TO_FLOAT], levels().short()),
    ],
)
def test_pictures_that_the_kernel_does_not_take_go_through_the_steps(monkeypatch, steps, sample):
    fused, _ = run(monkeypatch, True, steps, sample)
    single, _ = run(monkeypatch, False, steps, sample)
    assert torch.equal(fused, single)


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([transforms.Resize(20), transforms.ToTensor()], TypeError),
        ([transforms.ToTensor(), transforms.Normalize([0.5, 0.5], [1.0, 1.0])], ValueError),
        ([transforms.ToTensor(), transforms.Normalize([0.5], [0.0])], ValueError),
        ([transforms.Resize(None), transforms.ToTensor()], ValueError),
    ],
)
def test_errors_are_those_of_the_steps(steps, error):
    sample = levels() if error is TypeError else as_pil(levels())
    with pytest.raises(error):
        transforms.Compose(steps)(sample)


def test_double_precision_by_default_stays_double(monkeypatch):
    torch.set_default_dtype(torch.float64)
    try:
        result, _ = run(monkeypatch, True, PIPELINES["evaluation"](transforms.ToTensor()), as_pil(levels()))
    finally:
        torch.set_default_dtype(torch.float32)
    assert result.dtype == torch.float64
