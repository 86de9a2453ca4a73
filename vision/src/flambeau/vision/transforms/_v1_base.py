"""First generation: how transforms are shown, and what those with a probability share."""

from __future__ import annotations

from enum import Enum
from typing import Any

from torch import nn

from flambeau.vision.transforms import _random


class Shown:
    """Shows the attributes that `_shown` names."""

    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The class with its arguments."""
        values = {name: getattr(self, name) for name in self._shown}
        shown = [f"{name}={value.value if isinstance(value, Enum) else value}" for name, value in values.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class RandomlyApplied(Shown, nn.Module):
    """Base of transforms that are applied with probability p."""

    _shown: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def apply_to(self, img: Any) -> Any:
        """Transform one image."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        """Transform one image, or return it as it is."""
        return self.apply_to(img) if _random.happens(self.p) else img
