"""The transforms of a buffer: what changes batches on their way out, and data on its way in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

__all__ = ["BufferTransforms"]


class BufferTransforms(nn.Module):
    """Transforms one after another; on the way in from the last to the first, by their methods `inv`."""

    def __init__(self) -> None:
        super().__init__()
        self.transforms = nn.ModuleList()

    def append(self, transform: Callable[[Any], Any], *, invert: bool = False) -> None:
        """One more, behind the others."""
        self.insert(len(self.transforms), transform, invert=invert)

    def insert(self, index: int, transform: Callable[[Any], Any], *, invert: bool = False) -> None:
        """One more at a position.

        Raises:
            TypeError: something that cannot be called.
        """
        if not callable(transform):
            raise TypeError(f"transform has type {type(transform).__name__}, expected a module or a function.")
        module = transform if isinstance(transform, nn.Module) else _Function(transform)
        if hasattr(module, "eval"):
            module.eval()
        self.transforms.insert(index, _Inverted(module) if invert else module)

    def forward(self, data: Any) -> Any:
        """Change a batch."""
        for each in self.transforms:
            data = each(data)
        return data

    def inv(self, data: Any) -> Any:
        """Change data that is added; None where a transform keeps it back until more is there."""
        for each in reversed(self.transforms):
            inverse = getattr(each, "inv", None)
            if inverse is not None:
                data = inverse(data)
            if data is None:
                break
        return data

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, index: int) -> nn.Module:
        return self.transforms[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.transforms)


class _Function(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, data: Any) -> Any:
        return self.function(data)


class _Inverted(nn.Module):
    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, data: Any) -> Any:
        return self.transform.inv(data)

    def inv(self, data: Any) -> Any:
        return self.transform(data)
