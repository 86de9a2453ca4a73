"""The operators that enlarge masks of boxes, and Mask R-CNN's use of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.vision.models.detection._masks import encode_masks_in_image, paste_masks_in_image
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.ops import _masks
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops._masks import mask_codes, paste_masks

OPS = torch.ops.flambeau_vision
native = pytest.mark.skipif(LIBRARY.provider == "python", reason="there is no native library here")


def some_masks(count=6, side=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.randint(-12, 30, (count, 2), generator=generator)
    boxes = torch.cat([corner, corner + torch.randint(-1, 25, (count, 2), generator=generator)], 1)
    return torch.rand(count, 1, side, side, generator=generator), boxes


def decoded(code, size):
    """The mask that COCO's compressed run lengths stand for, read as its tools do."""
    lengths, index = [], 0
    while index < len(code):
        value, shift, more = 0, 0, True
        while more:
            character = code[index] - 48
            value |= (character & 31) << shift
            shift, index, more = shift + 5, index + 1, bool(character & 32)
            if not more and character & 16:
                value |= -1 << shift
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
    values = torch.arange(len(lengths)).remainder(2).bool()
    return values.repeat_interleave(torch.tensor(lengths)).reshape(size[1], size[0]).T


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), side=st.integers(1, 30), size=st.tuples(st.integers(1, 40), st.integers(1, 50)))
def test_every_implementation_pastes_the_same(seed, side, size):
    masks, boxes = some_masks(5, side, seed)
    pasted = paste_masks(masks, boxes, size)
    reference = _masks._reference_paste(masks, boxes, *size)
    torch.testing.assert_close(pasted, reference, rtol=1e-5, atol=1e-6)
    if LIBRARY.provider != "python":
        assert torch.equal(pasted, _masks._native_paste(masks, boxes, *size))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), side=st.integers(1, 30), size=st.tuples(st.integers(1, 40), st.integers(1, 50)))
def test_codes_are_those_of_the_pasted_masks(seed, side, size):
    masks, boxes = some_masks(5, side, seed)
    expected = paste_masks(masks, boxes, size)[:, 0] > 0.4
    codes = mask_codes(masks, boxes, size, 0.4)
    for code, mask in zip(codes, expected, strict=True):
        assert torch.equal(decoded(code, size), mask)
        assert code == _masks._text(_masks._lengths(mask))


def test_a_known_mask_has_its_known_code():
    # Two columns of three in a picture of 4 x 5: runs of 5, 3, 1, 3, 8; the last two as differences of 0 and 7.
    box = torch.tensor([[1, 1, 2, 3]])
    assert mask_codes(torch.ones(1, 1, 2, 2), box, (4, 5), 0.5) == [b"53107"]
    assert _masks._lengths(_masks._reference_paste(torch.ones(1, 1, 2, 2), box, 4, 5)[0, 0] > 0.5) == [5, 3, 1, 3, 8]


def test_empty_and_full_pictures_have_codes():
    masks = torch.stack([torch.zeros(1, 3, 3), torch.ones(1, 3, 3)])
    codes = mask_codes(masks, torch.tensor([[0, 0, 9, 9]] * 2), (4, 5), 0.5)
    assert [decoded(code, (4, 5)).float().mean().item() for code in codes] == [0, 1]
    assert mask_codes(masks[:0], torch.zeros(0, 4, dtype=torch.int64), (4, 5), 0.5) == []


@native
@pytest.mark.parametrize("extreme", [-(2**63), 2**63 - 1])
def test_boxes_that_are_no_numbers_paste_nothing_or_what_reaches_the_picture(extreme):
    boxes = torch.tensor([[extreme] * 4, [extreme, 0, 5, 5], [0, 0, 5, extreme]])
    pasted = paste_masks(torch.ones(3, 1, 4, 4), boxes, (6, 7))
    assert not pasted[0].any()
    assert pasted.isfinite().all()


def test_masks_of_any_layout_are_taken():
    masks, boxes = some_masks()
    turned = masks.transpose(2, 3)
    assert torch.equal(paste_masks(turned, boxes, (20, 30)), paste_masks(turned.contiguous(), boxes, (20, 30)))


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("masks", "boxes", "size", "message"),
    [
        (
            torch.zeros(2, 3, 3),
            torch.zeros(2, 4).long(),
            (4, 4),
            r"masks has shape \(2, 3, 3\), expected \(N, 1, M, M\)",
        ),
        (
            torch.zeros(2, 1, 3, 3).double(),
            torch.zeros(2, 4).long(),
            (4, 4),
            "dtype torch.float64, expected torch.float32",
        ),
        (torch.zeros(2, 1, 3, 3), torch.zeros(1, 4).long(), (4, 4), r"expected \(2, 4\): one for each mask"),
        (torch.zeros(2, 1, 3, 3), torch.zeros(2, 4), (4, 4), "dtype torch.float32, expected torch.int64"),
        (torch.zeros(2, 1, 3, 3), torch.zeros(2, 4).long(), (0, 4), r"size is \(0, 4\), expected at least"),
    ],
)
def test_what_cannot_be_pasted_is_an_error(device, masks, boxes, size, message):
    for operator, more in ((OPS._paste_masks, ()), (OPS._mask_codes, (0.5,))):
        if device == "meta" and more:
            continue  # how long codes are is known of values alone
        with pytest.raises(RuntimeError, match=message):
            operator(masks.to(device), boxes.to(device), *size, *more)


def test_the_operators_pass_torchs_own_checks():
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    masks, boxes = some_masks()
    torch.library.opcheck(OPS._paste_masks, (masks, boxes, 20, 30), test_utils=tests)
    torch.library.opcheck(OPS._mask_codes, (masks, boxes, 20, 30, 0.5), test_utils=tests[:2])


def test_other_dtypes_and_gradients_are_pasted_by_torch():
    masks, boxes = some_masks()
    expected = paste_masks_in_image(masks, boxes.float(), (30, 40))
    double = paste_masks_in_image(masks.double(), boxes.double(), (30, 40))
    torch.testing.assert_close(double.float(), expected, rtol=1e-4, atol=1e-5)
    leaf = masks.clone().requires_grad_()
    pasted = paste_masks_in_image(leaf, boxes.float(), (30, 40))
    torch.testing.assert_close(pasted, expected)
    pasted.sum().backward()
    assert leaf.grad.abs().sum() > 0


def test_mask_r_cnn_gives_run_lengths_where_they_are_asked_for():
    masks, boxes = torch.rand(2, 1, 14, 14), torch.tensor([[3.0, 4.0, 30.0, 20.0], [10.0, 1.0, 18.0, 35.0]])
    results = {}
    for kind in ("probabilities", "rle"):
        transform = GeneralizedRCNNTransform(40, 60, [0.0] * 3, [1.0] * 3, masks=kind).eval()
        found = transform.postprocess([{"boxes": boxes, "masks": masks}], [(40, 50)], [(80, 100)])[0]
        results[kind] = found["masks"]
    assert results["probabilities"].shape == (2, 1, 80, 100)
    for mask, code in zip(results["probabilities"][:, 0], results["rle"], strict=True):
        assert code["size"] == [80, 100]
        assert torch.equal(decoded(code["counts"], (80, 100)), mask > 0.5)
    assert encode_masks_in_image(masks[:0], boxes[:0], (80, 100)) == []
    with pytest.raises(ValueError, match="masks is 'polygons', expected"):
        GeneralizedRCNNTransform(40, 60, [0.0] * 3, [1.0] * 3, masks="polygons")
