"""How specs are written."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from torch import Tensor

STEP = "    "


def indented(text: str) -> str:
    """Text one step further to the right."""
    return indent(text, STEP)


def described(tensor: Tensor) -> str:
    """A tensor by what matters of it in a spec."""
    facts = f"shape={tensor.shape}, device={tensor.device}, dtype={tensor.dtype}, contiguous={tensor.is_contiguous()}"
    return f"Tensor({facts})"


def listed(kind: str, fields: dict[str, Any]) -> str:
    """A class and its fields, one to a line."""
    return f"{kind}(\n" + indented(",\n".join(f"{name}={value}" for name, value in fields.items())) + ")"
