"""Operators and layers beside torchvision's: dtypes, layouts in memory, nothing at all, gradients, wrong arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import programs

from flambeau.core.testing import fill
from flambeau.core.testing.differential import Recorder, Suite, cross

pytest.importorskip("torchvision.ops")


def describe(value: Any, recorder: Recorder, where: str) -> Any:
    """Records of quantized tensors: how they are quantized, and their integers."""
    if isinstance(value, torch.Tensor) and value.is_quantized:
        return {
            "dtype": str(value.dtype),
            "scheme": str(value.qscheme()),
            "scale": value.q_scale(),
            "zero_point": value.q_zero_point(),
            "integers": recorder.tensor(value.int_repr(), where),
        }
    return NotImplemented


SUITE = Suite(
    "operators",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe],
    rtol=1e-4,
    atol=1e-5,
)

NAMES: dict[str, Any] = {"torch": torch, "nn": torch.nn}


def values(*shape: int, scale: float = 1.0) -> str:
    """Program text for floating-point values of either sign, without any pattern."""
    return f"(torch.randn({shape}, generator=torch.Generator().manual_seed(0)) * {scale})"


def grad(*wanted: str) -> str:
    """Program text for the gradients of the sum of squares of `y`, which distinguishes all its elements."""
    return f"y, torch.autograd.grad((y * y).sum(), [{', '.join(wanted)}])"


# --- regions of feature maps ---------------------------------------------------------------------------------------

_MAP = values(2, 8, 9, 11)
_ROIS = (
    "torch.tensor([[0, 0.5, 1.0, 7.2, 6.9], [1, 2.0, 2.0, 2.0, 2.0], [1, -3.0, -2.0, 30.0, 20.0], "
    "[0, 9.0, 8.0, 4.0, 3.0], [0, 1.5, 2.5, 3.5, 4.5]])"
)


def maps(of: str, dtype: str = "float32") -> dict[str, str]:
    return {"x": f"{of}.to(torch.{dtype})", "rois": f"{_ROIS}.to(torch.{dtype})"}


# No NaN and no picture that is not there: torchvision ends the process over both.
MAPS: dict[str, dict[str, str]] = {
    "float32": maps(_MAP),
    "float64": maps(_MAP, "float64"),
    "float16": maps(_MAP, "float16"),
    "bfloat16": maps(_MAP, "bfloat16"),
    "int32": maps(f"({_MAP} * 9)", "int32"),
    "channels-last": {**maps(_MAP), "x": f"{_MAP}.contiguous(memory_format=torch.channels_last)"},
    "strided": {**maps(_MAP), "x": f"{values(2, 16, 18, 22)}[:, ::2, ::2, ::2]"},
    "expanded": {**maps(_MAP), "x": f"{values(1, 8, 9, 11)}.expand(2, -1, -1, -1)"},
    "strided-rois": {**maps(_MAP), "rois": f"{_ROIS}.repeat_interleave(2, 1)[:, ::2]"},
    "no-rois": {**maps(_MAP), "rois": "torch.zeros(0, 5)"},
    "no-channels": {**maps(_MAP), "x": "torch.zeros(2, 0, 9, 11)"},
    "other-dtypes": {**maps(_MAP), "rois": f"{_ROIS}.double()"},
    "lists": {**maps(_MAP), "rois": f"[{_ROIS}[:3, 1:], {_ROIS}[3:, 1:]]"},
    "tuples": {**maps(_MAP), "rois": f"({_ROIS}[:0, 1:], {_ROIS}[3:, 1:])"},
}
POOLING = programs("""
    ops.roi_align(x, rois, (3, 2))
    ops.roi_align(x, rois, 4, 0.5, 2, True)
    ops.roi_align(x, rois, [2, 3], spatial_scale=0.5, sampling_ratio=1, aligned=False)
    ops.RoIAlign((2, 4), 0.5, -1, aligned=True)(x, rois)
    ops.roi_pool(x, rois, (3, 2))
    ops.roi_pool(x, rois, 2, 0.5)
    ops.RoIPool(3, 0.7)(x, rois)
    ops.ps_roi_align(x, rois, 2)
    ops.ps_roi_align(x, rois, (2, 2), 0.5, 2)
    ops.PSRoIAlign(2, 0.5, 1)(x, rois)
    ops.ps_roi_pool(x, rois, 2)
    ops.ps_roi_pool(x, rois, (4, 2), 0.5)
    ops.PSRoIPool(2, 0.5)(x, rois)
""")
POOLING_GRADIENTS = [
    f"x.requires_grad_(); y = {call}; {grad('x')}"
    for call in programs("""
        ops.roi_align(x, rois, (3, 2))
        ops.roi_align(x, rois, 4, 0.5, 2, True)
        ops.roi_pool(x, rois, (3, 2), 0.5)
        ops.ps_roi_align(x, rois, 2, 0.5, 2)
        ops.ps_roi_pool(x, rois, 2, 0.5)
    """)
]
WRONG_REGIONS = programs("""
    ops.roi_align(x, rois[:, :4], 2)
    ops.roi_align(x, [rois], 2)
    ops.roi_align(x, "rois", 2)
    ops.roi_align(x[0], rois, 2)
    ops.roi_align(x, rois, (1, 2, 3))
    ops.roi_align(x, rois, 0)
    ops.roi_align(x, rois, 2.5)
    ops.roi_align(x, rois, -1)
    ops.roi_pool(x, rois[0], 2)
    ops.roi_pool(x[0], rois, 2)
    ops.ps_roi_align(x, rois, 3)
    ops.ps_roi_align(x, rois[:, 1:], 2)
    ops.ps_roi_pool(x, rois, 3)
    ops.roi_align(x.tolist(), rois, 2)
""")
_QUANTIZED = "torch.quantize_per_tensor({}, 0.5, 10, torch.{})"
_FIRST = f"({_ROIS} * torch.tensor([0, 1, 1, 1, 1]))"  # torchvision takes one quantized picture only
QUANTIZED: dict[str, dict[str, str]] = {
    dtype: {
        "x": _QUANTIZED.format(f"{values(1, 8, 9, 11)} * 9", dtype),
        "rois": _QUANTIZED.format(_FIRST, dtype),
        "boxes": _QUANTIZED.format("torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3], [6, 6, 8, 8]])", dtype),
        "scores": "torch.tensor([0.5, 0.9, 0.3])",
        "coded": _QUANTIZED.format("torch.tensor([0.5, 2.5, 1.0])", dtype),
    }
    for dtype in ("quint8", "qint8", "qint32")
}
ON_QUANTIZED = programs("""
    ops.roi_align(x, rois, 3)
    ops.roi_align(x, rois, 2, 0.5, 2, True)
    ops.roi_align(x, rois.dequantize(), 3)
    ops.roi_align(x, [rois.dequantize()[:, 1:]], 3)
    ops.roi_align(x.dequantize(), rois, 3)
    ops.roi_pool(x, rois, 3)
    ops.nms(boxes, coded, 0.5)
    ops.nms(boxes, scores, 0.5)
    ops.nms(boxes.dequantize(), coded, 0.5)
    ops.batched_nms(boxes, coded, torch.tensor([0, 0, 1]), 0.5)
    ops.box_iou(boxes, boxes)
    ops.box_area(boxes)
    ops.remove_small_boxes(boxes, 1.0)
""")

# --- deformable convolution ----------------------------------------------------------------------------------------

_DEFORMED = {
    "x": values(2, 4, 6, 7),
    "offset": values(2, 18, 4, 5, scale=1.5),
    "weight": values(6, 2, 3, 3),
    "bias": values(6),
    "mask": f"{values(2, 9, 4, 5)}.sigmoid()",
}


def deformed(**other: str) -> dict[str, str]:
    return {**_DEFORMED, **other}


DEFORMED: dict[str, dict[str, str]] = {
    "float32": deformed(),
    "float64": {name: f"{text}.double()" for name, text in _DEFORMED.items()},
    "float16": {name: f"{text}.half()" for name, text in _DEFORMED.items()},
    "channels-last": deformed(x=f"{_DEFORMED['x']}.contiguous(memory_format=torch.channels_last)"),
    "strided": deformed(x=f"{values(2, 8, 12, 14)}[:, ::2, ::2, ::2]", offset=f"{values(2, 36, 4, 5)}[:, ::2]"),
    "none": deformed(x="torch.zeros(0, 4, 6, 7)", offset="torch.zeros(0, 18, 4, 5)", mask="torch.zeros(0, 9, 4, 5)"),
    "two-groups-of-offsets": deformed(offset=values(2, 36, 4, 5), mask=values(2, 18, 4, 5)),
    "other-dtypes": deformed(offset=f"{_DEFORMED['offset']}.double()"),
}
DEFORMING = [
    *programs("""
        ops.deform_conv2d(x, offset, weight)
        ops.deform_conv2d(x, offset, weight, bias, mask=mask)
        ops.deform_conv2d(x, offset, weight, bias, stride=1, padding=0, dilation=1)
        ops.deform_conv2d(x, offset, weight, padding=(1, 1))
        ops.deform_conv2d(x, offset, weight, stride=(2, 1))
        ops.deform_conv2d(x, offset[:, :4], weight)
        ops.deform_conv2d(x, offset, weight, bias[:2])
        ops.deform_conv2d(x, offset, weight, mask=mask[:, :3])
        ops.deform_conv2d(x[0], offset, weight)
        ops.deform_conv2d(x, offset, weight[:, :1])
        m = ops.DeformConv2d(4, 6, 3, groups=2); m.weight.data[:] = weight; m.bias.data[:] = bias; m(x, offset, mask)
        ops.DeformConv2d(4, 6, 3, groups=3)
        str(ops.DeformConv2d(4, 6, (3, 1), stride=2, padding=1, dilation=2, groups=2, bias=False))
    """),
    "[t.requires_grad_() for t in (x, offset, weight, bias, mask)]; "
    f"y = ops.deform_conv2d(x, offset, weight, bias, mask=mask); {grad('x', 'offset', 'weight', 'bias', 'mask')}",
    f"[t.requires_grad_() for t in (x, offset)]; y = ops.deform_conv2d(x, offset, weight); {grad('x', 'offset')}",
]

# --- boxes ---------------------------------------------------------------------------------------------------------

_BOXES = "torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [6.5, 6.0, 8.0, 8.25], [2.0, 1.0, 2.0, 5.0]])"
_OTHERS = "torch.tensor([[1.0, 1.0, 5.0, 4.0], [-2.0, 0.0, 9.0, 9.0], [6.0, 6.0, 8.0, 8.0], [3.0, 1.0, 3.5, 7.0]])"
_SCORES = "torch.tensor([0.5, 0.9, 0.5, 0.25])"


def boxes(change: str = "") -> dict[str, str]:
    return {"a": f"{_BOXES}{change}", "b": f"{_OTHERS}{change}", "scores": f"{_SCORES}{change}"}


BOXES: dict[str, dict[str, str]] = {
    "float32": boxes(),
    "float64": boxes(".double()"),
    "float16": boxes(".half()"),
    "bfloat16": boxes(".bfloat16()"),
    "int64": boxes(".long()"),
    "int32": boxes(".int()"),
    "int16": boxes(".short()"),
    "uint8": {**boxes(".byte()"), "b": f"{_OTHERS}.abs().byte()"},
    "strided": boxes(".repeat_interleave(2, -1)[..., ::2]"),
    "none": {"a": "torch.zeros(0, 4)", "b": "torch.zeros(0, 4)", "scores": "torch.zeros(0)"},
    "one-none": {"a": _BOXES, "b": "torch.zeros(0, 4)", "scores": _SCORES},
    "nan": {**boxes(), "a": f"{_BOXES} * torch.tensor([1, 1, torch.nan, 1])"},
    "other-dtypes": {**boxes(), "b": f"{_OTHERS}.double()", "scores": f"{_SCORES}.double()"},
    "flat": {"a": f"{_BOXES}[0]", "b": f"{_OTHERS}[0]", "scores": f"{_SCORES}[0]"},
    "batches": {
        "a": f"{_BOXES}.expand(2, 4, 4)",
        "b": f"{_OTHERS}.repeat(2, 1, 1)",
        "scores": f"{_SCORES}.expand(2, 4)",
    },
    "three-columns": {"a": f"{_BOXES}[:, :3]", "b": f"{_OTHERS}[:, :3]", "scores": _SCORES},
    "rotated": {
        "a": f"torch.cat([{_BOXES}, {_SCORES}[:, None] * 60], 1)",
        "b": f"torch.cat([{_OTHERS}, {_SCORES}[:, None] * -90], 1)",
        "scores": _SCORES,
    },
    "corners": {"a": f"{_BOXES}.repeat(1, 2)", "b": f"{_OTHERS}.repeat(1, 2)", "scores": _SCORES},
}
ON_BOXES = programs("""
    ops.nms(a, scores, 0.5)
    ops.nms(a, scores, 0.75)
    ops.batched_nms(a, scores, torch.tensor([0, 1, 0, 1]), 0.5)
    ops.batched_nms(a, scores, torch.zeros(len(a)), 0.5)
    ops.box_area(a)
    ops.box_area(a, fmt="xywh")
    ops.box_area(a, fmt="cxcywh")
    ops.box_area(a, fmt="xywhr")
    ops.box_iou(a, b)
    ops.box_iou(a, b, fmt="cxcywh")
    ops.box_iou(a, b, fmt="xywhr")
    ops.generalized_box_iou(a, b)
    ops.distance_box_iou(a, b)
    ops.complete_box_iou(a, b)
    ops.complete_box_iou(a, b, eps=0.1)
    ops.clip_boxes_to_image(a, (5, 3))
    ops.clip_boxes_to_image(a, (5, 3)).data_ptr() == a.data_ptr()
    ops.remove_small_boxes(a, 1.0)
    ops.remove_small_boxes(a, 100)
    ops.generalized_box_iou_loss(a, b)
    ops.distance_box_iou_loss(a, b, reduction="mean")
    ops.complete_box_iou_loss(a, b, reduction="sum")
    ops.complete_box_iou_loss(a, b, reduction="median")
    ops.generalized_box_iou_loss(a, b, eps=0.1)
""")
FORMATS = ("xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy", "yxyx")
CONVERSIONS = [f"ops.box_convert(a, {one!r}, {other!r})" for one in FORMATS for other in FORMATS]
BOX_GRADIENTS = [
    f"a.requires_grad_(); b.requires_grad_(); y = {call}; {grad('a', 'b')}"
    for call in programs("""
        ops.box_iou(a, b)
        ops.generalized_box_iou(a, b)
        ops.distance_box_iou(a, b)
        ops.complete_box_iou(a, b)
        ops.generalized_box_iou_loss(a, b)
        ops.distance_box_iou_loss(a, b, "mean")
        ops.complete_box_iou_loss(a, b, "sum")
    """)
]
MASKS: dict[str, dict[str, str]] = {
    "bool": {"m": "torch.eye(7)[None, :6].roll(2, 2) * torch.tensor([1, 0, 1])[:, None, None] > 0"},
    "uint8": {"m": "torch.ones(2, 6, 7, dtype=torch.uint8)"},
    "float": {"m": "torch.eye(5)[None] * 0.25"},
    "none": {"m": "torch.zeros(0, 6, 7)"},
    "flat": {"m": "torch.ones(6, 7)"},
    "strided": {"m": "torch.eye(8)[None, ::2, 1::2] + torch.eye(4)"},
}

# --- losses and layers ---------------------------------------------------------------------------------------------

FLOATS: dict[str, dict[str, str]] = {
    "float32": {"x": values(2, 4, 6, 7), "t": f"({values(2, 4, 6, 7)}.sin() > 0).float()"},
    "float64": {"x": f"{values(2, 4, 6, 7)}.double()", "t": f"({values(2, 4, 6, 7)}.sin() > 0).double()"},
    "float16": {"x": f"{values(2, 4, 6, 7)}.half()", "t": f"({values(2, 4, 6, 7)}.sin() > 0).half()"},
    "bfloat16": {"x": f"{values(2, 4, 6, 7)}.bfloat16()", "t": f"({values(2, 4, 6, 7)}.sin() > 0).bfloat16()"},
    "channels-last": {
        "x": f"{values(2, 4, 6, 7)}.contiguous(memory_format=torch.channels_last)",
        "t": "torch.ones(2, 4, 6, 7)",
    },
    "strided": {"x": f"{values(2, 4, 12, 14)}[..., ::2, ::2]", "t": "torch.zeros(2, 4, 6, 7)"},
    "none": {"x": "torch.zeros(0, 4, 6, 7)", "t": "torch.zeros(0, 4, 6, 7)"},
    "three-dimensional": {"x": values(2, 4, 3, 6, 7), "t": "torch.ones(2, 4, 3, 6, 7)"},
    "rows": {"x": values(5, 4), "t": "torch.ones(5, 4)"},
    "int64": {"x": "torch.arange(24).reshape(1, 4, 2, 3)", "t": "torch.ones(1, 4, 2, 3)"},
}
ON_FLOATS = [
    *programs("""
        ops.sigmoid_focal_loss(x, t)
        ops.sigmoid_focal_loss(x, t, alpha=-1, gamma=0, reduction="mean")
        ops.sigmoid_focal_loss(x, t, alpha=0.7, gamma=1.5, reduction="sum")
        ops.sigmoid_focal_loss(x, t, alpha=1.5)
        ops.sigmoid_focal_loss(x, t, reduction="median")
        ops.stochastic_depth(x, 0.5, "row")
        ops.stochastic_depth(x, 0.5, "batch")
        ops.stochastic_depth(x, 1.0, "row")
        ops.stochastic_depth(x, 0.0, "batch") is x
        ops.stochastic_depth(x, 0.5, "row", training=False) is x
        ops.stochastic_depth(x, 1.5, "row")
        ops.stochastic_depth(x, 0.5, "column")
        ops.StochasticDepth(0.3, "row")(x)
        ops.StochasticDepth(0.3, "row").eval()(x)
        str(ops.StochasticDepth(0.3, "row"))
        ops.drop_block2d(x, 0.3, 3)
        ops.drop_block2d(x, 0.3, 4)
        ops.drop_block2d(x, 0.3, 99)
        ops.drop_block2d(x, 0.3, 3, inplace=True); x
        ops.drop_block2d(x, 0.3, 3, training=False) is x
        ops.drop_block2d(x, 0.0, 3) is x
        ops.drop_block2d(x, -0.1, 3)
        ops.drop_block3d(x, 0.3, 3)
        ops.drop_block3d(x, 1.3, 3)
        ops.DropBlock2d(0.3, 3)(x)
        ops.DropBlock2d(0.3, 3).eval()(x)
        ops.DropBlock3d(0.3, 3)(x)
        str(ops.DropBlock2d(0.3, 3)), str(ops.DropBlock3d(0.3, 3, True))
        ops.Permute([0, 2, 3, 1])(x)
        ops.Permute([1, 0])(x)
        ops.FrozenBatchNorm2d(4)(x)
        m = ops.FrozenBatchNorm2d(4, eps=0.5); m.running_mean += 1; m.weight *= 2; m(x)
        ops.FrozenBatchNorm2d(3)(x)
        repr(ops.FrozenBatchNorm2d(4))
        ops.FrozenBatchNorm2d(4).load_state_dict(nn.BatchNorm2d(4).state_dict())
        fill(ops.SqueezeExcitation(4, 2))(x)
        fill(ops.SqueezeExcitation(4, 2, activation=nn.GELU, scale_activation=nn.Hardsigmoid))(x)
        fill(ops.Conv2dNormActivation(4, 5)).eval()(x)
        fill(ops.Conv2dNormActivation(4, 4, kernel_size=(3, 1), stride=2, groups=2, norm_layer=None)).eval()(x)
        fill(ops.Conv2dNormActivation(4, 4, 3, dilation=2, activation_layer=None)).eval()(x)
        fill(ops.Conv2dNormActivation(4, 4, 5, padding=1, inplace=None, activation_layer=nn.GELU)).eval()(x)
        fill(ops.Conv3dNormActivation(4, 5, kernel_size=3)).eval()(x)
        fill(ops.MLP(x.shape[-1], [3, 2], norm_layer=nn.LayerNorm)).eval()(x)
        fill(ops.MLP(x.shape[-1], [3, 2], activation_layer=nn.GELU, bias=False, dropout=0.5)).eval()(x)
    """),
    f"x.requires_grad_(); y = ops.sigmoid_focal_loss(x, t, reduction='sum'); {grad('x')}",
    f"x.requires_grad_(); y = ops.stochastic_depth(x, 0.5, 'row'); {grad('x')}",
    f"x.requires_grad_(); y = ops.drop_block2d(x, 0.3, 3); {grad('x')}",
    f"x.requires_grad_(); y = ops.FrozenBatchNorm2d(4)(x); {grad('x')}",
]
PARTS = {
    "any": {
        "levels": '{"a": torch.arange(128.0).reshape(1, 2, 8, 8), "b": -torch.ones(1, 2, 4, 4)}',
        "regions": "[torch.tensor([[0.0, 0, 20, 30], [1, 1, 300, 200]])]",
        "pyramid": '{"a": torch.ones(1, 4, 7, 9), "b": torch.ones(1, 8, 4, 5)}',
    }
}
STRUCTURES = programs("""
    ops.Conv2dNormActivation(3, 8)
    ops.Conv2dNormActivation(3, 8, kernel_size=(3, 5), dilation=(1, 2), padding="same", bias=True)
    ops.Conv2dNormActivation(3, 8, norm_layer=None, activation_layer=None)
    ops.Conv2dNormActivation(3, 8, kernel_size=(3, 5, 7))
    ops.Conv2dNormActivation(3, 8, dilation=(1, 2))
    ops.Conv2dNormActivation(3, 8, kernel_size="3")
    ops.Conv2dNormActivation(3, 8).out_channels
    ops.Conv3dNormActivation(3, 8, kernel_size=(1, 3, 3))
    ops.misc.ConvNormActivation(3, 8)
    ops.MLP(4, [8, 2])
    ops.MLP(4, [8, 2], inplace=True, dropout=0.1, norm_layer=nn.BatchNorm1d)
    ops.MLP(4, [8])
    ops.MLP(4, [])
    ops.SqueezeExcitation(8, 2)
    ops.FeaturePyramidNetwork([4, 8], 6)
    ops.FeaturePyramidNetwork([4, 8], 6, extra_blocks=ops.feature_pyramid_network.LastLevelMaxPool())
    ops.FeaturePyramidNetwork([4, 8], 6, extra_blocks=ops.feature_pyramid_network.LastLevelP6P7(6, 6))
    ops.FeaturePyramidNetwork([4, 8], 6, norm_layer=nn.BatchNorm2d)
    ops.FeaturePyramidNetwork([4, 0], 6)
    ops.FeaturePyramidNetwork([4, 8], 6, extra_blocks=nn.ReLU())
    fill(ops.FeaturePyramidNetwork([4, 8], 6, ops.feature_pyramid_network.LastLevelMaxPool()))(pyramid)
    fill(ops.FeaturePyramidNetwork([4, 8], 6, ops.feature_pyramid_network.LastLevelP6P7(8, 6)))(pyramid)
    fill(ops.FeaturePyramidNetwork([4, 8], 6))({"a": torch.ones(1, 4, 7, 9)})
    str(ops.MultiScaleRoIAlign(["a", "b"], 3, 2))
    ops.MultiScaleRoIAlign(["a", "b"], 3, 2)(levels, regions, [(64, 64)])
    ops.MultiScaleRoIAlign(["a"], (3, 2), 2, canonical_scale=100)(levels, regions, [(64, 64)])
    ops.MultiScaleRoIAlign(["a", "b"], 3, 2)(levels, [torch.zeros(0, 4)], [(64, 64)])
    ops.MultiScaleRoIAlign(["c"], 3, 2)(levels, regions, [(64, 64)])
    type(torch.fx.symbolic_trace(ops.RoIAlign(2, 0.5, 2))).__name__
    type(torch.fx.symbolic_trace(ops.RoIPool(2, 0.5))).__name__
    type(torch.fx.symbolic_trace(ops.PSRoIAlign(2, 0.5, 2))).__name__
    type(torch.fx.symbolic_trace(ops.PSRoIPool(2, 0.5))).__name__
    type(torch.fx.symbolic_trace(ops.DeformConv2d(2, 2, 3))).__name__
    type(torch.fx.symbolic_trace(ops.DropBlock2d(0.1, 3))).__name__
    type(torch.fx.symbolic_trace(ops.MultiScaleRoIAlign(["a"], 2, 2))).__name__
    type(torch.fx.symbolic_trace(ops.SqueezeExcitation(4, 2))).__name__
    type(torch.fx.symbolic_trace(ops.FrozenBatchNorm2d(4))).__name__
    ops.RoIAlign(2, 0.5, 2), ops.RoIPool(2, 0.5), ops.PSRoIAlign(2, 0.5, 2), ops.PSRoIPool(2, 0.5)
    str([ops.RoIAlign(2, 0.5, 2, True), ops.RoIPool((2, 1), 0.5)])
    str([ops.PSRoIAlign(2, 0.5, 2), ops.PSRoIPool(2, 0.5)])
""")


def tabulate(place: str, kinds: Mapping[str, Any], texts: list[str]) -> None:
    SUITE.add(*cross(place, kinds, texts, names={**NAMES, "fill": fill.fill_}))


tabulate("regions", MAPS, [*POOLING, *POOLING_GRADIENTS])
tabulate("wrong regions", {"float32": MAPS["float32"]}, WRONG_REGIONS)
tabulate("quantized", QUANTIZED, ON_QUANTIZED)
tabulate("deformable", DEFORMED, DEFORMING)
tabulate("boxes", BOXES, [*ON_BOXES, *BOX_GRADIENTS])
tabulate(
    "box formats",
    {name: BOXES[name] for name in ("float32", "int64", "none", "batches", "rotated", "corners")},
    CONVERSIONS,
)
tabulate("masks", MASKS, ["ops.masks_to_boxes(m)"])
tabulate("layers", FLOATS, ON_FLOATS)
tabulate("structures", PARTS, STRUCTURES)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
