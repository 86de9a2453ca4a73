"""The tensor type."""

import pytest
import torch
from flambeau.core import TENSOR_TYPES, collate

from flambeau_plugin_example.tensor_types import Points, center_crop_points


def test_the_type_is_found_by_name():
    assert TENSOR_TYPES.resolve("example/points") is Points


def test_points_keep_their_canvas_when_moved_and_indexed():
    value = Points([[1.0, 2.0], [3.0, 4.0]], canvas_size=(10, 20))
    assert value.to(torch.float64).canvas_size == value[:1].canvas_size == (10, 20)
    assert type(value + 1) is torch.Tensor


def test_a_batch_is_of_the_same_type():
    sample = Points([[1.0, 2.0]], canvas_size=(10, 20))
    batch = collate([sample, sample])
    assert (type(batch), batch.shape, batch.canvas_size) == (Points, (2, 1, 2), (10, 20))


def test_cropping_moves_points():
    moved, changed = center_crop_points(torch.tensor([[10.0, 5.0]]), [4, 10], canvas_size=(10, 20))
    assert (moved.tolist(), changed) == ([[5.0, 2.0]], {"canvas_size": (4, 10)})


def test_a_transform_of_vision_crops_points_too():
    functional = pytest.importorskip("flambeau.vision.transforms.v2.functional")
    cropped = functional.center_crop(Points([[10.0, 5.0]], canvas_size=(10, 20)), [4, 10])
    assert (type(cropped), cropped.tolist(), cropped.canvas_size) == (Points, [[5.0, 2.0]], (4, 10))
