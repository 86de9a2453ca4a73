"""Transforms of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Generator, nn

from flambeau.vision.transforms import _fused, _random
from flambeau.vision.transforms.v2 import _fusion
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._utils import check_probability, first


class Compose(Transform):
    """Apply transforms one after another.

    Cropping or resizing, horizontal flips, conversion to float32 and normalization that follow each other are one pass
    over a uint8 picture on the CPU, with the same random numbers and the same result; where Pillow would resize a PIL
    image, within 1/255 of the full range. FLAMBEAU_FUSED_TRANSFORMS=0 in the environment keeps to single steps.

    Args:
        transforms: transforms, modules or functions of a sample.
        generator: see `Transform`.

    Raises:
        TypeError: `transforms` is no sequence.
        ValueError: it is empty.
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], *, generator: Generator | None = None) -> None:
        super().__init__(generator=generator)
        self.transforms = _checked(transforms)

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample."""
        if _fused.is_wanted() and _random.current().tape is None:
            return _fusion.applied(_fusion.planned(self.transforms), inputs)
        return _applied(self.transforms, inputs)

    def extra_repr(self) -> str:
        """The transforms, one on each line."""
        return _listed(self.transforms)


class RandomApply(Transform):
    """Apply transforms one after another, all of them or, with probability 1 - p, none.

    Args:
        transforms: as for `Compose`, or an `nn.ModuleList`.
        p: probability of applying them.
        generator: see `Transform`.

    Raises:
        TypeError: `transforms` is no sequence.
        ValueError: it is empty, or p is not in [0, 1].
    """

    def __init__(
        self,
        transforms: Sequence[Callable[..., Any]] | nn.ModuleList,
        p: float = 0.5,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.transforms = _checked(transforms)
        self.p = check_probability(p)

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample, or not."""
        if not self._decided(lambda: {"applied": _random.happens(self.p)})["applied"]:
            return first(inputs)
        return _applied(self.transforms, inputs)

    def extra_repr(self) -> str:
        """The transforms, one on each line."""
        return _listed(self.transforms)


class RandomChoice(Transform):
    """Apply one of several transforms.

    Args:
        transforms: as for `Compose`.
        p: weight of each, any positive numbers; None: all alike.
        generator: see `Transform`.

    Raises:
        TypeError: `transforms` is no sequence.
        ValueError: it is empty, or p has another length.
    """

    def __init__(
        self,
        transforms: Sequence[Callable[..., Any]],
        p: list[float] | None = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.transforms = _checked(transforms)
        weights = [1.0] * len(self.transforms) if p is None else list(p)
        if len(weights) != len(self.transforms):
            raise ValueError(f"p has {len(weights)} weights for {len(self.transforms)} transforms; give one for each.")
        total = sum(weights)
        self.p = [weight / total for weight in weights]

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample."""
        index = self._decided(lambda: {"index": _random.weighted(self.p)})["index"]
        return self.transforms[index](*inputs)


class RandomOrder(Transform):
    """Apply transforms in any order.

    Args:
        transforms: as for `Compose`.
        generator: see `Transform`.

    Raises:
        TypeError: `transforms` is no sequence.
        ValueError: it is empty.
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], *, generator: Generator | None = None) -> None:
        super().__init__(generator=generator)
        self.transforms = _checked(transforms)

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample."""
        order = self._decided(lambda: {"order": _random.randperm(len(self.transforms)).tolist()})["order"]
        return _applied([self.transforms[index] for index in order], inputs)


def _applied(transforms: Sequence[Callable[..., Any]], inputs: tuple[Any, ...]) -> Any:
    several = len(inputs) > 1
    for transform in transforms:
        outputs = transform(*inputs)
        inputs = outputs if several else (outputs,)
    return inputs if several else inputs[0]


def _checked(transforms: Any) -> Any:
    if not isinstance(transforms, (Sequence, nn.ModuleList)):
        raise TypeError(f"transforms is {type(transforms).__name__}, expected a sequence of transforms.")
    if len(transforms) == 0:
        raise ValueError("transforms is empty; give at least one, for nothing at all transforms.v2.Identity().")
    return transforms


def _listed(transforms: Sequence[Any]) -> str:
    return "\n".join(f"    {transform}" for transform in transforms)
