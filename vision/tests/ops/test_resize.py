"""The operators that resize bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from flambeau.vision.ops import _resize
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._resize import resize, resize_normalize

OPS = torch.ops.flambeau_vision
native = pytest.mark.skipif(LIBRARY.provider == "python", reason="there is no native library here")


def pictures(*shape, last=False, seed=0, hard=False):
    """Noise, which nothing is harder to resize than; `hard`: of black and white alone."""
    levels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    levels = (levels > 127).to(torch.uint8) * 255 if hard else levels
    return levels.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def by_pillow(image, size, cubic):
    """Along rows first, whichever order Pillow thinks is faster: where a cubic overshoots they differ."""
    filters = Image.Resampling.BICUBIC if cubic else Image.Resampling.BILINEAR
    planes = []
    for plane in image.flatten(0, 1).numpy():
        wide = Image.fromarray(plane).resize((size[1], plane.shape[0]), filters)
        planes.append(np.array(wide.resize((size[1], size[0]), filters)))
    return torch.from_numpy(np.stack(planes)).reshape(*image.shape[:2], *size)


def difference(one, other):
    return (one.int() - other.int()).abs().max().item()


def strides(tensor: torch.Tensor) -> list[int]:
    """Those that matter: along a dimension of one, any stride is right."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 90)] * 4),
    channels=st.sampled_from([1, 2, 3, 4, 5]),
    last=st.booleans(),
    cubic=st.booleans(),
    hard=st.booleans(),
)
def test_levels_are_within_one_of_pillows(sizes, channels, last, cubic, hard):
    image = pictures(1, channels, *sizes[:2], last=last, hard=hard)
    out = resize(image, sizes[2:], cubic=cubic, antialias=True)
    assert difference(out, by_pillow(image, sizes[2:], cubic)) <= 1


@pytest.mark.parametrize(
    ("size", "new"), [((3000, 2), (1, 2)), ((2, 5000), (3, 2)), ((1, 1), (70, 33)), ((5, 7), (5, 7))]
)
def test_sizes_at_the_limits_are_within_one_level_of_pillows(size, new):
    image = pictures(1, 1, *size, hard=True)
    for cubic in (False, True):
        out = resize(image, new, cubic=cubic, antialias=True)
        assert difference(out, by_pillow(image, new, cubic)) <= 1


@settings(max_examples=40, deadline=None)
@given(sizes=st.tuples(*[st.integers(1, 60)] * 4), cubic=st.booleans(), last=st.booleans())
def test_without_a_filter_levels_are_within_one_of_torchs_interpolation(sizes, cubic, last):
    image = pictures(2, 3, *sizes[:2], last=last)
    mode = "bicubic" if cubic else "bilinear"
    wide = torch.nn.functional.interpolate(image.double(), (sizes[0], sizes[3]), mode=mode, align_corners=False)
    # A cubic that overshoots is cut to the levels between the directions, as by Pillow.
    exact = torch.nn.functional.interpolate(wide.clamp(0, 255), sizes[2:], mode=mode, align_corners=False)
    out = resize(image, sizes[2:], cubic=cubic, antialias=False)
    assert difference(out, exact.round().clamp(0, 255)) <= 1


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 70)] * 4), cubic=st.booleans(), antialias=st.booleans(), flip=st.booleans(),
    last=st.booleans(),
)  # fmt: skip
def test_every_implementation_gives_the_same_levels(sizes, cubic, antialias, flip, last):
    if LIBRARY.provider == "python":
        pytest.skip("there is no native library here")
    image = pictures(2, 3, *sizes[:2], last=last, seed=1)
    out = OPS._resize(image, *sizes[2:], cubic, antialias, flip)
    assert torch.equal(out, _resize._native(image, *sizes[2:], cubic, antialias, flip))
    portable = _resize._empty(image, *sizes[2:])
    _resize._call("_resize", image, sizes[2:], (0, 0, *sizes[2:]), portable, (cubic, antialias, flip), portable=True)
    assert torch.equal(out, portable)
    reference = _resize._reference(image, *sizes[2:], cubic, antialias, flip)
    assert difference(out, reference) <= 1
    assert strides(reference) == strides(out) == strides(portable)


def test_threads_share_rows_without_a_trace():
    image = pictures(2, 3, 901, 907, last=True)  # smaller ones take one thread
    before = torch.get_num_threads()
    outs = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            outs.append(resize(image, (450, 500), cubic=True, antialias=True))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], outs[2])


LAYOUTS = {
    "planes with gaps": lambda: pictures(4, 3, 40, 50)[::2, :, 3:30, 5:41],
    "pixels of four bytes": lambda: pictures(2, 4, 30, 20, last=True)[:, :3],
    "one channel of three": lambda: pictures(2, 3, 30, 20, last=True)[:, 1:2],
    "turned": lambda: pictures(2, 3, 30, 20).transpose(2, 3),
    "repeated": lambda: pictures(1, 1, 30, 20).expand(2, 3, 30, 20),
    "one row": lambda: pictures(2, 3, 1, 20, last=True),
    "one column": lambda: pictures(2, 3, 30, 1),
    "channels last, one column": lambda: pictures(2, 3, 30, 1, last=True),
}


@native  # sums of floating-point numbers depend on the layout
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pictures_may_lie_in_memory_as_they_like(layout):
    image = LAYOUTS[layout]()
    expected = resize(image.contiguous(), (24, 31), cubic=False, antialias=True)
    out = resize(image, (24, 31), cubic=False, antialias=True)
    assert torch.equal(out, expected)
    assert out.stride() == OPS._resize(image.to("meta"), 24, 31, False, True, False).stride()
    numbers = torch.linspace(1, 2, image.shape[1]), torch.linspace(3, 4, image.shape[1])
    part = resize_normalize(image, (24, 31), (2, 3, 17, 20), *numbers, cubic=False, antialias=True, flip=True)
    levels = expected[:, :, 2:19, 3:23].flip(3)
    assert torch.equal(part, (levels / 255 - numbers[0].view(-1, 1, 1)) / numbers[1].view(-1, 1, 1))
    assert part.is_contiguous()


def test_channels_that_are_neighbours_stay_neighbours():
    assert resize(pictures(2, 3, 9, 9, last=True), (5, 6), cubic=False, antialias=True).is_contiguous(
        memory_format=torch.channels_last
    )
    assert resize(pictures(2, 3, 9, 9), (5, 6), cubic=False, antialias=True).is_contiguous()


def test_a_part_is_that_of_the_whole():
    image = pictures(1, 3, 61, 83)
    whole = resize(image, (120, 40), cubic=True, antialias=True)
    zero, one = torch.zeros(3), torch.ones(3)
    for part in ((0, 0, 120, 40), (119, 39, 1, 1), (50, 3, 33, 37)):
        top, left, height, width = part
        got = resize_normalize(image, (120, 40), part, zero, one, cubic=True, antialias=True)
        assert torch.equal(got, whole[:, :, top : top + height, left : left + width] / 255)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("width", [1, 16, 17, 50])
def test_numbers_are_those_of_torchs_arithmetic(width, last):
    every = torch.arange(256, dtype=torch.uint8).repeat(30)[: 3 * 50 * width].reshape(1, 3, -1, width)
    every = every.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    mean, std = torch.tensor([0.485, -0.1, 3.0]), torch.tensor([0.229, 1e-3, 7.7])
    expected = (every / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    size = tuple(every.shape[2:])
    options = {"cubic": False, "antialias": True}
    assert torch.equal(resize_normalize(every, size, (0, 0, *size), mean, std, **options), expected)
    flipped = resize_normalize(every, size, (0, 0, *size), mean, std, **options, flip=True)
    assert torch.equal(flipped, expected.flip(3))
    larger = resize(every, (60, 2 * width), cubic=False, antialias=True)
    expected = (larger / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    part = (0, 0, 60, 2 * width)
    assert torch.equal(resize_normalize(every, (60, 2 * width), part, mean, std, **options), expected)


@pytest.mark.parametrize("cubic", [False, True])
@pytest.mark.parametrize("size", [(5, 7), (40, 2), (90, 120)])
def test_products_of_matrices_resize_as_torch_does(cubic, size):
    image = torch.rand(2, 3, 61, 83)
    mode = "bicubic" if cubic else "bilinear"
    expected = torch.nn.functional.interpolate(image, size, mode=mode, antialias=True)
    torch.testing.assert_close(_resize.resize_by_products(image, size, cubic=cubic), expected, rtol=1e-4, atol=1e-5)


def test_no_pictures_give_no_pictures():
    assert resize(torch.empty(0, 3, 5, 6, dtype=torch.uint8), (2, 4), cubic=False, antialias=True).shape == (0, 3, 2, 4)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("image", "size", "message"),
    [
        (torch.zeros(3, 4, 4, dtype=torch.uint8), (2, 2), r"shape \(3, 4, 4\), expected \(N, C, H, W\)"),
        (torch.zeros(1, 3, 4, 4), (2, 2), "dtype torch.float32, expected torch.uint8"),
        (torch.zeros(1, 3, 4, 4, dtype=torch.uint8), (0, 2), r"new size is \(0, 2\), expected at least"),
        (torch.zeros(1, 3, 0, 4, dtype=torch.uint8), (2, 2), "expected pictures that are not empty"),
    ],
)
def test_what_cannot_be_resized_is_an_error(image, size, message, device):
    with pytest.raises(RuntimeError, match=message):
        resize(image.to(device), size, cubic=False, antialias=True)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parts_outside_and_means_are_errors(device):
    image, three = pictures(1, 3, 8, 8).to(device), torch.ones(3, device=device)
    options = {"cubic": False, "antialias": True}
    for part in ((-1, 0, 2, 2), (0, 0, 5, 4), (0, 3, 4, 2), (0, 0, 0, 2)):
        with pytest.raises(RuntimeError, match="is not inside of the new size"):
            resize_normalize(image, (4, 4), part, three, three, **options)
    for wrong in (three[:2], three.double(), three[None]):
        with pytest.raises(RuntimeError, match="mean and std have to be float32 of shape"):
            resize_normalize(image, (4, 4), (0, 0, 4, 4), three, wrong, **options)


@pytest.mark.parametrize("last", [False, True])
def test_the_operators_pass_torchs_own_checks(last):
    image = pictures(2, 3, 12, 17, last=last)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(OPS._resize, (image, 8, 9, True, True, False), test_utils=tests)
    arguments = (image, 8, 9, 1, 2, 5, 6, False, True, True, torch.zeros(3), torch.ones(3))
    torch.library.opcheck(OPS._resize_normalize, arguments, test_utils=tests)


def test_it_compiles_for_pictures_of_any_size():
    compiled = torch.compile(lambda image: resize(image, (8, 9), cubic=False, antialias=True), fullgraph=True,
                             dynamic=True, backend="eager")  # fmt: skip
    for size in ((20, 31), (44, 10)):
        image = pictures(1, 3, *size)
        assert torch.equal(compiled(image), resize(image, (8, 9), cubic=False, antialias=True))
