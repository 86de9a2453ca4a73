"""A label of a metric."""

from __future__ import annotations

__all__ = ["Dimension"]


class Dimension:
    """A label of a metric, `name:value`.

    Args:
        name: of the label.
        value: of the label.
    """

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimension) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
