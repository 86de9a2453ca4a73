"""Masks: how wide, where, and what is written."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.audio.functional import mask_along_axis, mask_along_axis_iid
from flambeau.audio.transforms import FrequencyMasking, SpecAugment, TimeMasking


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.floats(0, 1), st.sampled_from([-2, -1]), st.integers(0, 1000))
def test_a_mask_is_one_stretch_no_longer_than_allowed(param, p, axis, seed):
    torch.manual_seed(seed)
    specgram = torch.ones(2, 3, 20, 15)
    size = specgram.shape[axis]
    masked = mask_along_axis(specgram, param, 5.0, specgram.dim() + axis, p)
    lines = (masked == 5.0).all(-1 if axis == -2 else -2)
    assert torch.equal(lines, lines[0, 0].expand_as(lines))
    assert (masked == 5.0).sum() == lines.sum() * (15 if axis == -2 else 20)
    where = lines[0, 0].nonzero().flatten().tolist()
    assert where == list(range(where[0], where[0] + len(where))) if where else True
    assert len(where) < max(param if p == 1 else min(param, int(size * p)), 1)


def test_independent_masks_differ_between_examples_and_channels():
    torch.manual_seed(0)
    masked = mask_along_axis_iid(torch.ones(4, 3, 50, 40), 30, 0.0, 3)
    widths = (masked == 0).all(2).sum(-1)
    assert len(set(widths.flatten().tolist())) > 4


def test_a_seed_decides():
    specgram = torch.ones(2, 3, 20, 30)
    torch.manual_seed(3)
    first = mask_along_axis_iid(specgram, 10, 0.0, 2)
    torch.manual_seed(3)
    assert torch.equal(mask_along_axis_iid(specgram, 10, 0.0, 2), first)


def test_the_input_is_not_written_to_and_gradients_stop_at_the_mask():
    torch.manual_seed(1)
    specgram = torch.ones(1, 20, 30, requires_grad=True)
    masked = mask_along_axis(specgram, 20, 0.0, 2)
    masked.sum().backward()
    assert torch.equal(specgram.grad, (masked != 0).float())
    assert (specgram == 1).all()


@pytest.mark.parametrize("transform", [FrequencyMasking(27), TimeMasking(100), FrequencyMasking(27, True)])
@pytest.mark.parametrize("leading", [(2,), (2, 1), (2, 1, 3)])
def test_any_leading_dimensions_are_taken(transform, leading):
    specgram = torch.ones(*leading, 80, 120)
    assert transform(specgram).shape == specgram.shape


def test_spec_augment_writes_zeros_or_the_mean():
    torch.manual_seed(0)
    specgram = torch.rand(1, 80, 120) + 1
    for zero, value in ((True, torch.tensor(0.0)), (False, specgram.mean())):
        masked = SpecAugment(2, 40, 2, 27, zero_masking=zero)(specgram)
        changed = masked[masked != specgram]
        assert len(changed)
        if zero:
            assert (changed == value).all()
        else:  # the mean is that of what was given
            torch.testing.assert_close(changed, value.expand_as(changed))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: mask_along_axis(x, 5, 0.0, 0), "axis is 0"),
        (lambda x: mask_along_axis(x, 5, 0.0, 1, 1.5), "p is 1.5"),
        (lambda x: mask_along_axis_iid(x[0], 5, 0.0, 1), "three dimensions"),
        (lambda x: TimeMasking(5, p=-1.0), "p is -1.0"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call(torch.ones(3, 20, 30))


@pytest.mark.parametrize("transform", [FrequencyMasking(5), TimeMasking(5), SpecAugment(2, 5, 2, 5)])
def test_one_spectrogram_keeps_its_two_dimensions(transform):
    assert transform(torch.ones(20, 30)).shape == (20, 30)


def test_what_is_no_spectrogram_is_refused():
    with pytest.raises(ValueError, match="at least two dimensions"):
        mask_along_axis(torch.ones(20), 5, 0.0, 0)


def test_one_mask_in_double_precision_lies_where_it_lies_in_single_precision():
    torch.manual_seed(0)
    single = mask_along_axis(torch.ones(3, 20, 30), 10, 0.0, 1)
    torch.manual_seed(0)
    assert torch.equal(mask_along_axis(torch.ones(3, 20, 30).double(), 10, 0.0, 1), single.double())
