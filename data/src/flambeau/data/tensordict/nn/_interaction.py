"""How a value is taken from a distribution: drawn, or one that stands for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from flambeau.data.tensordict._utils_options import _DecoratorContextManager


class InteractionType(StrEnum):
    """What a probabilistic module writes.

    MODE, MEDIAN, MEAN: of the distribution. RANDOM: a sample. DETERMINISTIC: the distribution's own
    `deterministic_sample`, else the mode of discrete and the mean of continuous distributions.
    """

    MODE = "mode"
    MEDIAN = "median"
    MEAN = "mean"
    RANDOM = "random"
    DETERMINISTIC = "deterministic"

    @classmethod
    def from_str(cls, type_str: str) -> InteractionType:
        """The member of a name in any case.

        Raises:
            ValueError: there is none.
        """
        try:
            return cls(str(type_str).lower())
        except ValueError:
            names = ", ".join(repr(str(member)) for member in cls)
            raise ValueError(f"{type_str!r} is no interaction type; there are {names}.") from None


_current: InteractionType | None = None


def interaction_type() -> InteractionType | None:
    """What `set_interaction_type` has set; None leaves it to each module."""
    return _current


class set_interaction_type(_DecoratorContextManager):
    """Set how modules take values from distributions: a context manager, a decorator, and through `.set()` a setter.

    Args:
        type: a member or its name; None leaves it to each module.

    Example:
        >>> with set_interaction_type("random"):
        ...     print(interaction_type())
        random
    """

    def __init__(self, type: InteractionType | str | None = InteractionType.DETERMINISTIC) -> None:
        self.type = InteractionType.from_str(type) if type is not None else None

    def clone(self) -> set_interaction_type:
        """A fresh one with the same type."""
        return type(self)(self.type)

    def set(self) -> None:
        """Make it that of the process."""
        global _current
        _current = self.type

    def __enter__(self) -> None:
        global _current
        self._before, _current = _current, self.type

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _current
        _current = self._before
