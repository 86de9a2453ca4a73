"""The operators that see pictures of bytes through a map."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.vision.ops import _affine
from flambeau.vision.transforms.v2.functional._affine_matrix import inverse_affine_matrix

OPS = torch.ops.flambeau_vision


def pictures(*shape, last=False, seed=0):
    levels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return levels.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


angles = st.one_of(st.sampled_from([0.0, 45.0, 90.0, 180.0]), st.floats(-180, 180))
shifts = st.one_of(st.integers(-9, 9), st.floats(-9, 9))


def strides_that_matter(tensor: torch.Tensor) -> list[int]:
    """Along a dimension of one, any stride is right."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


@settings(max_examples=120, deadline=None)
@given(
    channels=st.integers(1, 6),
    size=st.tuples(st.integers(1, 60), st.integers(1, 300)),
    new=st.one_of(st.none(), st.tuples(st.integers(1, 60), st.integers(1, 300))),
    angle=angles,
    shift=st.tuples(shifts, shifts),
    scale=st.floats(0.3, 3),
    shear=st.floats(-40, 40),
    bilinear=st.booleans(),
    filled=st.booleans(),
    last=st.booleans(),
)
def test_pixels_are_those_of_grid_sample(channels, size, new, angle, shift, scale, shear, bilinear, filled, last):
    image = pictures(2, channels, *size, last=last)
    matrix = inverse_affine_matrix((0.0, 0.0), angle, shift, scale, (shear, 0.0))
    fill = torch.linspace(3, 250, channels) if filled else torch.zeros(0)
    arguments = (image, *matrix, *(new or size), bilinear, fill)
    out, reference = OPS._affine(*arguments), _affine._reference(*arguments)
    assert strides_that_matter(out) == strides_that_matter(reference)
    # The mean of four pixels may lie in the middle between two levels.
    assert (out.int() - reference.int()).abs().max() <= (1 if bilinear else 0)


@settings(max_examples=60, deadline=None)
@given(
    channels=st.integers(1, 6),
    size=st.tuples(st.integers(1, 40), st.integers(1, 50)),
    new=st.tuples(st.integers(1, 40), st.integers(1, 300)),
    bilinear=st.booleans(),
    filled=st.booleans(),
    last=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_places_are_looked_at(channels, size, new, bilinear, filled, last, seed):
    image = pictures(2, channels, *size, last=last, seed=seed)
    grid = torch.rand(*new, 2, generator=torch.Generator().manual_seed(seed)) * 3 - 1.5
    fill = torch.linspace(3, 250, channels) if filled else torch.zeros(0)
    out, reference = OPS._sample(image, grid, bilinear, fill), _affine._reference_sample(image, grid, bilinear, fill)
    assert strides_that_matter(out) == strides_that_matter(reference)
    assert (out.int() - reference.int()).abs().max() <= (1 if bilinear else 0)


@pytest.mark.parametrize("bilinear", [False, True])
@pytest.mark.parametrize("place", [float("nan"), float("inf"), -float("inf"), 1e30, -3e9])
def test_places_that_are_nowhere_show_what_is_outside(place, bilinear):
    image = pictures(1, 3, 5, 6)
    for grid in (torch.full((4, 5, 2), place), torch.tensor([place, 0.0]).expand(4, 5, 2)):
        assert torch.equal(OPS._sample(image, grid, bilinear, torch.zeros(0)), image.new_zeros(1, 3, 4, 5))


@pytest.mark.parametrize("bilinear", [False, True])
def test_threads_leave_no_trace(bilinear):
    image, before = pictures(2, 3, 310, 320), torch.get_num_threads()
    matrix = inverse_affine_matrix((0.0, 0.0), 20.0, (3.0, 4.0), 1.1, (5.0, 0.0))
    outs = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            outs.append(OPS._affine(image, *matrix, 310, 320, bilinear, torch.zeros(0)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(outs[0], outs[1])


@pytest.mark.parametrize("last", [False, True])
def test_the_operators_pass_torchs_own_checks(last):
    image, fill = pictures(2, 3, 8, 9, last=last), torch.zeros(3)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(OPS._affine, (image, 1.0, 0.1, 2.0, 0.0, 1.0, 0.5, 7, 8, True, fill), test_utils=tests)
    torch.library.opcheck(OPS._sample, (image, torch.rand(4, 5, 2), False, fill), test_utils=tests)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_cannot_be_mapped_is_an_error(device):
    image, none = pictures(1, 3, 8, 9).to(device), torch.zeros(0, device=device)
    matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    for wrong, size, fill, message in (
        (image[0], (4, 4), none, r"shape \(3, 8, 9\), expected \(N, C, H, W\)"),
        (image.float(), (4, 4), none, "dtype torch.float32, expected torch.uint8"),
        (image, (0, 4), none, r"cannot be mapped to \(0, 4\)"),
        (image[:0], (4, 4), none, "cannot be mapped"),
        (image, (4, 4), torch.zeros(2, device=device), "empty or of one number for each channel"),
    ):
        with pytest.raises(RuntimeError, match=message):
            OPS._affine(wrong, *matrix, *size, False, fill)
    for grid in (torch.zeros(4, 5, 3, device=device), torch.zeros(4, 5, 2, device=device).double()):
        with pytest.raises(RuntimeError, match=r"expected \(H, W, 2\) and torch.float32"):
            OPS._sample(image, grid, False, none)


@pytest.mark.parametrize("filled", [False, True])
def test_a_single_picture_whose_channels_are_last_keeps_them_there(filled):
    image = pictures(31, 40, 3).permute(2, 0, 1)[None]
    fill = torch.tensor([1.0, 2.0, 3.0]) if filled else torch.zeros(0)
    matrix = inverse_affine_matrix((0.0, 0.0), 33.0, (2, 3), 1.1, (5.0, 0.0))
    out = OPS._affine(image, *matrix, 50, 70, False, fill)
    assert strides_that_matter(out) == strides_that_matter(out.contiguous(memory_format=torch.channels_last))
    assert torch.equal(out, OPS._affine(image.contiguous(), *matrix, 50, 70, False, fill))
