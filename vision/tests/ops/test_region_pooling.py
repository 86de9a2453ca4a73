"""What the poolings of regions do. `test_tiers.py` runs this file again with every kind of implementation."""

from __future__ import annotations

import math
import os
from importlib import import_module

import pytest
import torch

from flambeau.vision import ops
from flambeau.vision.ops import roi_align
from flambeau.vision.ops._library import LIBRARY

NATIVE = os.environ.get("FLAMBEAU_NATIVE", "auto")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}
# Name -> further arguments that the tests use, beyond maps, boxes, size and scale.
POOLINGS = {
    "roi_align": [{"sampling_ratio": s, "aligned": a} for s in (-1, 2) for a in (False, True)],
    "ps_roi_align": [{"sampling_ratio": -1}, {"sampling_ratio": 3}],
    "roi_pool": [{}],
    "ps_roi_pool": [{}],
}
EVERY = [
    pytest.param(name, kwargs, id=f"{name}{list(kwargs.values())}") for name in POOLINGS for kwargs in POOLINGS[name]
]
BINS, SCALE = (3, 2), 0.25


def pool(name, maps, boxes, size=BINS, scale=SCALE, **kwargs):
    return getattr(ops, name)(maps, boxes, size, scale, **kwargs)


def module(name):
    return import_module(f"flambeau.vision.ops.{name}")


def inputs(dtype=torch.float32, *, last=False, channels=12, count=20, seed=0):
    """Maps of two pictures, and regions of which some reach outside, are turned over, or have no size."""
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(2, channels, 11, 14, generator=generator, dtype=torch.float64).to(dtype)
    if last:
        maps = maps.contiguous(memory_format=torch.channels_last)
    corner = torch.rand(count, 2, generator=generator) * torch.tensor([60.0, 50.0]) - 8
    other = corner + torch.rand(count, 2, generator=generator) * 45 - 5
    rows = torch.cat([torch.randint(0, 2, (count, 1), generator=generator), corner, other], 1)
    special = [[0, 0, 56, 44], [8, 8, 8, 8], [-99, -99, -60, -60], [50, 40, 70, 60], [56, 44, 56, 44]]
    rows[: len(special), 1:] = torch.tensor(special[:count], dtype=rows.dtype)
    return maps, rows.to(dtype)


def arguments(name, kwargs):
    """The numbers that the operator takes, and those that its gradient takes after the sizes."""
    numbers = (SCALE, *BINS)
    extra = tuple(kwargs.values())
    return (*numbers, *extra), ((*numbers, *extra), ()) if name == "ps_roi_align" else (numbers, extra)


# --- what is computed -------------------------------------------------------------------------------------------------


def sampled(map_, start, step, number):
    """Mean of a bin's samples: `start` and `step` of its two directions, one number at a time."""
    height, width = map_.shape
    total = 0.0
    for row in range(number[0]):
        for column in range(number[1]):
            y = start[0] + (row + 0.5) * step[0] / number[0]
            x = start[1] + (column + 0.5) * step[1] / number[1]
            if not (-1 <= y <= height and -1 <= x <= width):
                continue
            y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
            top, left = min(int(y), max(height - 2, 0)), min(int(x), max(width - 2, 0))
            down, right = y - top, x - left
            below, beside = min(top + 1, height - 1), min(left + 1, width - 1)
            upper = map_[top, left] * (1 - right) + map_[top, beside] * right
            lower = map_[below, left] * (1 - right) + map_[below, beside] * right
            total += float(upper * (1 - down) + lower * down)
    return total / max(number[0] * number[1], 1)


def aligned_by_definition(maps, boxes, *, sampling_ratio, aligned=True, sensitive=False):
    channels = maps.shape[1] // (math.prod(BINS) if sensitive else 1)
    result = torch.zeros(len(boxes), channels, *BINS, dtype=maps.dtype)
    for k, c, i, j in torch.cartesian_prod(*map(torch.arange, result.shape)).tolist():
        image, x1, y1, x2, y2 = boxes[k].tolist()
        shift = 0.5 if aligned else 0.0
        start = [y1 * SCALE - shift, x1 * SCALE - shift]
        extent = [y2 * SCALE - shift - start[0], x2 * SCALE - shift - start[1]]
        if not aligned:
            extent = [max(side, 1.0) for side in extent]
        step = [side / bins for side, bins in zip(extent, BINS, strict=True)]
        number = [sampling_ratio] * 2 if sampling_ratio > 0 else [max(math.ceil(side), 0) for side in step]
        channel = (c * BINS[0] + i) * BINS[1] + j if sensitive else c
        begin = [start[0] + i * step[0], start[1] + j * step[1]]
        result[k, c, i, j] = sampled(maps[int(image), channel], begin, step, number)
    return result


def pixels_by_definition(maps, boxes, *, sensitive):
    """Of each bin the pixels, as a list, in the order of the result."""

    def nearest(value):
        return int(math.copysign(math.floor(abs(value) + 0.5), value))

    def cut(start, length, bins, index, size):
        begin = start + math.floor(index * length / bins)
        return range(max(begin, 0), min(start + math.ceil((index + 1) * length / bins), size))

    channels = maps.shape[1] // (math.prod(BINS) if sensitive else 1)
    height, width = maps.shape[2:]
    for k in range(len(boxes)):
        image = int(boxes[k, 0])
        left, top, right, bottom = (nearest(value * SCALE) for value in boxes[k, 1:].tolist())
        more = 0 if sensitive else 1
        lengths = max(bottom - top + more, 1), max(right - left + more, 1)
        limit = (height - 1, width - 1) if sensitive else (height, width)  # Upstream: the last ones are left out
        for c in range(channels):
            for i in range(BINS[0]):
                for j in range(BINS[1]):
                    channel = (c * BINS[0] + i) * BINS[1] + j if sensitive else c
                    rows = cut(top, lengths[0], BINS[0], i, limit[0])
                    columns = cut(left, lengths[1], BINS[1], j, limit[1])
                    yield [maps[image, channel, y, x].item() for y in rows for x in columns]


@pytest.mark.parametrize("kwargs", POOLINGS["roi_align"], ids=str)
def test_roi_align_is_the_mean_of_interpolated_samples(kwargs):
    maps, boxes = inputs(torch.float64, channels=2)
    expected = aligned_by_definition(maps, boxes, **kwargs)
    torch.testing.assert_close(pool("roi_align", maps, boxes, **kwargs), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kwargs", POOLINGS["ps_roi_align"], ids=str)
def test_ps_roi_align_takes_each_bin_from_a_channel_of_its_own(kwargs):
    maps, boxes = inputs(torch.float64)
    expected = aligned_by_definition(maps, boxes, sensitive=True, **kwargs)
    torch.testing.assert_close(pool("ps_roi_align", maps, boxes, **kwargs), expected, rtol=0, atol=1e-12)


def test_roi_pool_is_the_largest_pixel_and_zero_where_there_is_none():
    maps, boxes = inputs(torch.float64, channels=2)
    expected = [max(pixels, default=0.0) for pixels in pixels_by_definition(maps, boxes, sensitive=False)]
    assert pool("roi_pool", maps, boxes).flatten().tolist() == expected


def test_ps_roi_pool_is_the_mean_of_pixels_from_a_channel_of_its_own():
    maps, boxes = inputs(torch.float64)
    bins = list(pixels_by_definition(maps, boxes, sensitive=True))
    expected = torch.tensor([sum(pixels) / max(len(pixels), 1) for pixels in bins], dtype=torch.float64)
    torch.testing.assert_close(pool("ps_roi_pool", maps, boxes).flatten(), expected, rtol=0, atol=1e-12)


def test_a_region_with_whole_pixels_and_one_sample_each_is_cut_out():
    maps, _ = inputs(channels=3)
    boxes = torch.tensor([[1.0, 2.0, 3.0, 7.0, 9.0]])
    cut = roi_align(maps, boxes, (6, 5), sampling_ratio=1, aligned=True)
    torch.testing.assert_close(cut, maps[1:2, :, 3:9, 2:7])


def test_boxes_may_be_given_picture_by_picture():
    maps, boxes = inputs()
    first, second = boxes[boxes[:, 0] == 0], boxes[boxes[:, 0] == 1]
    for name in POOLINGS:
        listed = pool(name, maps, [first[:, 1:], second[:, 1:]])
        assert torch.equal(listed, pool(name, maps, torch.cat([first, second])))
        assert pool(name, maps, [first[:0, 1:], second[:1, 1:]]).shape[0] == 1


def test_a_largest_pixel_that_is_no_number_shows():
    maps = torch.zeros(1, 1, 4, 4)
    maps[0, 0, 1, 2] = torch.nan
    pooled = ops.roi_pool(maps, torch.tensor([[0.0, 0, 0, 3, 3]]), 2)
    assert pooled.isnan().flatten().tolist() == [False, True, False, False]


def test_pixels_of_minus_infinity_are_chosen_inside_the_bin():
    maps = torch.full((1, 1, 4, 4), -torch.inf)
    pooled, chosen = torch.ops.flambeau_vision.roi_pool(maps, torch.tensor([[0.0, 2, 2, 3, 3]]), 1.0, 1, 1)
    assert (pooled.item(), chosen.item()) == (-torch.inf, 10)


def test_what_lies_outside_all_regions_does_not_matter():
    maps, _ = inputs()
    boxes = torch.tensor([[0.0, 8, 8, 24, 24]])
    spoiled = maps.clone()
    spoiled[1] = torch.nan
    spoiled[0, :, 9:], spoiled[0, :, :, 10:] = torch.nan, torch.inf
    for name in POOLINGS:
        assert torch.equal(pool(name, spoiled, boxes), pool(name, maps, boxes))


# --- implementations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POOLINGS)
def test_the_expected_tier_serves(name):
    module(name)
    expected = {"auto": "dispatcher", "dispatcher": "dispatcher", "ctypes": "ctypes", "off": "python"}[NATIVE]
    for operator in (name, f"_{name}_backward"):
        assert LIBRARY.operators[operator]["provider"] == expected, LIBRARY.reason


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_every_implementation_agrees_with_the_reference(name, kwargs, dtype, last):
    maps, boxes = inputs(dtype, last=last, count=40)
    forward, (before, after) = arguments(name, kwargs)
    ours = getattr(torch.ops.flambeau_vision, name)(maps, boxes, *forward)
    reference = module(name)._reference(maps, boxes, *forward)
    ours, reference = ((each,) if name == "roi_align" else each for each in (ours, reference))
    close = {"rtol": 0, "atol": TOLERANCE[dtype] * 4}
    torch.testing.assert_close(ours[0], reference[0], **close)
    assert ours[0].stride() == reference[0].stride()
    assert ours[0].is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    assert all(map(torch.equal, ours[1:], reference[1:]))

    grad = torch.randn(ours[0].shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    if last:
        grad = grad.contiguous(memory_format=torch.channels_last)
    call = (grad, boxes, *ours[1:], *before, *maps.shape, *after)
    flow = getattr(torch.ops.flambeau_vision, f"_{name}_backward")(*call)
    expected = module(name)._reference_backward(*call)
    torch.testing.assert_close(flow, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 10)
    assert flow.stride() == expected.stride()


@pytest.mark.skipif(NATIVE == "off", reason="torch's own sums, of which the reference is made, depend on threads")
@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_the_result_does_not_depend_on_the_number_of_threads(name, kwargs):
    before = torch.get_num_threads()
    results = []
    try:
        for last in (False, True):
            maps, boxes = inputs(channels=48, count=60, last=last)
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                leaf = maps.clone(memory_format=torch.preserve_format).requires_grad_()
                pooled = pool(name, leaf, boxes, **kwargs)
                results.append((last, pooled.detach(), *torch.autograd.grad(pooled.square().sum(), leaf)))
    finally:
        torch.set_num_threads(before)
    for last, pooled, grad in results:
        first = next(each for each in results if each[0] == last)
        assert torch.equal(pooled, first[1])
        assert torch.equal(grad, first[2])


@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_any_strides_will_do(name, kwargs):
    maps, boxes = inputs()
    padded, wide = torch.randn(2, 12, 22, 20), torch.randn(20, 9)
    padded[:, :, ::2, 3:17], wide[:, ::2] = maps, boxes
    expected = pool(name, maps, boxes, **kwargs)
    assert torch.equal(pool(name, padded[:, :, ::2, 3:17], wide[:, ::2], **kwargs), expected)
    leaf = maps.clone().requires_grad_()
    (grad,) = torch.autograd.grad(pool(name, leaf, boxes, **kwargs).sum(), leaf)  # of stride 0
    (same,) = torch.autograd.grad(pool(name, leaf, boxes, **kwargs), leaf, torch.ones_like(expected))
    assert torch.equal(grad, same)


@pytest.mark.parametrize("name", POOLINGS)
def test_no_regions_and_no_pixels_give_empty_results_and_zeros(name):
    maps, boxes = inputs()
    leaf = maps.requires_grad_()
    none = pool(name, leaf, boxes[:0])
    assert none.shape == (0, 2 if name.startswith("ps") else 12, *BINS)
    assert torch.autograd.grad(none.sum(), leaf)[0].count_nonzero() == 0
    flat = pool(name, torch.zeros(2, 12, 0, 5), boxes)
    assert flat.shape[0] == len(boxes)
    assert flat.count_nonzero() == 0
    assert pool(name, torch.zeros(2, 0, 5, 5), boxes).shape[:2] == (len(boxes), 0)


@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_hostile_regions_are_survived(name, kwargs):
    values = torch.tensor([0.0, -1.0, 30.0, torch.nan, torch.inf, -torch.inf, 3e38, -3e38, 1e-40])
    corners = torch.cartesian_prod(values, values, values, values)
    if NATIVE == "off":  # the reference lists samples: regions of a million pixels are not for it
        corners = corners[corners.abs().nan_to_num(0, 0, 0).amax(1) < 1e3]
    boxes = torch.cat([torch.zeros(len(corners), 1), corners], 1)[::3]
    maps, _ = inputs(channels=6)
    leaf = maps.requires_grad_()
    pooled = pool(name, leaf, boxes, **kwargs)
    assert pooled.abs().max() < 10 if name != "roi_align" else not pooled.isinf().any()
    (grad,) = torch.autograd.grad(pooled.nan_to_num().sum(), leaf)
    assert not grad.isinf().any()


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_the_gradient_is_that_of_the_function(name, kwargs):
    maps, boxes = inputs(torch.float64, channels=6, count=6)
    maps = maps[:, :, :7, :8].contiguous().requires_grad_()
    assert torch.autograd.gradcheck(lambda m: pool(name, m, boxes, **kwargs), maps, fast_mode=True)


@pytest.mark.parametrize("name", POOLINGS)
def test_there_is_no_second_derivative_and_it_says_so(name):
    maps, boxes = inputs()
    maps.requires_grad_()
    (grad,) = torch.autograd.grad(pool(name, maps, boxes).square().sum(), maps, create_graph=True)
    with pytest.raises(RuntimeError, match=rf"{name}: the second derivative is not defined; differentiate once"):
        grad.sum().backward()


@pytest.mark.parametrize("name", POOLINGS)
def test_boxes_have_no_gradient(name):
    maps, boxes = inputs()
    boxes.requires_grad_()
    pool(name, maps.requires_grad_(), boxes).sum().backward()
    assert boxes.grad is None


@pytest.mark.parametrize("name", POOLINGS)
def test_deterministic_mode_changes_nothing_on_the_cpu(name):
    maps, boxes = inputs()
    leaf = maps.requires_grad_()
    expected = torch.autograd.grad(pool(name, leaf, boxes).sum(), leaf)[0]
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(torch.autograd.grad(pool(name, leaf, boxes).sum(), leaf)[0], expected)
    finally:
        torch.use_deterministic_algorithms(False)


# --- errors -----------------------------------------------------------------------------------------------------------

MAPS, BOXES = inputs(count=3)


@pytest.mark.parametrize(
    ("maps", "boxes", "size", "error", "message"),
    [
        (MAPS, BOXES[:, :4], 3, ValueError, r": boxes has shape \(3, 4\), expected \(K, 5\): image, x1, y1, x2, y2;"),
        (MAPS, [BOXES], 3, ValueError, r": boxes\[0\] has shape \(3, 5\), expected \(L, 4\): corners"),
        (MAPS, [], 3, ValueError, r": boxes is an empty list"),
        (MAPS, BOXES, (1, 2, 3), ValueError, r": output_size is \(1, 2, 3\), expected one number or \(height, width\)"),
        (MAPS[0], BOXES, 3, RuntimeError, r": input has shape \(12, 11, 14\), expected \(N, C, H, W\)\."),
        (MAPS.int(), BOXES, 3, RuntimeError, r": input has dtype torch.int32, expected float32"),
        (
            MAPS,
            BOXES.double(),
            3,
            RuntimeError,
            r": boxes has dtype torch.float64, expected that of input, torch.float32",
        ),
        (MAPS, BOXES, 0, RuntimeError, r": output_size is \(0, 0\), expected at least \(1, 1\)\."),
        (MAPS, BOXES + 1, 2, RuntimeError, r": row \d of boxes names an image that is not there; input has 2\."),
        (MAPS, BOXES - 9, 2, RuntimeError, r": row 0 of boxes names an image that is not there; input has 2\."),
        (MAPS, BOXES * torch.nan, 2, RuntimeError, r": row 0 of boxes names an image that is not there; input has 2\."),
    ],
)
@pytest.mark.parametrize("name", POOLINGS)
def test_an_error_names_the_argument_and_its_value(name, maps, boxes, size, error, message):
    with pytest.raises(error, match=name + message):
        pool(name, maps, boxes, size)


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool"])
def test_channels_must_be_shared_out_evenly(name):
    with pytest.raises(RuntimeError, match=rf"{name}: input has 12 channels, expected a multiple of 5 x 1 bins\."):
        pool(name, MAPS, BOXES, (5, 1))


# --- torch's machinery ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kwargs"), EVERY)
def test_torch_finds_nothing_wrong_with_the_registration(name, kwargs):
    maps, boxes = inputs(count=4)
    forward, (before, after) = arguments(name, kwargs)
    operator = getattr(torch.ops.flambeau_vision, name).default
    for like in (maps, maps.contiguous(memory_format=torch.channels_last)):
        torch.library.opcheck(
            operator, (like.clone(memory_format=torch.preserve_format).requires_grad_(), boxes, *forward)
        )
    results = operator(maps, boxes, *forward)
    pooled, extra = (results, ()) if name == "roi_align" else (results[0], results[1:])
    gradient = getattr(torch.ops.flambeau_vision, f"_{name}_backward").default
    torch.library.opcheck(gradient, (pooled, boxes, *extra, *before, *maps.shape, *after))


SCHEMAS = {
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
}


@pytest.mark.parametrize("name", POOLINGS)
def test_the_operators_have_upstreams_names_and_arguments(name):
    module(name)
    assert str(getattr(torch.ops.flambeau_vision, name).default._schema) == f"flambeau_vision::{name}{SCHEMAS[name]}"


@pytest.mark.parametrize("name", POOLINGS)
def test_it_compiles_as_one_graph_with_any_sizes(name):
    def step(maps, boxes):
        pooled = pool(name, maps * 2, boxes)
        return pooled, torch.autograd.grad(pooled.sum(), maps)[0]

    compiled = torch.compile(lambda m, b: pool(name, m * 2, b) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for count, last in ((20, False), (6, False), (9, True)):
        maps, boxes = inputs(count=count, last=last)
        leaf = maps.requires_grad_()
        pooled = compiled(leaf, boxes)
        expected, grad = step(leaf, boxes)
        assert torch.equal(pooled, expected + 1)
        torch.testing.assert_close(torch.autograd.grad(pooled.sum(), leaf)[0], grad)


@pytest.mark.parametrize("name", POOLINGS)
def test_it_exports_with_any_number_of_regions(name):
    class Pool(torch.nn.Module):
        def forward(self, maps, boxes):
            return pool(name, maps, boxes)

    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(Pool(), inputs(count=5), dynamic_shapes=(None, {0: rows}))
    maps, boxes = inputs(count=30)
    assert torch.equal(program.module()(maps, boxes), pool(name, maps, boxes))


@pytest.mark.parametrize("name", POOLINGS)
def test_autocast_computes_in_float32_and_gives_the_maps_dtype(name):
    maps, boxes = inputs()
    maps = maps.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        pooled = pool(name, maps, boxes)
    assert pooled.dtype == torch.bfloat16
    assert torch.equal(pooled, pool(name, maps.float(), boxes).bfloat16())
    pooled.sum().backward()
    assert maps.grad.dtype == torch.bfloat16


def test_modules_do_what_the_functions_do():
    maps, boxes = inputs()
    for layer, expected in (
        (ops.RoIAlign(BINS, SCALE, 2, aligned=True), pool("roi_align", maps, boxes, sampling_ratio=2, aligned=True)),
        (ops.RoIPool(BINS, SCALE), pool("roi_pool", maps, boxes)),
        (ops.PSRoIAlign(BINS, SCALE, 2), pool("ps_roi_align", maps, boxes, sampling_ratio=2)),
        (ops.PSRoIPool(BINS, SCALE), pool("ps_roi_pool", maps, boxes)),
    ):
        assert torch.equal(layer(maps, boxes), expected)
        assert f"{type(layer).__name__}(output_size=(3, 2), spatial_scale=0.25" in repr(layer)


@pytest.mark.parametrize("name", ["roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"])
def test_maps_without_channels_have_a_gradient_too(name):
    maps = torch.zeros(2, 0, 8, 8, requires_grad=True)
    result = getattr(ops, name)(maps, torch.tensor([[0.0, 1.0, 1.0, 5.0, 5.0]]), 2)
    assert torch.autograd.grad(result.sum(), maps)[0].shape == maps.shape


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
def test_roi_align_of_quantized_maps_is_quantized_as_they_are():
    maps, boxes = torch.arange(128.0).reshape(1, 2, 8, 8), torch.tensor([[0.0, 1.0, 1.0, 5.0, 6.0]])
    expected = ops.roi_align(maps, boxes, 3)
    maps = torch.quantize_per_tensor(maps, 0.5, 3, torch.quint8)
    result = ops.roi_align(maps, torch.quantize_per_tensor(boxes, 0.5, 0, torch.quint8), 3)
    assert (result.dtype, result.q_scale(), result.q_zero_point()) == (torch.quint8, 0.5, 3)
    torch.testing.assert_close(result.dequantize(), expected, rtol=0, atol=0.5)
    with pytest.raises(ValueError, match="one of input and boxes is quantized, expected both or none"):
        ops.roi_align(maps, boxes, 3)


@pytest.mark.parametrize("boxes", ["boxes", [5], None])
def test_boxes_of_another_type_are_refused(boxes):
    with pytest.raises(TypeError, match=r"roi_align: boxes is .*, expected a tensor \(K, 5\)"):
        ops.roi_align(torch.zeros(1, 1, 4, 4), boxes, 2)


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        (ops.RoIAlign(2, 1.0, 2), (torch.ones(1, 4, 8, 8), torch.tensor([[0.0, 1, 1, 5, 6]]))),
        (ops.RoIPool(2, 1.0), (torch.ones(1, 4, 8, 8), torch.tensor([[0.0, 1, 1, 5, 6]]))),
        (ops.PSRoIAlign(2, 1.0, 2), (torch.ones(1, 4, 8, 8), torch.tensor([[0.0, 1, 1, 5, 6]]))),
        (ops.PSRoIPool(2, 1.0), (torch.ones(1, 4, 8, 8), torch.tensor([[0.0, 1, 1, 5, 6]]))),
        (
            ops.MultiScaleRoIAlign(["a"], 2, 2),
            ({"a": torch.ones(1, 4, 8, 8)}, [torch.tensor([[1.0, 1, 5, 6]])], [(16, 16)]),
        ),
        (ops.DropBlock2d(0.5, 3).eval(), (torch.ones(1, 4, 8, 8),)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_of_regions_can_be_traced(layer, arguments):
    torch.testing.assert_close(torch.fx.symbolic_trace(layer)(*arguments), layer(*arguments))
