"""COCO's masks: polygons, runs as numbers, runs as text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.vision.datasets._segmentations import SegmentationError, segmentation_to_mask


def text_of(runs: list[int]) -> str:
    """Runs as text, from the format's description: the inverse of what is tested."""
    characters = []
    for position, run in enumerate(runs):
        value, more = run - (runs[position - 2] if position > 2 else 0), True
        while more:
            bits, value = value & 0x1F, value >> 5
            more = value != (-1 if bits & 0x10 else 0)
            characters.append(chr((bits | (0x20 if more else 0)) + 48))
    return "".join(characters)


def runs_of(mask: np.ndarray) -> list[int]:
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat]))).tolist()
    return np.diff([0, *edges, flat.size]).tolist()


@given(st.data())
def test_runs_as_numbers_and_as_text_give_the_mask_back(data):
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 80))
    bits = data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    mask = np.array(bits, np.uint8).reshape(height, width)
    runs = runs_of(mask)
    for counts in (runs, text_of(runs), text_of(runs).encode()):
        decoded = segmentation_to_mask({"size": [height, width], "counts": counts}, height, width)
        assert np.array_equal(decoded, mask)


def test_texts_that_cocos_own_tools_wrote_are_read():
    mask = segmentation_to_mask({"size": [1000, 2000], "counts": "Pb`n0hb_n0Xo0"}, 1000, 2000)
    assert runs_of(mask) == [1_000_000, 999_000, 1_000]
    triangle = segmentation_to_mask({"size": [6, 7], "counts": "73300O1O<"}, 6, 7)
    assert np.array_equal(triangle, segmentation_to_mask([[0.5, 0.5, 6.5, 0.5, 0.5, 5.0]], 6, 7))


def test_a_rectangle_fills_the_pixels_whose_middle_it_holds():
    mask = segmentation_to_mask([[2, 1, 8, 1, 8, 5, 2, 5]], 8, 12)
    expected = np.zeros((8, 12), np.uint8)
    expected[1:5, 2:8] = 1
    assert np.array_equal(mask, expected)


def test_a_triangle_is_filled_as_cocos_own_tools_fill_it():
    mask = segmentation_to_mask([[0.5, 0.5, 6.5, 0.5, 0.5, 5.0]], 6, 7)
    rows = ["".join(map(str, row)) for row in mask]
    assert rows == ["0000000", "0111100", "0111000", "0110000", "0000000", "0000000"]


def test_polygons_are_joined_and_cut_at_the_edge():
    left, right = [-3, -3, 2, -3, 2, 9, -3, 9], [4, 0, 40, 0, 40, 2, 4, 2]
    mask = segmentation_to_mask([left, right], 4, 6)
    assert np.array_equal(mask, segmentation_to_mask([left], 4, 6) | segmentation_to_mask([right], 4, 6))
    assert mask[:, :2].all()
    assert mask[:2, 4:].all()
    assert not mask[2:, 2:].any()


@given(st.lists(st.tuples(st.floats(-5, 25), st.floats(-5, 25)), min_size=3, max_size=8), st.integers(0, 7))
def test_a_polygon_is_the_same_from_whichever_corner_it_starts(corners, start):
    turned = corners[start % len(corners) :] + corners[: start % len(corners)]
    first, second = (segmentation_to_mask([np.ravel(each).tolist()], 20, 20) for each in (corners, turned))
    assert np.array_equal(first, second)


def test_no_polygon_is_no_pixel():
    assert segmentation_to_mask([], 3, 4).sum() == 0


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        ({"size": [4, 3], "counts": [12]}, r"size \[4, 3\] belongs to a picture of \[3, 4\]"),
        ({"size": [3, 4], "counts": [11]}, "runs cover 11 pixels, expected 3 x 4 = 12"),
        ({"size": [3, 4], "counts": [14, -2]}, "runs cover 12 pixels"),
        ({"size": [3, 4], "counts": "~~"}, "'~', which stands for no number"),
        ({"size": [3, 4], "counts": "P"}, "end in the middle"),
        ([[1, 2, 3, 4]], "a polygon has 4 numbers"),
        ([[1, 2, 3, 4, 5, 6, 7]], "a polygon has 7 numbers"),
        ([[1, 2, 3, 4, 5, float("nan")]], "a polygon has 6 numbers"),
        ("rle", "not a str"),
    ],
)
def test_what_is_no_segmentation_is_refused(segmentation, message):
    with pytest.raises(SegmentationError, match=message):
        segmentation_to_mask(segmentation, 3, 4)
