"""Names that stay for code written for them."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor


def to_tensor(inpt: Any) -> Tensor:
    """Copy a PIL image or an array into a tensor, uint8 scaled to [0, 1]; see `transforms.functional.to_tensor`.

    Deprecated: use `to_image`, then `to_dtype(image, torch.float32, scale=True)`, which say which of both is done.
    """
    warnings.warn(
        "to_tensor is deprecated; use to_image(inpt), then to_dtype(image, torch.float32, scale=True).",
        DeprecationWarning,
        stacklevel=2,
    )
    from flambeau.vision.transforms import functional

    return functional.to_tensor(inpt)
