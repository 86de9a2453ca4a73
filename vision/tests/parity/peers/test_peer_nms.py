"""`nms` and `batched_nms` choose the boxes that torchvision's compiled operators choose."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.vision import ops

peer = pytest.importorskip("torchvision.ops", reason="needs torchvision; `nox -s parity -- peers` has it")


def detections(count, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    # Whole coordinates, so that overlaps equal to the threshold occur.
    corner = torch.randint(0, 60, (count, 2), generator=generator)
    size = torch.randint(0, 24, (count, 2), generator=generator)
    boxes = torch.cat([corner, corner + size], 1).to(dtype)
    scores = torch.randint(0, 20, (count,), generator=generator) / 20
    return boxes, scores.to(dtype), torch.randint(0, 4, (count,), generator=generator)


@settings(max_examples=300, deadline=None)
@given(
    count=st.integers(0, 300),
    seed=st.integers(0, 2**31),
    threshold=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0, -0.5]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_nms_equals_torchvisions(count, seed, threshold, dtype):
    boxes, scores, _ = detections(count, seed, dtype)
    assert torch.equal(ops.nms(boxes, scores, threshold), peer.nms(boxes, scores, threshold))


@settings(max_examples=100, deadline=None)
@given(count=st.integers(0, 1500), seed=st.integers(0, 2**31), threshold=st.floats(0.05, 0.95))
def test_batched_nms_equals_torchvisions_up_to_the_order_of_equal_scores(count, seed, threshold):
    boxes, scores, classes = detections(count, seed, torch.float64)
    ours = ops.batched_nms(boxes, scores, classes, threshold)
    theirs = peer.batched_nms(boxes, scores, classes, threshold)
    assert torch.equal(scores[ours], scores[theirs])
    assert torch.equal(ours.sort().values, theirs.sort().values)


def test_numbers_that_are_not_finite_are_treated_as_by_torchvision():
    values = torch.tensor([0.0, 1.0, 3.0, -2.0, torch.inf, -torch.inf, torch.nan])
    boxes = torch.cartesian_prod(values, values, values, values)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        rows = boxes[torch.randint(0, len(boxes), (60,), generator=generator)]
        scores = values[torch.randint(0, len(values), (60,), generator=generator)]
        for threshold in (-0.5, 0.0, 0.3):
            assert torch.equal(ops.nms(rows, scores, threshold), peer.nms(rows, scores, threshold))
