"""The kit's hypothesis strategies: what is drawn is what is promised, corner cases included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from flambeau.core.testing import strategies

few = settings(max_examples=40, deadline=None)


@few
@given(strategies.shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
def test_shapes_stay_within_their_limits(shape: tuple[int, ...]) -> None:
    assert 1 <= len(shape) <= 3
    assert all(0 <= side <= 5 for side in shape)


@few
@given(st.data(), strategies.dtypes(integral=True))
def test_tensors_have_the_shape_and_dtype_asked_for(data: st.DataObject, dtype: torch.dtype) -> None:
    value = data.draw(strategies.tensors((2, 3), dtype))

    assert value.shape == (2, 3)
    assert value.dtype == dtype
    assert value.isfinite().all()


@few
@given(strategies.images(batch=True))
def test_images_are_batches_of_channels_height_width(image: Tensor) -> None:
    assert image.ndim == 4
    assert image.shape[1] in (1, 3)
    assert image.dtype == torch.uint8


@few
@given(strategies.images(dtype=torch.float32))
def test_floating_images_lie_in_the_unit_range(image: Tensor) -> None:
    assert image.ndim == 3
    assert ((image >= 0) & (image <= 1)).all()


@few
@given(strategies.boxes(size=(10, 20)))
def test_boxes_have_an_area_and_lie_inside_the_image(boxes: Tensor) -> None:
    assert boxes.shape[1:] == (4,)
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert (boxes >= 0).all()
    assert (boxes[:, [0, 2]] <= 20).all()
    assert (boxes[:, [1, 3]] <= 10).all()


@pytest.mark.parametrize("format", ["XYWH", "CXCYWH"])
@few
@given(data=st.data())
def test_boxes_of_other_formats_describe_the_same_kind_of_corners(format: Any, data: st.DataObject) -> None:
    boxes = data.draw(strategies.boxes(size=(10, 20), format=format))
    start = boxes[:, :2] - (boxes[:, 2:] / 2 if format == "CXCYWH" else 0)

    assert (boxes[:, 2:] > 0).all()
    assert (start >= 0).all()
    assert (start + boxes[:, 2:] <= torch.tensor([20.0, 10.0])).all()


@few
@given(strategies.boxes(dtype=torch.int64))
def test_integral_boxes_have_whole_corners_and_an_area(boxes: Tensor) -> None:
    assert boxes.dtype == torch.int64
    assert (boxes[:, 2:] > boxes[:, :2]).all()


@few
@given(strategies.waveforms(channels=(2,), min_frames=1))
def test_waveforms_lie_in_full_scale(waveform: Tensor) -> None:
    assert waveform.shape[0] == 2
    assert waveform.shape[1] >= 1
    assert waveform.abs().max() <= 1


@few
@given(strategies.jagged())
def test_jagged_values_are_as_many_as_their_lengths_say(pair: tuple[Tensor, Tensor]) -> None:
    values, lengths = pair

    assert len(values) == int(lengths.sum())
    assert lengths.dtype == torch.int64


@pytest.mark.parametrize(
    ("strategy", "corner"),
    [
        (strategies.boxes(), lambda boxes: len(boxes) == 0),
        (strategies.boxes(degenerate=True), lambda boxes: bool((boxes[:, 2] == boxes[:, 0]).any())),
        (strategies.images(batch=True), lambda image: len(image) == 0),
        (strategies.images(), lambda image: image.shape[1:] == (1, 1)),
        (strategies.waveforms(), lambda waveform: waveform.shape[1] == 0),
        (strategies.waveforms(min_frames=2), lambda waveform: bool((waveform.abs() == 1).all())),
        (strategies.jagged_lengths(), lambda lengths: len(lengths) == 0),
        (strategies.jagged_lengths(), lambda lengths: len(lengths) > 1 and int(lengths.sum()) == 0),
        (strategies.tensors(), lambda value: value.numel() == 0),
        (strategies.tensors(), lambda value: value.ndim == 0),
    ],
)
def test_corner_cases_are_drawn(strategy: Any, corner: Any) -> None:
    assert corner(find(strategy, corner))
