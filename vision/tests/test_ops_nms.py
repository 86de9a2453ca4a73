"""What `nms` and `batched_nms` do. `test_ops_nms_tiers.py` runs this file again with every kind of implementation."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.core.testing.strategies import boxes as boxes_in_quarters
from flambeau.vision import ops
from flambeau.vision.ops import batched_nms, nms
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops.nms import _reference, _reference_batched

NATIVE = os.environ.get("FLAMBEAU_NATIVE", "auto")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# All 65,536 patterns of a 16-bit number; the reference, whose time grows with the square, gets a sample.
PATTERNS = torch.arange(-(2**15), 2**15, 67 if NATIVE == "off" else 1, dtype=torch.int16)
THRESHOLDS = st.one_of(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0, -0.5]), st.floats(-0.25, 1.25))


def test_the_expected_tier_serves():
    expected = {"auto": "dispatcher", "dispatcher": "dispatcher", "ctypes": "ctypes", "off": "python"}[NATIVE]
    providers = {name: LIBRARY.operators[name]["provider"] for name in ("nms", "batched_nms")}
    assert providers == {"nms": expected, "batched_nms": expected}, LIBRARY.reason


def some_boxes(count, dtype=torch.float32, seed=0, side=100.0):
    """Boxes of which many overlap, scores of which some are equal, and classes."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator, dtype=torch.float64) * side
    size = torch.rand(count, 2, generator=generator, dtype=torch.float64) * side / 2
    scores = torch.randint(0, max(count, 1), (count,), generator=generator) / max(count, 1)
    classes = torch.randint(-2, 3, (count,), generator=generator)
    return torch.cat([corner, corner + size], 1).to(dtype), scores.to(dtype), classes


def by_definition(boxes, scores, classes, threshold):
    """The greedy algorithm, one number at a time, for a handful of boxes in float32."""
    rows = boxes.numpy().astype(numpy.float32)
    zero, kept = numpy.float32(0), []

    def covers(a, b):
        width = max(min(a[2], b[2]) - max(a[0], b[0]), zero)
        height = max(min(a[3], b[3]) - max(a[1], b[1]), zero)
        both = width * height
        either = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
        return either != 0 and float(both / either) > threshold

    for index in sorted(range(len(rows)), key=lambda i: -scores[i].item()):
        if not any(classes[index] == classes[other] and covers(rows[other], rows[index]) for other in kept):
            kept.append(index)
    return kept


# --- which boxes stay -------------------------------------------------------------------------------------------------


def test_a_box_that_overlaps_a_better_one_too_much_is_dropped():
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3], [6, 6, 8, 8]])
    assert nms(boxes, torch.tensor([0.5, 0.9, 0.3]), 0.7).tolist() == [1, 2]
    assert nms(boxes, torch.tensor([0.5, 0.9, 0.3]), 0.8).tolist() == [1, 0, 2]


@settings(max_examples=150, deadline=None)
@given(boxes=boxes_in_quarters(most=9), threshold=THRESHOLDS, data=st.data())
def test_the_result_is_that_of_the_definition(boxes, threshold, data):
    count = len(boxes)
    scores = torch.tensor(data.draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4]), min_size=count, max_size=count)))
    classes = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), dtype=torch.int64)
    assert nms(boxes, scores, threshold).tolist() == by_definition(boxes, scores, [0] * count, threshold)
    assert batched_nms(boxes, scores, classes, threshold).tolist() == by_definition(boxes, scores, classes, threshold)


@settings(max_examples=60, deadline=None)
@given(count=st.integers(0, 700), seed=st.integers(0, 2**31), threshold=THRESHOLDS, dtype=st.sampled_from(FLOATS))
def test_every_implementation_agrees_with_the_reference(count, seed, threshold, dtype):
    boxes, scores, classes = some_boxes(count, dtype, seed)
    assert torch.equal(nms(boxes, scores, threshold), _reference(boxes, scores, threshold))
    expected = _reference_batched(boxes, scores, classes, threshold)
    assert torch.equal(batched_nms(boxes, scores, classes, threshold), expected)


def test_an_overlap_equal_to_the_threshold_is_not_too_much():
    boxes, scores = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 2]]), torch.tensor([0.9, 0.8])
    assert nms(boxes, scores, 0.5).tolist() == [0, 1]
    assert nms(boxes, scores, 0.4999999).tolist() == [0]


def test_the_threshold_is_not_rounded_to_the_boxes_precision():
    # Upstream: the overlap, 0.1 in float32, is 0.100000001490116, which is above the double 0.1.
    boxes, scores = torch.tensor([[0.0, 0, 10, 1], [0, 0, 1, 1]]), torch.tensor([0.9, 0.8])
    assert nms(boxes, scores, 0.1).tolist() == [0]
    assert nms(boxes.double(), scores.double(), 0.1).tolist() == [0, 1]


def test_equal_scores_are_visited_in_their_given_order():
    boxes = torch.tensor([[0.0, 0, 1, 1]]).repeat(200, 1) + torch.arange(200.0)[:, None] * 2
    assert nms(boxes, torch.full((200,), 0.5), 0.5).tolist() == list(range(200))
    assert nms(boxes[:1].repeat(5, 1), torch.ones(5), 0.5).tolist() == [0]
    assert nms(boxes[:3], torch.tensor([0.0, -0.0, 0.0]), 0.5).tolist() == [0, 1, 2]


def test_a_nan_score_is_visited_first():
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [9, 9, 10, 10], [20, 20, 21, 21]])
    scores = torch.tensor([torch.inf, torch.nan, -torch.inf, -torch.nan])
    assert nms(boxes, scores, 0.5).tolist() == [1, 3, 2]


@pytest.mark.parametrize("column", range(4))
def test_a_nan_coordinate_neither_drops_nor_is_dropped(column):
    boxes = torch.tensor([[0.0, 0, 4, 4]]).repeat(3, 1)
    boxes[0, column] = torch.nan
    assert nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 1]
    assert nms(boxes, torch.tensor([0.7, 0.9, 0.8]), 0.5).tolist() == [1, 0]


def test_strange_boxes_are_treated_as_by_the_reference():
    values = torch.tensor([0.0, 1.0, 3.0, -2.0, torch.inf, -torch.inf, torch.nan, 1e-40, 3e38])
    boxes = torch.cartesian_prod(values, values, values, values)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        rows = boxes[torch.randint(0, len(boxes), (120,), generator=generator)]
        scores = torch.rand(120, generator=generator)
        for threshold in (-0.5, 0.0, 0.3):
            assert torch.equal(nms(rows, scores, threshold), _reference(rows, scores, threshold))


@pytest.mark.parametrize("threshold", [torch.nan, torch.inf, 1e300, 1.0])
def test_a_threshold_that_nothing_exceeds_keeps_all(threshold):
    boxes, scores, _ = some_boxes(50)
    assert len(nms(boxes, scores, threshold)) == 50


# --- dtypes, sizes, strides -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_no_boxes_give_no_indices(dtype):
    empty = torch.empty(0, 4, dtype=dtype)
    for result in (nms(empty, empty[:, 0], 0.5), batched_nms(empty, empty[:, 0], torch.empty(0), 0.5)):
        assert (result.shape, result.dtype) == ((0,), torch.int64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    boxes, scores, classes = some_boxes(300, dtype)
    assert torch.equal(nms(boxes, scores, 0.3), nms(boxes.float(), scores.float(), 0.3))
    expected = batched_nms(boxes.float(), scores.float(), classes, 0.3)
    assert torch.equal(batched_nms(boxes, scores, classes, 0.3), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_scores_are_ordered_as_torch_orders_them_whatever_their_bits(dtype):
    if dtype.itemsize == 2:
        bits = PATTERNS
    else:
        signed = torch.int32 if dtype == torch.float32 else torch.int64
        info = torch.iinfo(signed)
        bits = torch.randint(info.min, info.max, (2000,), dtype=signed, generator=torch.Generator().manual_seed(0))
    scores = bits.view(dtype)
    # Rows of separate boxes; so few in one class that this is about the order alone.
    apart = torch.tensor([[0, 0, 1, 1]], dtype=dtype).repeat(len(scores), 1)
    expected = scores.sort(descending=True, stable=True).indices
    assert torch.equal(batched_nms(apart, scores, torch.arange(len(scores)), 0.5), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_half_precision_coordinate_is_read_exactly(dtype):
    value = PATTERNS.view(dtype)
    value = value[(value > 0) & (value < 1e38)]  # above, areas are infinite
    # A box of this width, and one half as high: their overlap is exactly 1/2.
    zero, one = torch.zeros_like(value), torch.ones_like(value)
    wide = torch.stack([zero, zero, value, one], 1)
    narrow = torch.stack([zero, zero, value, one / 2], 1)
    boxes = torch.stack([wide, narrow], 1).reshape(-1, 4)
    classes = torch.arange(len(value)).repeat_interleave(2)
    scores = torch.ones(len(boxes), dtype=dtype)
    assert len(batched_nms(boxes, scores, classes, 0.5)) == len(boxes)
    assert len(batched_nms(boxes, scores, classes, 0.499999)) == len(value)


def test_any_strides_will_do():
    boxes, scores, classes = some_boxes(120)
    expected, expected_batched = nms(boxes, scores, 0.4), batched_nms(boxes, scores, classes, 0.4)
    columns = boxes.t().contiguous().t()
    padded = torch.zeros(240, 9)
    padded[::2, 1::2] = boxes
    pairs, pairs_of_classes = torch.stack([scores, scores], 1), torch.stack([classes, classes], 1)
    for layout in (columns, padded[::2, 1::2]):
        assert torch.equal(nms(layout, pairs[:, 1], 0.4), expected)
        assert torch.equal(batched_nms(layout, pairs[:, 1], pairs_of_classes[:, 0], 0.4), expected_batched)
    assert nms(boxes[:1].expand(9, 4), scores[:1].expand(9), 0.4).tolist() == [0]


def test_inputs_are_left_alone_and_the_result_is_of_its_own():
    boxes, scores, classes = some_boxes(64)
    copies = boxes.clone(), scores.clone(), classes.clone()
    kept = batched_nms(boxes, scores, classes, 0.4)
    assert all(map(torch.equal, (boxes, scores, classes), copies))
    assert kept.is_contiguous()
    assert kept.untyped_storage().nbytes() == len(kept) * 8


def test_the_result_does_not_depend_on_the_number_of_threads():
    boxes, scores, classes = some_boxes(4000, side=1000.0)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3, 4):
            torch.set_num_threads(count)
            results.append((nms(boxes, scores, 0.5), batched_nms(boxes, scores, classes, 0.5)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, results[0][0]) and torch.equal(b, results[0][1]) for a, b in results)


# --- classes ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 300), seed=st.integers(0, 2**31), threshold=st.floats(0, 1))
def test_batched_nms_is_nms_of_each_class_in_order_of_score(count, seed, threshold):
    boxes, scores, classes = some_boxes(count, seed=seed)
    stays = torch.zeros(count, dtype=torch.bool)
    for one in classes.unique():
        members = (classes == one).nonzero()[:, 0]
        stays[members[nms(boxes[members], scores[members], threshold)]] = True
    order = scores.sort(descending=True, stable=True).indices
    assert torch.equal(batched_nms(boxes, scores, classes, threshold), order[stays[order]])


def test_one_class_is_nms():
    boxes, scores, classes = some_boxes(200)
    assert torch.equal(batched_nms(boxes, scores, torch.full_like(classes, 7), 0.5), nms(boxes, scores, 0.5))


def test_large_coordinates_keep_their_precision_in_every_class():
    # Moving classes apart by an offset would make these two boxes of one class the same box.
    boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 0.25], [1e7, 1e7, 1e7 + 1, 1e7 + 1]])
    assert batched_nms(boxes, torch.tensor([0.9, 0.8, 0.7]), torch.tensor([90, 90, 1]), 0.5).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "classes",
    [
        torch.tensor([2, 1, 2, 1], dtype=torch.uint8),
        torch.tensor([-5, 2**31 - 1, -5, 2**31 - 1], dtype=torch.int32),
        torch.tensor([2**62, -(2**62), 2**62, -(2**62)]),
        torch.tensor([1.25, 1.5, 1.25, 1.5], dtype=torch.float16),
        torch.tensor([0.0, 1e-300, -0.0, 1e-300], dtype=torch.float64),
    ],
)
def test_classes_may_be_any_numbers(classes):
    boxes = torch.tensor([[0.0, 0, 1, 1]]).repeat(4, 1)
    assert batched_nms(boxes, torch.tensor([0.6, 0.7, 0.8, 0.9]), classes, 0.5).tolist() == [3, 2]


# --- errors -----------------------------------------------------------------------------------------------------------

BOXES, SCORES, CLASSES = torch.zeros(3, 4), torch.zeros(3), torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        (torch.zeros(3, 5), SCORES, r"nms: boxes has shape \(3, 5\), expected \(N, 4\): corners x1, y1, x2, y2\."),
        (torch.zeros(4), SCORES, r"nms: boxes has shape \(4,\), expected \(N, 4\)"),
        (torch.zeros(1, 3, 4), SCORES, r"nms: boxes has shape \(1, 3, 4\), expected \(N, 4\)"),
        (BOXES, torch.zeros(2), r"nms: scores has shape \(2,\), expected \(3,\): one for each row of boxes\."),
        (BOXES, torch.zeros(3, 1), r"nms: scores has shape \(3, 1\), expected \(3,\)"),
        (BOXES, torch.tensor(0.5), r"nms: scores has shape \(\), expected \(3,\)"),
        (BOXES.int(), SCORES, r"nms: boxes has dtype torch.int32, expected float32, float64, float16 or bfloat16"),
        (BOXES.cfloat(), SCORES, r"nms: boxes has dtype torch.complex64, expected float32"),
        (BOXES, SCORES.double(), r"nms: scores has dtype torch.float64, expected that of boxes, torch.float32"),
    ],
)
def test_an_error_names_the_argument_and_its_value(boxes, scores, message):
    with pytest.raises(RuntimeError, match=message):
        nms(boxes, scores, 0.5)
    with pytest.raises(RuntimeError, match=f"batched_{message}"):
        batched_nms(boxes, scores, CLASSES, 0.5)


def test_an_error_about_classes_names_them():
    with pytest.raises(RuntimeError, match=r"batched_nms: idxs has shape \(2,\), expected \(3,\): one class for each"):
        batched_nms(BOXES, SCORES, CLASSES[:2], 0.5)
    with pytest.raises(RuntimeError, match=r"batched_nms: idxs has dtype torch.int32, expected int64"):
        torch.ops.flambeau_vision.batched_nms(BOXES, SCORES, CLASSES.int(), 0.5)


# --- torch's machinery ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 40])
def test_torch_finds_nothing_wrong_with_the_registration(count):
    boxes, scores, classes = some_boxes(count)
    torch.library.opcheck(torch.ops.flambeau_vision.nms.default, (boxes, scores, 0.5))
    torch.library.opcheck(torch.ops.flambeau_vision.batched_nms.default, (boxes, scores, classes, 0.5))


def test_the_operators_have_upstreams_names_and_arguments():
    assert str(torch.ops.flambeau_vision.nms.default._schema) == (
        "flambeau_vision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )


@pytest.fixture
def one_graph():
    """torch 2.8 breaks the graph at sizes that depend on values, unless it is told otherwise."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's own use
def test_it_compiles_as_one_graph_with_any_number_of_boxes_in_and_out(one_graph):
    def best(boxes, scores, classes):
        first = nms(boxes, scores, 0.5)
        return boxes[first] * 2, batched_nms(boxes, scores, classes, 0.3)

    compiled = torch.compile(best, fullgraph=True, dynamic=True)
    for count in (50, 7, 1, 0):
        inputs = some_boxes(count, seed=count)
        assert all(map(torch.equal, compiled(*inputs), best(*inputs)))


def test_it_exports_with_any_number_of_boxes():
    class Best(torch.nn.Module):
        def forward(self, boxes, scores, classes):
            return boxes[nms(boxes, scores, 0.5)], batched_nms(boxes, scores, classes, 0.3)

    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(Best(), some_boxes(30), dynamic_shapes=({0: rows}, {0: rows}, {0: rows}))
    inputs = some_boxes(77, seed=3)
    assert all(map(torch.equal, program.module()(*inputs), Best()(*inputs)))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_it_can_be_scripted():
    boxes, scores, classes = some_boxes(60)
    assert torch.equal(torch.jit.script(nms)(boxes, scores, 0.5), nms(boxes, scores, 0.5))
    expected = batched_nms(boxes, scores, classes, 0.5)
    assert torch.equal(torch.jit.script(batched_nms)(boxes, scores, classes, 0.5), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's own use
def test_autocast_computes_in_float32_and_takes_mixed_dtypes(one_graph):
    boxes, scores, classes = some_boxes(100)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = nms(boxes.bfloat16(), scores, 0.5)
        batched = batched_nms(boxes.bfloat16(), scores, classes, 0.5)
        compiled = torch.compile(nms, fullgraph=True)(boxes.bfloat16(), scores, 0.5)
        exact = nms(boxes.double(), scores.double(), 0.5)
    assert torch.equal(mixed, nms(boxes.bfloat16().float(), scores, 0.5))
    assert torch.equal(batched, batched_nms(boxes.bfloat16().float(), scores, classes, 0.5))
    assert torch.equal(compiled, mixed)
    assert torch.equal(exact, nms(boxes.double(), scores.double(), 0.5))


def test_the_result_has_no_gradient():
    boxes, scores, _ = some_boxes(20)
    kept = nms(boxes.requires_grad_(), scores.requires_grad_(), 0.5)
    assert not kept.requires_grad
    boxes[kept].sum().backward()
    assert boxes.grad is not None
    assert boxes.grad.sum() == 4 * len(kept)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantized_boxes_are_compared_by_their_integers():
    boxes, scores, classes = some_boxes(80)
    quantized = torch.quantize_per_tensor(boxes, 0.5, 10, torch.qint32)
    quantized_scores = torch.quantize_per_tensor(scores, 0.01, 3, torch.quint8)
    integers, ranks = quantized.int_repr().double(), quantized_scores.int_repr().double()
    assert torch.equal(nms(quantized, quantized_scores, 0.4), nms(integers, ranks, 0.4))
    expected = batched_nms(integers, ranks, classes, 0.4)
    assert torch.equal(batched_nms(quantized, quantized_scores, classes, 0.4), expected)


# --- where it is found ------------------------------------------------------------------------------------------------


def test_upstreams_public_paths_exist():
    import flambeau.vision.ops.boxes
    import flambeau.vision.ops.nms  # noqa: F401  (a module of the operator's name must not take its place)

    assert ops.nms is ops.boxes.nms is nms
    assert ops.batched_nms is ops.boxes.batched_nms is batched_nms


def test_importing_the_package_does_not_import_torch():
    code = (
        "import sys, json, flambeau.vision.ops as ops; print(json.dumps([sorted(ops.__all__), 'torch' in sys.modules]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names, torch_is_there = json.loads(printed)
    assert {"batched_nms", "nms"} <= set(names)
    assert not torch_is_there


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 2000])
def test_the_accelerator_gives_the_same_boxes(count, dtype):
    if not torch.accelerator.is_available():
        pytest.skip("needs an accelerator")
    device = torch.accelerator.current_accelerator()
    boxes, scores, classes = some_boxes(count, dtype)
    there = boxes.to(device), scores.to(device), classes.to(device)
    kept, batched = nms(*there[:2], 0.5), batched_nms(*there, 0.5)
    assert kept.device == there[0].device
    assert torch.equal(kept.cpu(), nms(boxes, scores, 0.5))
    assert torch.equal(batched.cpu(), batched_nms(boxes, scores, classes, 0.5))
    with pytest.raises(RuntimeError, match="nms: scores is on cpu, boxes on"):
        nms(there[0], scores, 0.5)
