"""Steps of a pipeline that one kernel does together: nothing is to be seen of it but the time."""

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.vision import tv_tensors
from flambeau.vision.ops._resize import is_native
from flambeau.vision.transforms import InterpolationMode, _fused, v2
from flambeau.vision.transforms._presets import ImageClassification
from flambeau.vision.transforms.v2 import _fusion

NUMBERS = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)
NORMALIZE = v2.Normalize(**NUMBERS)
# Of the whole range, after division by the smallest standard deviation.
LEVEL = 1 / 255 / 0.224


def levels(*leading, height=61, width=83, channels=3):
    generator = torch.Generator().manual_seed(4)
    coarse = torch.rand(1, channels, height // 8 + 1, width // 8 + 1, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    return (smooth * 255).to(torch.uint8).expand(*leading, -1, -1, -1).contiguous()


def as_pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


INPUTS = {
    "tensor": levels,
    "batch": lambda: levels(2, 2),
    "channels last": lambda: levels(2).contiguous(memory_format=torch.channels_last),
    "Image": lambda: tv_tensors.Image(levels()),
    "PIL": lambda: as_pil(levels()),
    "gray PIL": lambda: as_pil(levels()).convert("L"),
}
PIPELINES = {
    "training": lambda: [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.PILToTensor(), TO_FLOAT, NORMALIZE],
    "training, oblong": lambda: [v2.RandomResizedCrop((24, 41), interpolation="bicubic"), TO_FLOAT, NORMALIZE],
    "evaluation": lambda: [v2.Resize(40), v2.CenterCrop(32), v2.ToImage(), TO_FLOAT, NORMALIZE],
    "resize alone": lambda: [v2.Resize((33, 20), antialias=False), v2.PILToTensor(), TO_FLOAT],
    "to image first": lambda: [v2.ToImage(), v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), TO_FLOAT, NORMALIZE],
    "end": lambda: [v2.ToImage(), v2.RandomHorizontalFlip(0.9), v2.ConvertImageDtype(), v2.Normalize([0.5], [2.0])],
    "beginning": lambda: [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip()],
    "own generators": lambda: [
        v2.RandomResizedCrop(32, generator=torch.Generator().manual_seed(1)),
        v2.RandomHorizontalFlip(generator=torch.Generator().manual_seed(2)),
        v2.ToImage(),
        TO_FLOAT,
    ],
    "in the middle": lambda: [v2.ColorJitter(0.5), *PIPELINES["training"](), v2.RandomErasing(1.0)],
}


def run(monkeypatch, fused, pipeline, sample, **options):
    monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", "1" if fused else "0")
    torch.manual_seed(7)
    return pipeline(sample, **options), torch.rand(2)


@pytest.mark.parametrize("source", INPUTS)
@pytest.mark.parametrize("name", PIPELINES)
def test_one_pass_draws_and_gives_the_same_as_single_steps(monkeypatch, name, source):
    sample = INPUTS[source]()
    if "PIL" in source and name == "training, oblong":
        pytest.skip("it has no step that makes a tensor")
    if source == "gray PIL" and NORMALIZE in PIPELINES[name]():
        pytest.skip("it has three means for one channel")
    for _ in range(3):
        expected, next_expected = run(monkeypatch, False, v2.Compose(PIPELINES[name]()), sample)
        actual, next_actual = run(monkeypatch, True, v2.Compose(PIPELINES[name]()), sample)
        assert type(actual) is type(expected)
        assert torch.equal(next_actual, next_expected)
        if isinstance(actual, Image.Image):
            assert actual.mode == expected.mode
            actual, expected = (torch.from_numpy(np.array(each)) for each in (actual, expected))
        within = 1 if actual.dtype == torch.uint8 else LEVEL * 1.01
        torch.testing.assert_close(actual, expected, rtol=0, atol=within if "PIL" in source else 0)


@pytest.mark.skipif(not is_native(), reason="there is no native library here")
def test_the_kernel_is_what_runs(monkeypatch):
    calls = []
    kernel = _fused.normalized
    monkeypatch.setattr(_fused, "normalized", lambda *args, **options: calls.append(args) or kernel(*args, **options))
    pipeline = v2.Compose(PIPELINES["training"]())
    run(monkeypatch, True, pipeline, levels())
    run(monkeypatch, True, pipeline, as_pil(levels()))
    run(monkeypatch, True, ImageClassification(crop_size=32, resize_size=40), levels())
    assert len(calls) == 3
    run(monkeypatch, False, pipeline, levels())
    run(monkeypatch, False, ImageClassification(crop_size=32, resize_size=40), levels())
    assert len(calls) == 3


def single_steps(sample):
    """Whether a pipeline takes a sample through single steps."""
    run_ = next(part for part in _fusion.planned(PIPELINES["training"]()) if isinstance(part, _fusion.Run))
    flat, _ = _fusion.flatten(sample)
    index = _fusion._only_picture(flat)
    untouched = index is None or not _fusion._leaves_alone(run_, flat, index)
    return untouched or _fusion._treatment(run_, flat[index]) is None


BOXES = tv_tensors.BoundingBoxes(torch.tensor([[1.0, 2.0, 30.0, 40.0]]), format="XYXY", canvas_size=(61, 83))
STEPWISE = {
    "floating point": lambda: levels() / 255,
    "boxes": lambda: (tv_tensors.Image(levels()), BOXES),
    "a mask": lambda: {"image": tv_tensors.Image(levels()), "mask": tv_tensors.Mask(levels()[0])},
    "two pictures": lambda: [tv_tensors.Image(levels()), tv_tensors.Image(levels())],
    "a video": lambda: tv_tensors.Video(levels(4)),
    "a label before a PIL image": lambda: (torch.tensor(3), as_pil(levels())),
    "transparency": lambda: as_pil(levels()).convert("RGBA"),
    "int16": lambda: levels().to(torch.int16),
}


@pytest.mark.parametrize("name", STEPWISE)
def test_other_samples_go_through_the_steps(name):
    assert single_steps(STEPWISE[name]())


@pytest.mark.parametrize("label", [3, torch.tensor(3), "cat", {"id": torch.tensor(1)}])
def test_labels_pass(monkeypatch, label):
    for picture in (tv_tensors.Image(levels()), levels(), as_pil(levels())):
        sample = (picture, label)
        assert not single_steps(sample)
        expected, _ = run(monkeypatch, False, v2.Compose(PIPELINES["training"]()), sample)
        for inputs in ((sample,), sample):
            monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", "1")
            torch.manual_seed(7)
            actual = v2.Compose(PIPELINES["training"]())(*inputs)
            assert isinstance(actual, tuple)
            assert actual[1] is label or actual[1] == label
            torch.testing.assert_close(actual[0], expected[0], rtol=0, atol=LEVEL * 1.01)


def test_recordings_hold_every_step_and_replay(monkeypatch):
    pipeline, image = v2.Compose(PIPELINES["training"]()), levels()
    (expected, params), _ = run(monkeypatch, False, pipeline, image, return_params=True)
    (actual, again), _ = run(monkeypatch, True, pipeline, image, return_params=True)
    assert params == again
    assert torch.equal(actual, expected)
    assert torch.equal(run(monkeypatch, True, pipeline, image, replay=params)[0], expected)


def test_a_generator_for_the_call_counts(monkeypatch):
    pipeline = v2.Compose(PIPELINES["own generators"]())
    outs = []
    for fused in (False, True):
        outs.append(run(monkeypatch, fused, pipeline, levels(), generator=torch.Generator().manual_seed(5))[0])
    assert torch.equal(outs[0], outs[1])


def test_hooks_and_subclasses_keep_their_say(monkeypatch):
    class Loud(v2.Normalize):
        def transform(self, inpt, params):
            return super().transform(inpt, params) + 100

    seen = []
    flip = v2.RandomHorizontalFlip()
    flip.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    out, _ = run(monkeypatch, True, v2.Compose([v2.RandomResizedCrop(32), flip, TO_FLOAT, Loud(**NUMBERS)]), levels())
    assert seen == [(3, 32, 32)]
    assert out.min() > 90


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: [v2.Resize(20), TO_FLOAT, v2.Normalize([0.5] * 3, [1.0, 0.0, 1.0])],
        lambda: [v2.Resize(20), TO_FLOAT, v2.Normalize([0.5] * 2, [1.0] * 2)],
        lambda: [v2.Resize(0), TO_FLOAT],
    ],
)
def test_errors_are_those_of_the_steps(monkeypatch, wrong):
    messages = []
    for fused in (False, True):
        with pytest.raises((ValueError, RuntimeError)) as caught:
            run(monkeypatch, fused, v2.Compose(wrong()), levels())
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_pictures_smaller_than_the_crop_get_their_border(monkeypatch):
    pipeline = v2.Compose([v2.Resize(20), v2.CenterCrop(32), TO_FLOAT, NORMALIZE])
    expected, _ = run(monkeypatch, False, pipeline, levels())
    assert torch.equal(run(monkeypatch, True, pipeline, levels())[0], expected)


@pytest.mark.parametrize(
    "interpolation", [InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.NEAREST]
)
@pytest.mark.parametrize("source", ["tensor", "batch", "channels last", "PIL"])
@pytest.mark.parametrize("sizes", [{"crop_size": 32, "resize_size": 40}, {"crop_size": 30, "resize_size": (50, 30)},
                                   {"crop_size": 50, "resize_size": 40}])  # fmt: skip
def test_the_preset_gives_the_same_in_one_pass(monkeypatch, interpolation, source, sizes):
    preset, sample = ImageClassification(interpolation=interpolation, **sizes), INPUTS[source]()
    expected, _ = run(monkeypatch, False, preset, sample)
    actual, _ = run(monkeypatch, True, preset, sample)
    torch.testing.assert_close(actual, expected, rtol=0, atol=LEVEL * 1.01 if source == "PIL" else 0)
