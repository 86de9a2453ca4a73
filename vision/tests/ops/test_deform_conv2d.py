"""What `deform_conv2d` does. `test_tiers.py` runs this file again with every kind of implementation."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
import torch

from flambeau.vision.ops import DeformConv2d, deform_conv2d
from flambeau.vision.ops._library import LIBRARY

NATIVE = os.environ.get("FLAMBEAU_NATIVE", "auto")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12, torch.float16: 5e-2, torch.bfloat16: 3e-1}
# Channels in, groups, offset groups, channels out.
GROUPS = [(6, 1, 1, 4), (6, 2, 3, 4), (36, 2, 1, 8), (12, 3, 2, 6)]
STRIDE, PADDING, DILATION = (2, 1), (1, 0), (1, 2)

reference = import_module("flambeau.vision.ops.deform_conv2d")


def inputs(groups=GROUPS[1], *, dtype=torch.float32, masked=True, images=2, size=(9, 10), last=False, seed=0):
    """Picture, offset, weight, bias, mask for a kernel of 3 x 2."""
    generator = torch.Generator().manual_seed(seed)
    channels, parts, offset_parts, outputs = groups
    out = (size[0] + 2 - 2 - 1) // 2 + 1, size[1] - 2 - 1 + 1

    def normal(*shape, scale=1.0):
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)

    picture = normal(images, channels, *size)
    if last:
        picture = picture.contiguous(memory_format=torch.channels_last)
    offset = normal(images, 2 * offset_parts * 6, *out, scale=2.0)
    mask = normal(images, offset_parts * 6, *out) if masked else None
    return picture, offset, normal(outputs, channels // parts, 3, 2), normal(outputs), mask


def convolve(picture, offset, weight, bias, mask):
    return deform_conv2d(picture, offset, weight, bias, STRIDE, PADDING, DILATION, mask)


def arguments(picture, offset, weight, bias, mask):
    """As the operator takes them."""
    masked = mask is not None
    mask = mask if masked else picture.new_zeros(len(picture), 1)
    groups = picture.shape[1] // weight.shape[1]
    return picture, weight, offset, mask, bias, *STRIDE, *PADDING, *DILATION, groups, offset.shape[1] // 12, masked


def by_definition(picture, offset, weight, bias, mask):
    """One number at a time, in float64."""
    images, channels, height, width = picture.shape
    outputs, in_group, kh, kw = weight.shape
    parts = offset.shape[1] // (2 * kh * kw)
    result = torch.zeros(images, outputs, *offset.shape[2:], dtype=torch.float64)

    def pixel(n, c, y, x):
        return picture[n, c, y, x].item() if 0 <= y < height and 0 <= x < width else 0.0

    def sample(n, c, y, x):
        top, left = int(y // 1), int(x // 1)
        down, right = y - top, x - left
        upper = pixel(n, c, top, left) * (1 - right) + pixel(n, c, top, left + 1) * right
        lower = pixel(n, c, top + 1, left) * (1 - right) + pixel(n, c, top + 1, left + 1) * right
        return upper * (1 - down) + lower * down

    for n, o, i, j in torch.cartesian_prod(*map(torch.arange, result.shape)).tolist():
        total = bias[o].item()
        for within, a, b in torch.cartesian_prod(*map(torch.arange, weight.shape[1:])).tolist():
            c = o // (outputs * in_group // channels) * in_group + within
            plane = c // (channels // parts) * kh * kw + a * kw + b
            y = i * STRIDE[0] - PADDING[0] + a * DILATION[0] + offset[n, 2 * plane, i, j].item()
            x = j * STRIDE[1] - PADDING[1] + b * DILATION[1] + offset[n, 2 * plane + 1, i, j].item()
            factor = 1.0 if mask is None else mask[n, plane, i, j].item()
            total += weight[o, within, a, b].item() * factor * sample(n, c, y, x)
        result[n, o, i, j] = total
    return result


# --- what is computed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", [GROUPS[0], GROUPS[1]], ids=str)
def test_each_tap_reads_where_its_offset_says(groups, masked):
    tensors = inputs(groups, dtype=torch.float64, masked=masked, images=1, size=(5, 6))
    torch.testing.assert_close(convolve(*tensors), by_definition(*tensors), rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [(4, 1, 1, 6), (4, 2, 4, 6)], ids=str)
def test_without_offsets_it_is_a_convolution(groups):
    picture, offset, weight, bias, _ = inputs(groups)
    expected = torch.conv2d(picture, weight, bias, STRIDE, PADDING, DILATION, groups[1])
    torch.testing.assert_close(convolve(picture, offset * 0, weight, bias, None), expected, rtol=1e-4, atol=1e-5)
    whole = convolve(picture, offset * 0, weight, bias, torch.ones(2, groups[2] * 6, *expected.shape[2:]))
    torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-5)


def test_what_is_not_read_does_not_matter():
    picture, offset, weight, bias, mask = inputs()
    beyond = offset + 1000.0
    beyond[:, ::4] = torch.nan
    spoiled = torch.full_like(picture, torch.nan)
    assert torch.equal(convolve(spoiled, beyond, weight, bias, mask), convolve(picture, beyond, weight, bias, mask))


# --- implementations --------------------------------------------------------------------------------------------------


def test_the_expected_tier_serves():
    # Sampling is called by ctypes in every tier that has a library; the products are torch's.
    expected = "python" if NATIVE == "off" else "ctypes"
    for operator in ("deform_conv2d", "_deform_conv2d_backward"):
        assert LIBRARY.operators[operator]["provider"] == expected, LIBRARY.reason


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_every_implementation_agrees_with_the_reference(groups, masked, dtype, last):
    call = arguments(*inputs(groups, dtype=dtype, masked=masked, last=last))
    ours, expected = torch.ops.flambeau_vision.deform_conv2d(*call), reference._reference(*call)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(ours, expected, **close)
    assert ours.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    grad = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    flows = torch.ops.flambeau_vision._deform_conv2d_backward(grad, *call)
    for flow, wanted, value in zip(flows, reference._reference_backward(grad, *call), call, strict=False):
        torch.testing.assert_close(flow, wanted, **close)
        assert flow.stride() == wanted.stride()
        assert (flow.shape, flow.dtype) == (value.shape, value.dtype)


def test_gradients_hardly_depend_on_the_number_of_threads():
    # Sampling does not at all; torch's products may.
    tensors = inputs((48, 2, 3, 8), size=(30, 40))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            offset, mask = (each.clone().requires_grad_() for each in (tensors[1], tensors[4]))
            leaf = tensors[0].clone().requires_grad_()
            result = convolve(leaf, offset, *tensors[2:4], mask)
            results.append(torch.autograd.grad(result.sum(), (leaf, offset, mask)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_any_strides_will_do():
    picture, offset, weight, bias, mask = inputs()
    padded = torch.randn(2, 6, 18, 13)
    padded[:, :, ::2, 2:12] = picture
    offset_too, weight_too = (each.transpose(1, 3).contiguous().transpose(1, 3) for each in (offset, weight))
    ours = convolve(padded[:, :, ::2, 2:12], offset_too, weight_too, bias, mask)
    torch.testing.assert_close(ours, convolve(picture, offset, weight, bias, mask), rtol=0, atol=1e-5)


def test_no_pictures_give_no_results_and_gradients_of_zero():
    picture, offset, weight, bias, mask = (each.requires_grad_() for each in inputs(images=0))
    result = convolve(picture, offset, weight, bias, mask)
    assert result.shape == (0, 4, 5, 8)
    assert all(not grad.count_nonzero() for grad in torch.autograd.grad(result.sum(), (picture, weight, bias)))


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", [(4, 1, 1, 2), (4, 2, 4, 2)], ids=str)
def test_gradients_are_those_of_the_function(groups, masked):
    tensors = inputs(groups, dtype=torch.float64, masked=masked, images=1, size=(5, 6))
    leaves = [each.requires_grad_() for each in tensors if each is not None]
    assert torch.autograd.gradcheck(lambda *each: convolve(*each, *(() if masked else (None,))), leaves, fast_mode=True)


def test_there_is_no_second_derivative_and_it_says_so():
    picture, *others = inputs()
    picture.requires_grad_()
    (grad,) = torch.autograd.grad(convolve(picture, *others).square().sum(), picture, create_graph=True)
    with pytest.raises(RuntimeError, match="deform_conv2d: the second derivative is not defined"):
        grad.sum().backward()


# --- errors -----------------------------------------------------------------------------------------------------------

PICTURE, OFFSET, WEIGHT, BIAS, MASK = inputs()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: PICTURE[0]}, r"input has shape \(6, 9, 10\), expected 4 dimensions"),
        ({0: PICTURE.int()}, r"input has dtype torch.int32, expected float32"),
        ({0: PICTURE[:, :, :1, :2]}, r"the result would be 1 x 0; enlarge input"),
        ({1: OFFSET[:, :11]}, r"offset has 11 channels, expected a multiple of 2 \* kh \* kw = 12"),
        ({1: OFFSET[:, :24]}, r"mask has shape \(2, 18, 5, 8\), expected \(2, 12, 5, 8\)"),
        ({1: OFFSET[:, :, 1:]}, r"offset has shape \(2, 36, 4, 8\), expected \(2, 36, 5, 8\)"),
        ({1: OFFSET.double()}, r"offset has dtype torch.float64, expected that of input, torch.float32"),
        ({2: WEIGHT[:3]}, r"weight has shape \(3, 3, 3, 2\), expected \(2, 3, 3, 2\)"),
        ({3: BIAS[:3]}, r"bias has shape \(3,\), expected \(4,\)"),
        ({4: MASK[:1]}, r"mask has shape \(1, 18, 5, 8\), expected \(2, 18, 5, 8\)"),
    ],
)
def test_an_error_names_the_argument_and_its_value(changes, message):
    tensors = [changes.get(place, value) for place, value in enumerate((PICTURE, OFFSET, WEIGHT, BIAS, MASK))]
    with pytest.raises(RuntimeError, match=f"deform_conv2d: {message}"):
        convolve(*tensors)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"stride": 0}, r"stride is \(0, 0\), expected at least \(1, 1\)"),
        ({"dilation": (1, -1)}, r"dilation is \(1, -1\), expected at least \(1, 1\)"),
        ({"padding": -1}, r"padding is \(-1, -1\), expected at least \(0, 0\)"),
    ],
)
def test_an_error_names_the_number(kwargs, message):
    with pytest.raises(RuntimeError, match=f"deform_conv2d: {message}"):
        deform_conv2d(PICTURE, OFFSET, WEIGHT, **kwargs)


# --- torch's machinery ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_torch_finds_nothing_wrong_with_the_registration(masked):
    call = arguments(*inputs(masked=masked, last=masked))
    call = (*(each.requires_grad_() for each in call[:5]), *call[5:])
    torch.library.opcheck(torch.ops.flambeau_vision.deform_conv2d.default, call)
    call = (*(each.detach() for each in call[:5]), *call[5:])
    grad = torch.ops.flambeau_vision.deform_conv2d(*call)
    torch.library.opcheck(torch.ops.flambeau_vision._deform_conv2d_backward.default, (grad, *call))


def test_the_operator_has_upstreams_name_and_arguments():
    assert str(torch.ops.flambeau_vision.deform_conv2d.default._schema) == (
        "flambeau_vision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
        "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
        "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
    )


def test_it_compiles_as_one_graph_with_any_sizes():
    compiled = torch.compile(lambda *each: convolve(*each) * 2, fullgraph=True, dynamic=True, backend="aot_eager")
    for images, size in ((2, (9, 10)), (3, (12, 9))):
        tensors = [each.requires_grad_() for each in inputs(images=images, size=size)]
        expected = convolve(*tensors) * 2
        result = compiled(*tensors)
        torch.testing.assert_close(result, expected)
        grads = torch.autograd.grad(result.sum(), tensors)
        for grad, wanted in zip(grads, torch.autograd.grad(expected.sum(), tensors), strict=True):
            torch.testing.assert_close(grad, wanted)


def test_it_exports_with_any_number_of_pictures():
    layer = DeformConv2d(6, 4, (3, 2), STRIDE, PADDING, DILATION, groups=2).eval()
    images = torch.export.Dim("images", min=2)
    picture, offset, _, _, mask = inputs()
    dynamic = ({0: images}, {0: images}, {0: images})
    program = torch.export.export(layer, (picture, offset, mask), dynamic_shapes=dynamic)
    picture, offset, _, _, mask = inputs(images=5)
    torch.testing.assert_close(program.module()(picture, offset, mask), layer(picture, offset, mask))


def test_autocast_computes_in_float32():
    tensors = inputs()
    with torch.autocast("cpu", torch.bfloat16):
        result = convolve(tensors[0].bfloat16(), *tensors[1:])
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result, convolve(tensors[0].bfloat16().float(), *tensors[1:]).bfloat16())


# --- the layer --------------------------------------------------------------------------------------------------------


def test_the_layer_holds_weight_and_bias_as_a_convolution_does():
    layer = DeformConv2d(6, 4, (3, 2), groups=2)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {
        "weight": (4, 3, 3, 2),
        "bias": (4,),
    }
    torch.manual_seed(0)
    layer.reset_parameters()
    torch.manual_seed(0)
    alike = torch.nn.Conv2d(6, 4, (3, 2), groups=2)
    assert torch.equal(layer.weight, alike.weight)
    assert torch.equal(layer.bias, alike.bias)
    assert DeformConv2d(2, 2, 1, bias=False).bias is None
    assert repr(layer) == "DeformConv2d(6, 4, kernel_size=(3, 2), stride=(1, 1), groups=2)"


def test_the_layer_refuses_channels_that_groups_do_not_divide():
    with pytest.raises(ValueError, match="DeformConv2d: in_channels is 5, expected a multiple of groups, 2"):
        DeformConv2d(5, 4, 3, groups=2)
    with pytest.raises(ValueError, match="DeformConv2d: out_channels is 3, expected a multiple of groups, 2"):
        DeformConv2d(4, 3, 3, groups=2)
