"""Shapes and dtypes that a tensor type declares, and the checks against them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from flambeau.core.errors import TensorTypeError

Kind = Literal["floating", "complex", "integer", "bool"]


@dataclass(frozen=True)
class Layout:
    """Which shapes and dtypes fit a tensor type.

    Args:
        shape: dimensions separated by spaces, e.g. `"... C H W"` or `"... 4|5"`: a number (or several, separated by
            `|`) is an exact size, a word any size (equal words, equal sizes), `...` any number of leading
            dimensions. None accepts every shape.
        event_ndim: how many trailing dimensions belong to one sample; by default those of `shape` after the `...`.
        dtypes: exact dtypes or kinds (`"floating"`, `"complex"`, `"integer"`, `"bool"`); empty accepts all.
    """

    shape: str | None = None
    event_ndim: int | None = None
    dtypes: tuple[torch.dtype | Kind, ...] = ()

    @classmethod
    def of(
        cls, shape: str | None, event_ndim: int | None, dtypes: torch.dtype | Kind | Iterable[torch.dtype | Kind]
    ) -> Layout:
        """A layout from a declaration; a single dtype needs no tuple.

        Raises:
            TensorTypeError: `...` anywhere but in front, a size that is neither a number nor a word, an unknown kind.
        """
        words = shape.split() if shape is not None else []
        for place, word in enumerate(words):
            if (word == "..." and place) or not (word == "..." or word.isidentifier() or _sizes(word)):
                raise TensorTypeError(
                    f"shape={shape!r}: {word!r} was not understood; write words or numbers, with `...` in front only."
                )
        wanted = (dtypes,) if isinstance(dtypes, (str, torch.dtype)) else tuple(dtypes)
        for dtype in wanted:
            if not isinstance(dtype, torch.dtype) and dtype not in _KINDS:
                raise TensorTypeError(f"dtypes: {dtype!r} is neither a torch.dtype nor one of {', '.join(_KINDS)}.")
        if event_ndim is None and words:
            event_ndim = sum(word != "..." for word in words)
        return cls(shape, event_ndim, wanted)

    def shape_problem(self, sizes: Iterable[int]) -> str | None:
        """What is wrong with a shape, as a phrase, or None."""
        found = tuple(sizes)
        if self.shape is None:
            if self.event_ndim is not None and len(found) < self.event_ndim:
                return f"shape {found} has {len(found)} dimensions, expected at least {self.event_ndim}"
            return None
        words = self.shape.split()
        open_ended = words[0] == "..."
        fixed = words[open_ended:]
        if len(found) < len(fixed) or (len(found) > len(fixed) and not open_ended):
            return f"shape {found} does not fit {self.shape!r}"
        bound: dict[str, int] = {}
        for word, size in zip(fixed, found[len(found) - len(fixed) :], strict=True):
            allowed = _sizes(word)
            if (allowed and size not in allowed) or (not allowed and bound.setdefault(word, size) != size):
                return f"shape {found} does not fit {self.shape!r}: {word} cannot be {size}"
        return None

    def dtype_problem(self, dtype: torch.dtype) -> str | None:
        """What is wrong with a dtype, as a phrase, or None."""
        if not self.dtypes or dtype in self.dtypes or _kind(dtype) in self.dtypes:
            return None
        return f"dtype {_name(dtype)} is not one of {', '.join(map(_name, self.dtypes))}"

    def problem(self, tensor: Tensor) -> str | None:
        """What is wrong with a tensor, as a phrase, or None."""
        return self.shape_problem(tensor.shape) or self.dtype_problem(tensor.dtype)


_KINDS: tuple[Kind, ...] = ("floating", "complex", "integer", "bool")


def _kind(dtype: torch.dtype) -> Kind:
    if dtype.is_floating_point:
        return "floating"
    if dtype.is_complex:
        return "complex"
    return "bool" if dtype is torch.bool else "integer"


def _name(dtype: torch.dtype | str) -> str:
    return str(dtype).removeprefix("torch.")


def _sizes(word: str) -> tuple[int, ...]:
    """The sizes a word of a pattern allows; empty for a name."""
    return tuple(int(part) for part in word.split("|")) if all(p.isdecimal() for p in word.split("|")) else ()
