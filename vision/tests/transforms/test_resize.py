"""Resizing tensors and PIL images."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import InterpolationMode
from flambeau.vision.transforms import functional as v1
from flambeau.vision.transforms.v2 import functional as F


def picture(height=37, width=51):
    y, x = torch.meshgrid(torch.linspace(0, 6, height), torch.linspace(0, 9, width), indexing="ij")
    waves = torch.stack([x.sin() * y.cos(), (x + y).sin(), (x * y / 4).cos()])
    return ((waves + 1) * 127.5).to(torch.uint8)


def as_pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [
        ((20, 30), None, (20, 30)),
        (20, None, (20, 27)),
        ([20], None, (20, 27)),
        ([24], 30, (21, 30)),
        (24, 100, (24, 33)),
        (None, 20, (14, 20)),
    ],
)
def test_sizes_follow_what_is_given(size, max_size, expected):
    assert F.resize(picture(), size, max_size=max_size).shape[-2:] == expected
    turned = F.resize(picture().transpose(1, 2), size if size != (20, 30) else (30, 20), max_size=max_size)
    assert turned.shape[-2:] == expected[::-1]
    image = F.resize(as_pil(picture()), size, max_size=max_size)
    assert (image.height, image.width) == expected


@pytest.mark.parametrize(
    ("size", "max_size", "message"),
    [
        ((20, 30), 40, "max_size=40 goes with one number"),
        (24, 24, "max_size = 24 must be greater"),
        (None, None, "max_size is None"),
        ((1, 2, 3), None, "expected one number, two"),
    ],
)
def test_sizes_that_contradict_each_other_are_errors(size, max_size, message):
    with pytest.raises(ValueError, match=message):
        F.resize(picture(), size, max_size=max_size)


def test_an_image_of_the_size_asked_for_is_returned_itself():
    image, pil = picture(), as_pil(picture())
    assert F.resize(image, (37, 51)) is image
    assert F.resize(pil, 37) is pil


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(20, 30), (60, 90), (11, 70)])
def test_bytes_are_within_one_level_of_pillow(mode, size):
    ours = F.resize(picture(), size, interpolation=mode)
    pillow = np.array(F.resize(as_pil(picture()), size, interpolation=mode)).transpose(2, 0, 1)
    assert np.abs(ours.numpy().astype(int) - pillow.astype(int)).max() <= 1


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int16, torch.uint16, torch.int32, torch.float64]
)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_every_dtype_keeps_its_dtype_and_range(dtype, mode):
    image = picture().to(dtype)
    out = F.resize(image, (20, 30), interpolation=mode)
    assert out.dtype == dtype
    reference = F.resize(picture().double(), (20, 30), interpolation=mode)
    low, high = (0, 255) if not dtype.is_floating_point else (-100, 400)
    assert (out.double() - reference.clamp(low, high)).abs().max() <= (2.5 if dtype == torch.bfloat16 else 1)


def test_leading_dimensions_and_strides_do_not_matter():
    batch = torch.stack([picture(), picture().flip(0)])
    expected = torch.stack([F.resize(image, (20, 30)) for image in batch])
    assert torch.equal(F.resize(batch, (20, 30)), expected)
    assert torch.equal(F.resize(batch[None, :, None], (20, 30)), expected[None, :, None])
    assert torch.equal(F.resize(batch.contiguous(memory_format=torch.channels_last), (20, 30)), expected)


def test_empty_batches_keep_their_shape():
    assert F.resize(torch.rand(0, 3, 10, 12), (4, 5)).shape == (0, 3, 4, 5)


def test_without_antialiasing_detail_turns_into_false_patterns():
    stripes = torch.tensor([0.0, 1.0]).repeat(1, 32, 32)
    assert F.resize(stripes, (32, 22), antialias=False).std() > 0.25
    assert F.resize(stripes, (32, 22), antialias=True).std() < 0.1


@pytest.mark.parametrize("mode", [InterpolationMode.BOX, "hamming", 5])
def test_modes_of_pil_images_alone_are_refused_for_tensors(mode):
    with pytest.raises(ValueError, match="Tensors cannot be resized with"):
        F.resize(picture(), (20, 30), interpolation=mode)
    assert F.resize(as_pil(picture()), (20, 30), interpolation=mode).size == (30, 20)


@pytest.mark.parametrize(("given", "mode"), [(2, "BILINEAR"), ("nearest-exact", "NEAREST_EXACT"), (0, "NEAREST")])
def test_modes_may_be_numbers_or_names(given, mode):
    expected = F.resize(picture(), (20, 30), interpolation=InterpolationMode[mode])
    assert torch.equal(F.resize(picture(), (20, 30), interpolation=given), expected)


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="Unknown interpolation 'linear'"):
        F.resize(picture(), (20, 30), interpolation="linear")
    with pytest.raises(ValueError, match="Unknown interpolation 9"):
        F.resize(picture(), (20, 30), interpolation=9)


def test_types_stay_and_gradients_flow():
    typed = F.resize(tv_tensors.Image(picture()), (20, 30))
    assert type(typed) is tv_tensors.Image
    assert torch.equal(torch.as_tensor(typed).as_subclass(torch.Tensor), F.resize(picture(), (20, 30)))
    image = torch.rand(1, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: F.resize(x, (3, 4)), (image,))


def test_other_inputs_are_type_errors():
    with pytest.raises(TypeError, match="resize has no kernel for list"):
        F.resize([1, 2], (3, 4))


def test_it_compiles_whole_with_any_size():
    compiled = torch.compile(F.resize, fullgraph=True, dynamic=True, backend="aot_eager")
    for height in (20, 31):
        image = torch.rand(3, height, 40)
        torch.testing.assert_close(compiled(image, [10, 12]), F.resize(image, [10, 12]))


@settings(max_examples=60, deadline=None)
@given(shorter=st.integers(1, 40), ratio=st.floats(1, 5), size=st.integers(1, 50))
def test_the_shorter_side_has_the_length_asked_for_and_proportions_stay(shorter, ratio, size):
    longer = int(shorter * ratio)
    for height, width in ((shorter, longer), (longer, shorter)):
        out = F.resize(torch.zeros(1, height, width), size, interpolation="nearest")
        assert sorted(out.shape[-2:]) == [size, int(size * longer / shorter)]


def test_the_first_generation_does_the_same():
    assert torch.equal(v1.resize(picture(), [20], max_size=25), F.resize(picture(), [20], max_size=25))
    assert v1.resize(as_pil(picture()), (20, 30), interpolation=3).size == (30, 20)


@pytest.mark.parametrize("wrap", [torch.Tensor, tv_tensors.Mask])
def test_bool_stays_bool(wrap):
    mask = (picture()[:1] > 99).as_subclass(torch.Tensor)
    nearest = F.resize(tv_tensors.Mask(mask) if wrap is tv_tensors.Mask else mask, (7, 9), interpolation="nearest")
    assert nearest.dtype == torch.bool
    expected = F.resize(mask.to(torch.uint8), (7, 9), interpolation="nearest").bool()
    assert torch.equal(nearest.as_subclass(torch.Tensor), expected)


def test_a_mixture_of_true_and_false_is_true():
    half = torch.tensor([[[True, False], [False, False]]])
    assert F.resize(half, (1, 1)).item() is True
