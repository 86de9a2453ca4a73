"""Transforms that are kept for code written long ago."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.vision.transforms import functional as v1
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._type_conversion import is_array
from flambeau.vision.transforms.v2.functional._pil import is_pil


class ToTensor(Transform):
    """Make a tensor of a PIL image or an array, scaled to [0, 1].

    Deprecated: use `Compose([ToImage(), ToDtype(torch.float32, scale=True)])`.
    """

    _transformed_types = (is_pil, is_array)

    def __init__(self) -> None:
        warnings.warn(
            "transforms.v2.ToTensor is deprecated: write ToImage(), ToDtype(torch.float32, scale=True) in its place.",
            stacklevel=2,
        )
        super().__init__()

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Convert one leaf."""
        return v1.to_tensor(inpt)
