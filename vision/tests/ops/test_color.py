"""The operators behind colour functionals, blurring and normalizing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.vision.ops import _blur, _color, _resize
from flambeau.vision.ops._color import recolored, recurved, serves
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.transforms.v2 import functional as F

OPS = torch.ops.flambeau_vision
# What each kind is called with, for uint8 and for float32; None where it takes no such.
FACTORS = {
    "brightness": (1.3, 0.7),
    "contrast": (0.4, 1.8),
    "saturation": (1.9, 0.0),
    "hue": (0.2, -0.45),
    "gray": (3, 1),
    "solarize": (100.5, 0.4),
    "posterize": (None, 8),
    "autocontrast": (0, 0),
    "equalize": (0, None),
    "sharpness": (1.7, 0.2),
}
CASES = [
    pytest.param(kind, dtype, factor, id=f"{kind}-{dtype}")
    for kind, factors in FACTORS.items()
    for dtype, factor in zip((torch.uint8, torch.float32), factors, strict=True)
    if factor is not None
]
native = pytest.mark.skipif(LIBRARY.provider == "python", reason="there is no native library here")


def pictures(*shape, dtype=torch.uint8, last=False, seed=0):
    levels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    image = levels if dtype == torch.uint8 else levels / 255
    return image.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def require_close(one, other):
    assert one.dtype == other.dtype
    # Along a dimension of one, any stride is right.
    assert [n for n, size in zip(one.stride(), one.shape, strict=True) if size > 1] == [
        n for n, size in zip(other.stride(), other.shape, strict=True) if size > 1
    ]
    if one.dtype == torch.uint8:
        difference = (one.int() - other.int()).abs()
        # Truncation turns the last bit of a sum into a level.
        assert difference.max() <= 1
        assert (difference > 0).float().mean() < 0.01
    else:
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6)


@native
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (2, 9), (17, 31), (40, 67)])
@pytest.mark.parametrize(("kind", "dtype", "factor"), CASES)
def test_the_kernel_gives_what_the_formula_does(kind, dtype, factor, size, last):
    image = pictures(2, 3, *size, dtype=dtype, last=last)
    if kind == "sharpness" and min(size) < 3:
        assert torch.equal(recolored(kind, image, factor), image)
        return
    out = OPS._color(image, _color._KINDS[kind], factor)
    require_close(out, _color._reference(image, _color._KINDS[kind], factor))
    through_ctypes = _color._native(image, _color._KINDS[kind], factor)
    assert torch.equal(out, through_ctypes)
    assert out.stride() == through_ctypes.stride()


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from([kind for kind in FACTORS if kind not in ("gray", "hue", "saturation", "contrast")]),
    leading=st.lists(st.integers(1, 3), max_size=2),
    channels=st.integers(1, 5),
    size=st.tuples(st.integers(3, 40), st.integers(3, 40)),
    seed=st.integers(0, 100),
)
def test_any_number_of_channels_and_dimensions_is_taken(kind, leading, channels, size, seed):
    factor = FACTORS[kind][0]
    if factor is None:
        return
    image = pictures(*leading, channels, *size, seed=seed)
    require_close(recolored(kind, image, factor), _color._reference(image, _color._KINDS[kind], factor))


@pytest.mark.parametrize(("kind", "dtype", "factor"), CASES)
def test_pictures_of_one_colour_and_extremes_stay_in_range(kind, dtype, factor):
    for value in (0, 1, 128, 254, 255):
        image = torch.full((3, 8, 9), value, dtype=torch.uint8)
        image = image if dtype == torch.uint8 else image / 255
        out = recolored(kind, image, factor)
        require_close(out, _color._reference(image, _color._KINDS[kind], factor))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("kind", "dtype", "factor"), CASES)
def test_threads_leave_no_trace(kind, dtype, factor, last):
    image, before = pictures(2, 3, 310, 320, dtype=dtype, last=last), torch.get_num_threads()
    outs = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            outs.append(recolored(kind, image, factor))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(outs[0], outs[1])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("kind", "dtype", "factor"), CASES)
def test_the_operators_pass_torchs_own_checks(kind, dtype, factor, last):
    image = pictures(2, 3, 6, 7, dtype=dtype, last=last)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(OPS._color, (image, _color._KINDS[kind], factor), test_utils=tests)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("image", "kind", "message"),
    [
        (torch.zeros(4, 4), 0, r"shape \(4, 4\), expected \(..., C, H, W\)"),
        (torch.zeros(3, 4, 4).double(), 0, "dtype torch.float64, expected torch.uint8 or torch.float32"),
        (torch.zeros(3, 4, 4), 8, "dtype torch.float32, expected torch.uint8 or"),
        (torch.zeros(2, 4, 4), 2, r"shape \(2, 4, 4\), expected 3 channels"),
        (torch.zeros(4, 4, 4), 1, "expected 3 channels"),
        (torch.zeros(3, 4, 4), 99, "kind is 99, expected 0 to 9"),
    ],
)
def test_what_has_no_colours_is_an_error(device, image, kind, message):
    with pytest.raises(RuntimeError, match=message):
        OPS._color(image.to(device), kind, 1.0)


def test_gradients_other_dtypes_and_mapped_functions_keep_to_the_formula():
    assert serves(pictures(3, 4, 4)) == (LIBRARY.provider != "python")
    assert not serves(pictures(3, 4, 4).double())
    assert not serves(torch.zeros(4, 4))
    leaf = torch.rand(3, 4, 4, requires_grad=True)
    assert not serves(leaf)
    F.adjust_saturation(leaf, 1.5).sum().backward()
    assert leaf.grad.abs().sum() > 0
    mapped = torch.vmap(lambda image: F.adjust_contrast(image, 0.5))(torch.rand(2, 3, 4, 5))
    assert mapped.shape == (2, 3, 4, 5)


@pytest.mark.parametrize("last", [False, True])
def test_curves_are_looked_up(last):
    image, table = pictures(2, 3, 20, 30, last=last), torch.randperm(256).to(torch.uint8)
    out = recurved(image, table)
    assert torch.equal(out, table[image.long()])
    assert out.stride() == image.stride()
    assert torch.equal(OPS._look_up(image, table), _color._reference_look_up(image, table))
    for wrong in (table[:255], table.long()):
        with pytest.raises(RuntimeError, match=r"expected torch.uint8|expected \(256,\)"):
            recurved(image, wrong)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 5), (9, 1), (7, 7)])
def test_blurring_is_folding_with_a_mirrored_border(kernel, dtype, last):
    image = pictures(2, 3, 12, 9, dtype=dtype, last=last)
    row, column = (torch.rand(size) / size for size in kernel)
    out, reference = OPS._blur(image, row, column), _blur._reference_blur(image, row, column)
    assert out.stride() == image.stride() == reference.stride()
    if dtype == torch.uint8:
        assert (out.int() - reference.int()).abs().max() <= 1
        assert (out != reference).float().mean() < 0.01
    else:
        torch.testing.assert_close(out, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_normalizing_and_scaling_are_torchs_arithmetic(last):
    image = pictures(2, 3, 12, 9, last=last)
    mean, std = torch.tensor([0.485, -0.1, 3.0]), torch.tensor([0.229, 1e-3, 7.7])
    numbers = _resize.scale_levels(image)
    assert torch.equal(numbers, image / 255)
    assert numbers.stride() == image.stride()
    out = _blur.normalize(numbers, mean, std)
    assert torch.equal(out, (numbers - mean.view(3, 1, 1)) / std.view(3, 1, 1))
    assert torch.equal(out, _blur._reference_normalize(numbers, mean, std))
    assert out.stride() == image.stride()
    assert torch.equal(_resize.scale_levels(image[..., ::2]), image[..., ::2] / 255)


def test_blurring_and_normalizing_pass_torchs_own_checks():
    tests, image, three = ("test_schema", "test_faketensor"), pictures(2, 3, 8, 9), torch.ones(3)
    for each in (image, image.contiguous(memory_format=torch.channels_last)):
        torch.library.opcheck(OPS._blur, (each, three, three), test_utils=tests)
        torch.library.opcheck(OPS._normalize, (each.float(), three, three), test_utils=tests)
        torch.library.opcheck(OPS._scale_levels, (each,), test_utils=tests)
        torch.library.opcheck(OPS._look_up, (each, torch.arange(256).to(torch.uint8)), test_utils=tests)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_wrong_kernels_and_pictures_are_errors(device):
    image, three, four = (torch.zeros(shape, device=device) for shape in ((1, 3, 8, 8), (3,), (4,)))
    with pytest.raises(RuntimeError, match="one-dimensional and of odd length"):
        OPS._blur(image, three, four)
    with pytest.raises(RuntimeError, match=r"expected \(N, C, H, W\)"):
        OPS._blur(image[0], three, three)
    with pytest.raises(RuntimeError, match=r"expected torch.uint8 or torch.float32"):
        OPS._blur(image.double(), three, three)
    with pytest.raises(RuntimeError, match=r"shape \(3,\), one for each channel"):
        OPS._normalize(image, three, four)
    with pytest.raises(RuntimeError, match=r"expected torch.float32"):
        OPS._normalize(image.double(), three, three)
    with pytest.raises(RuntimeError, match=r"expected torch.uint8"):
        OPS._scale_levels(image)
