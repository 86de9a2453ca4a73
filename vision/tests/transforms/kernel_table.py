"""What each functional is called with in tests, and inputs for each kind of kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F

HEIGHT, WIDTH = CANVAS = (12, 17)
KINDS = ("image", "video", "mask", "bounding_boxes", "keypoints")
_displacement = torch.rand(1, HEIGHT, WIDTH, 2, generator=torch.Generator().manual_seed(5)) * 0.2 - 0.1
_corners = [[0, 0], [16, 0], [16, 11], [0, 11]]
_moved = [[2, 1], [15, 0], [14, 10], [1, 11]]

# Functional -> arguments after the first. Where a kernel of boxes or masks takes fewer, the others are left out.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "adjust_brightness": {"brightness_factor": 1.3},
    "adjust_contrast": {"contrast_factor": 0.6},
    "adjust_gamma": {"gamma": 1.7, "gain": 0.9},
    "adjust_hue": {"hue_factor": 0.2},
    "adjust_saturation": {"saturation_factor": 1.8},
    "adjust_sharpness": {"sharpness_factor": 1.5},
    "affine": {"angle": 25.0, "translate": [1, -2], "scale": 1.1, "shear": [5.0, -3.0], "fill": 0.0},
    "autocontrast": {},
    "center_crop": {"output_size": [8, 20]},
    "crop": {"top": 2, "left": -3, "height": 8, "width": 11},
    "elastic": {"displacement": _displacement, "interpolation": "bilinear"},
    "equalize": {},
    "erase": {"i": 2, "j": 3, "h": 4, "w": 5, "v": torch.zeros(1, 1, 1)},
    "five_crop": {"size": [5, 6]},
    "gaussian_blur": {"kernel_size": [5, 3], "sigma": [1.0, 0.8]},
    "gaussian_noise": {"sigma": 0.0, "mean": 0.1},
    "get_dimensions": {},
    "get_num_channels": {},
    "get_num_frames": {},
    "get_size": {},
    "grayscale_to_rgb": {},
    "horizontal_flip": {},
    "invert": {},
    "jpeg": {"quality": 90},
    "normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]},
    "pad": {"padding": [1, 2, 3, 4], "fill": 1},
    "permute_channels": {"permutation": [2, 0, 1]},
    "perspective": {"startpoints": _corners, "endpoints": _moved, "interpolation": "bilinear"},
    "posterize": {"bits": 3},
    "resize": {"size": [9, 20]},
    "resized_crop": {"top": 1, "left": 2, "height": 9, "width": 11, "size": [7, 14]},
    "rgb_to_grayscale": {"num_output_channels": 3},
    "rotate": {"angle": 33.0, "expand": True, "interpolation": "bilinear"},
    "solarize": {"threshold": 0.4},
    "ten_crop": {"size": [5, 6]},
    "to_dtype": {"dtype": torch.float64, "scale": True},
    "uniform_temporal_subsample": {"num_samples": 3},
    "vertical_flip": {},
}
# Need integers, or integers of 8 bits.
BYTES = {"jpeg"}
RANDOM = {"gaussian_noise"}


def names() -> list[str]:
    """Every public kernel."""
    return [name for name in F.__all__ if split(name) is not None]


def split(name: str) -> tuple[str, str] | None:
    """Functional and kind of a kernel; None for names that are no kernels."""
    for kind in KINDS:
        if name.endswith(f"_{kind}") and name.removesuffix(f"_{kind}") in ARGUMENTS:
            return name.removesuffix(f"_{kind}"), kind
    return None


def picture(*leading: int, channels: int = 3, seed: int = 0) -> Tensor:
    """Smooth waves and some noise, in [0, 1]."""
    y, x = torch.meshgrid(torch.arange(HEIGHT) / 5, torch.arange(WIDTH) / 4, indexing="ij")
    waves = torch.stack([((c + 1) * x + y * c).sin() for c in range(channels)])
    noise = torch.rand(*leading, channels, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(seed))
    return (waves + 1) * 0.4 + noise * 0.2


def boxes(format: str = "XYXY") -> Tensor:
    """Three boxes, one of which leaves the canvas."""
    aligned = torch.tensor([[2.0, 3.0, 9.0, 8.0], [5.0, 1.0, 15.0, 6.5], [-2.0, 4.0, 6.0, 13.5]])
    if format in ("XYXY", "XYWH", "CXCYWH"):
        return F.convert_bounding_box_format(aligned, "XYXY", format)
    x, y, width, height = F.convert_bounding_box_format(aligned, "XYXY", "CXCYWH").unbind(-1)
    turned = torch.stack([x, y, width, height, torch.tensor([10.0, -50.0, 200.0])], -1)
    return F.convert_bounding_box_format(turned, "CXCYWHR", format)


def sample(functional: str, kind: str) -> Tensor:
    """A plain input of a kernel."""
    if kind == "bounding_boxes":
        return boxes()
    if kind == "keypoints":
        return torch.tensor([[[0.0, 0.0], [16.0, 11.0]], [[3.5, 7.25], [20.0, -4.0]]])
    if kind == "mask":
        return (picture()[:2] * 4).to(torch.uint8)
    image = picture(4) if kind == "video" else picture()
    image = image[..., :1, :, :] if functional == "grayscale_to_rgb" else image
    return (image * 255).to(torch.uint8) if functional in BYTES else image


def typed(functional: str, kind: str) -> tv_tensors.TVTensor:
    """The same input with its type."""
    data = sample(functional, kind)
    if kind == "bounding_boxes":
        return tv_tensors.BoundingBoxes(data, format="XYXY", canvas_size=CANVAS)
    if kind == "keypoints":
        return tv_tensors.KeyPoints(data, canvas_size=CANVAS)
    return {"image": tv_tensors.Image, "video": tv_tensors.Video, "mask": tv_tensors.Mask}[kind](data)


def keywords(name: str) -> dict[str, Any]:
    """What a kernel is called with after its first argument."""
    import inspect

    functional, _ = split(name)  # type: ignore[misc]
    offered = {**ARGUMENTS[functional], "format": "XYXY", "canvas_size": CANVAS}
    takes = list(inspect.signature(getattr(F, name)).parameters)[1:]
    return {key: value for key, value in offered.items() if key in takes}
