"""What the differential suites of pictures have in common: kinds of inputs, and how pictures are taken apart."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import torch
from PIL import Image

from flambeau.core.testing.differential import Recorder

# Sides that no cell could mix up, and values that no symmetry hides.
_PIL = (
    "PIL.Image.fromarray("
    "(np.random.default_rng(0).random((11, 14, {channels})) * 255).astype('uint8'){squeeze}, '{mode}')"
)
_TENSOR = "torch.randint(0, 256, {shape}, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)"
NAMES: dict[str, Any] = {"torch": torch, "np": np, "PIL": __import__("PIL"), "Image": Image}


def _pil(mode: str) -> str:
    channels = len(Image.new(mode, (1, 1)).getbands())
    return _PIL.format(channels=channels, squeeze="[..., 0]" if channels == 1 else "", mode=mode)


def _tensor(*shape: int) -> str:
    return _TENSOR.format(shape=shape)


def _boxes(format: str, rows: str, *, more: str = "") -> str:
    return f"tv_tensors.BoundingBoxes(torch.tensor({rows}), format='{format}', canvas_size=(11, 14){more})"


PICTURES: dict[str, dict[str, str]] = {
    "pil-rgb": {"x": _pil("RGB")},
    "pil-gray": {"x": _pil("L")},
    "pil-rgba": {"x": _pil("RGBA")},
    "uint8": {"x": _tensor(3, 11, 14)},
    "uint8-gray": {"x": _tensor(1, 11, 14)},
    "uint8-batch": {"x": _tensor(2, 3, 11, 14)},
    "uint8-channels-last": {"x": f"{_tensor(2, 3, 11, 14)}.contiguous(memory_format=torch.channels_last)"},
    "uint8-strided": {"x": f"{_tensor(3, 22, 28)}[:, ::2, ::2]"},
    "uint8-none": {"x": _tensor(0, 3, 11, 14)},
    "float32": {"x": f"{_tensor(3, 11, 14)} / 255"},
    "float64": {"x": f"{_tensor(3, 11, 14)}.double() / 255"},
    "float16": {"x": f"({_tensor(3, 11, 14)} / 255).half()"},
    "int32": {"x": f"{_tensor(3, 11, 14)}.int() * 8_000_000"},
    "int64": {"x": f"{_tensor(3, 11, 14)}.long()"},
    "uint16": {"x": f"({_tensor(3, 11, 14)}.int() * 257).to(torch.uint16)"},
    "bool": {"x": f"{_tensor(1, 11, 14)} > 99"},
    "image": {"x": f"tv_tensors.Image({_tensor(3, 11, 14)})"},
    "image-float": {"x": f"tv_tensors.Image({_tensor(3, 11, 14)} / 255)"},
    "video": {"x": f"tv_tensors.Video({_tensor(4, 3, 11, 14)})"},
}
SHAPES: dict[str, dict[str, str]] = {
    "mask": {"x": f"tv_tensors.Mask({_tensor(11, 14)} % 5)"},
    "mask-instances": {"x": f"tv_tensors.Mask({_tensor(3, 11, 14)} % 2)"},
    "mask-bool": {"x": f"tv_tensors.Mask({_tensor(3, 11, 14)} > 99)"},
    "mask-int64": {"x": f"tv_tensors.Mask({_tensor(11, 14)}.long() % 5)"},
    "boxes-xyxy": {"x": _boxes("XYXY", "[[1, 2, 9, 8], [0, 0, 14, 11], [3, 3, 4, 9]]")},
    "boxes-xywh-float": {"x": _boxes("XYWH", "[[1.5, 2.0, 7.25, 6.0], [0.0, 0.0, 14.0, 11.0]]")},
    "boxes-cxcywh": {"x": _boxes("CXCYWH", "[[5, 5, 4, 6], [7, 4, 10, 3]]")},
    "boxes-none": {"x": "tv_tensors.BoundingBoxes(torch.zeros(0, 4), format='XYXY', canvas_size=(11, 14))"},
    "boxes-unclamped": {"x": _boxes("XYXY", "[[-3.0, 2.0, 19.0, 8.0]]", more=", clamping_mode=None")},
    "boxes-xywhr": {"x": _boxes("XYWHR", "[[3.0, 3.0, 5.0, 4.0, 30.0], [6.0, 4.0, 4.0, 2.0, -15.0]]")},
    "boxes-cxcywhr": {"x": _boxes("CXCYWHR", "[[6.0, 5.0, 5.0, 4.0, 30.0], [7.0, 6.0, 4.0, 2.0, 90.0]]")},
    "boxes-xyxyxyxy": {"x": _boxes("XYXYXYXY", "[[2.0, 2.0, 8.0, 3.0, 7.0, 8.0, 1.0, 7.0]]")},
    "keypoints": {"x": "tv_tensors.KeyPoints(torch.tensor([[1, 2], [9, 8], [13, 10]]), canvas_size=(11, 14))"},
    "keypoints-float": {"x": "tv_tensors.KeyPoints(torch.tensor([[[1.5, 2.25]], [[9.0, 8.5]]]), canvas_size=(11, 14))"},
}
EVERYTHING = {**PICTURES, **SHAPES}


def describe(value: Any, recorder: Recorder, where: str) -> Any:
    """Records of PIL pictures and of tensors that know what they are."""
    if isinstance(value, Image.Image):
        # Of a picture's class only whether it is one counts: decoders give subclasses of their own.
        pixels = np.asarray(value)
        return {"type": "PIL.Image", "mode": value.mode, "size": value.size, "pixels": torch.from_numpy(pixels.copy())}
    if type(value) is not torch.Tensor and isinstance(value, torch.Tensor):
        shown = {
            name: getattr(value, name) for name in ("format", "canvas_size", "clamping_mode") if hasattr(value, name)
        }
        if shown:
            described = {name: recorder.describe(one) for name, one in shown.items()}
            return {"tensor": recorder.tensor(value, where), **described}
    return NotImplemented


def programs(text: str) -> list[str]:
    """A block of one-line programs, in which F. stands for the functionals of the second generation."""
    lines = (line.strip() for line in textwrap.dedent(text).splitlines())
    return [line.replace("F.", "transforms.v2.functional.") for line in lines if line and not line.startswith("#")]
