"""Handlers of pictures: bytes, base64 or nested lists become tensors."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

import torch
from torch import Tensor

from flambeau.serve.torch_handler.base_handler import BaseHandler
from flambeau.serve.utils.util import PredictionException

__all__ = ["VisionHandler"]


class VisionHandler(BaseHandler):
    """Pictures of a batch as one tensor (N, C, H, W); subclasses say how each is prepared by `image_processing`."""

    def initialize(self, context: Any) -> None:
        """Load the model; a configuration may lift Pillow's bound on the size of pictures."""
        super().initialize(context)
        if not context.system_properties.get("limit_max_image_pixels", True):
            from PIL import Image

            Image.MAX_IMAGE_PIXELS = None

    def image_processing(self, image: Any) -> Tensor:
        """A Pillow picture as a tensor (C, H, W), float32 from 0 to 1."""
        return to_tensor(image)

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        """Pictures of a batch.

        Raises:
            PredictionException: a body is no picture; 400.
        """
        return torch.stack([self._prepared(row) for row in data]).to(self.device)

    def _prepared(self, row: dict[str, Any]) -> Tensor:
        found = row.get("data", row.get("body"))
        if isinstance(found, str):
            try:
                found = base64.b64decode(found, validate=True)
            except (binascii.Error, ValueError) as error:
                raise PredictionException("The text is no picture in base64.", 400) from error
        if isinstance(found, (bytes, bytearray, memoryview)):
            return self.image_processing(opened(bytes(found)))
        try:
            return torch.as_tensor(found, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise PredictionException("The body is neither a picture nor nested lists of numbers.", 400) from error


def opened(data: bytes) -> Any:
    """A picture, in RGB.

    Raises:
        PredictionException: it is none, or too large; 400.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data)).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PredictionException("The body is no picture that can be read.", 400) from error


def to_tensor(image: Any) -> Tensor:
    """A Pillow picture as a tensor (C, H, W), float32 from 0 to 1."""
    import numpy as np

    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
