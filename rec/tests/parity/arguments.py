"""The arguments of recorded calls, in the language of the golden files: names and shapes that values are made from."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.core.testing import fill


def argument(stored: Any) -> Any:
    """A recorded argument: a tensor, a list of them, a device, a dtype, or the value itself."""
    if not isinstance(stored, dict):
        return stored
    dtype = getattr(torch, stored["dtype"]) if "dtype" in stored else None
    if "tensor" in stored:
        made = fill.tensor(stored["tensor"], tuple(stored["shape"]))
        made = (made * stored.get("scale", 1.0) + stored.get("shift", 0.0)).to(dtype)
        return made.requires_grad_(stored.get("grad", False))
    if "integers" in stored:
        return fill.integers(stored["integers"], tuple(stored["shape"]), stored["high"]).to(dtype)
    if "literal" in stored:
        made = torch.tensor(stored["literal"], dtype=dtype)
        return made.reshape(stored["shape"]) if "shape" in stored else made
    if "list" in stored:
        return [argument(one) for one in stored["list"]]
    if "device" in stored:
        return torch.device(stored["device"])
    if "dtype_of" in stored:
        return getattr(torch, stored["dtype_of"])
    raise ValueError(f"no such argument: {stored}")
