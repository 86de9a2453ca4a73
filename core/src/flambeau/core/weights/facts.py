"""What is known about one file of pretrained parameters. Nothing here imports torch, or looks at the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from flambeau.core.weights.transforms import resolved, same_transforms

# How the names of checkpoint files end; no name of weights does.
CHECKPOINT_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".safetensors", ".tar", ".zip")

Format = Literal["auto", "torch", "torch-legacy", "torch-in-zip", "safetensors"]


class _Transforms:
    """The field `transforms`: holds what was given, shows what it stands for."""

    def __get__(self, weights: Any, owner: type | None = None) -> Callable[..., Any]:
        if weights is None:
            raise AttributeError("transforms")  # so that `dataclass` sees a field without a default
        return resolved(weights.__dict__["transforms"])

    def __set__(self, weights: Any, value: Callable[..., Any]) -> None:
        weights.__dict__["transforms"] = value


@dataclass(frozen=True, eq=False, repr=False)
class Weights:
    """One file of pretrained parameters and what is known about it.

    Two of them are equal when url, meta and transforms are; partials are compared by function and arguments.

    Attributes:
        url: where the file is: http(s), `hf://owner/name/file[@revision]`, or `package:pkg/path` inside a wheel.
        transforms: makes the matching preprocessing when called, usually a `functools.partial` or a `lazy(...)`.
        meta: labels, metrics, licence, recipe, number of parameters and the like.
        sha256: hexadecimal digest of the file, or its first 8 digits or more.
        size: bytes.
        mirrors: further URLs, tried in order after `url`.
        format: what the file holds; "auto" looks at its first bytes. A file of another format is refused.
        safe_globals: `"module:name"` of classes this checkpoint needs beyond tensors and plain containers.
    """

    url: str
    if TYPE_CHECKING:  # a descriptor without a default, which type checkers take for a default
        transforms: Callable[..., Any]
    else:
        transforms: Callable[..., Any] = _Transforms()
    meta: dict[str, Any] = field()
    sha256: str | None = field(default=None, kw_only=True)
    size: int | None = field(default=None, kw_only=True)
    mirrors: tuple[str, ...] = field(default=(), kw_only=True)
    format: Format = field(default="auto", kw_only=True)
    safe_globals: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def declared_transforms(self) -> Callable[..., Any]:
        """`transforms` as it was written, without importing anything."""
        return self.__dict__["transforms"]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weights):
            return NotImplemented
        if self.url != other.url or self.meta != other.meta:
            return False
        return same_transforms(self.declared_transforms, other.declared_transforms)

    def __hash__(self) -> int:
        return hash(self.url)

    def __repr__(self) -> str:
        return f"Weights({self.url!r}, {self.declared_transforms!r}, meta with {len(self.meta)} entries)"


def looks_like_a_file(name: str) -> bool:
    """Whether somebody who names weights means a checkpoint of their own: by its path or its address."""
    return "://" in name or name.lower().endswith(CHECKPOINT_SUFFIXES) or PurePath(name).is_absolute()
