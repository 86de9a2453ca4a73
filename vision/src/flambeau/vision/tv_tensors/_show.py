"""Images in notebooks."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import summary

if TYPE_CHECKING:
    from flambeau.vision.tv_tensors._encoded_image import EncodedImage

_MOST = 16
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def image_html(image: Tensor) -> str:
    """An `Image` as HTML: up to 16 pictures, below them what `summary` says.

    Args:
        image: [..., C, H, W]; floating point is taken as 0 to 1, integers as 0 to 255. Without 1, 3 or 4 channels the
            first channel is shown.
    """
    pictures = image.detach().reshape(-1, *image.shape[-3:])[:_MOST] if image.numel() else image.new_empty(0)
    shown = "".join(f'<img alt="" src="data:image/png;base64,{_png(picture)}">' for picture in pictures)
    return f"<figure>{shown}<figcaption>{summary(image)}</figcaption></figure>"


def encoded_html(image: EncodedImage) -> str:
    """An `EncodedImage` as HTML, decoded."""
    return image_html(image.decode())


def _png(picture: Tensor) -> str:
    from PIL import Image

    if picture.shape[0] not in _MODES:
        picture = picture[:1]
    if picture.is_floating_point():
        picture = (picture.float().nan_to_num() * 255).round()
    levels = picture.clamp(0, 255).to("cpu", torch.uint8).permute(1, 2, 0).contiguous()
    height, width, channels = levels.shape
    file = io.BytesIO()
    Image.frombytes(_MODES[channels], (width, height), levels.numpy().tobytes()).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()
