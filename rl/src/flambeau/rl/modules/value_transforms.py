"""Invertible maps of rewards and returns to a space where they are easier to predict."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from flambeau.rl.modules import functional

__all__ = [
    "ComposeValueTransform",
    "IdentityValueTransform",
    "SignedHyperbolicValueTransform",
    "SymLogValueTransform",
    "ValueTransform",
]


class ValueTransform(nn.Module, ABC):
    """The root of value transforms, which work element by element."""

    @abstractmethod
    def forward(self, value: Tensor) -> Tensor:
        """From raw values to the space of predictions."""

    @abstractmethod
    def inverse(self, value: Tensor) -> Tensor:
        """From predictions to raw values."""


class IdentityValueTransform(ValueTransform):
    """Values as they are."""

    def forward(self, value: Tensor) -> Tensor:
        """The value."""
        return value

    def inverse(self, value: Tensor) -> Tensor:
        """The value."""
        return value


class SymLogValueTransform(ValueTransform):
    """`symlog` and `symexp` (Hafner et al. 2023, arXiv:2301.04104)."""

    def forward(self, value: Tensor) -> Tensor:
        """The symmetric logarithm."""
        return functional.symlog(value)

    def inverse(self, value: Tensor) -> Tensor:
        """The symmetric exponential."""
        return functional.symexp(value)


class SignedHyperbolicValueTransform(ValueTransform):
    """`signed_hyperbolic` and `signed_parabolic` (Pohlen et al. 2018, arXiv:1805.11593).

    Args:
        epsilon: slope far from 0, > 0.

    Raises:
        ValueError: epsilon is not positive.
    """

    def __init__(self, epsilon: float = 0.001) -> None:
        super().__init__()
        if epsilon <= 0:
            raise ValueError(f"SignedHyperbolicValueTransform: epsilon is {epsilon}, expected a positive number.")
        self.epsilon = epsilon

    def forward(self, value: Tensor) -> Tensor:
        """The signed hyperbolic map."""
        return functional.signed_hyperbolic(value, self.epsilon)

    def inverse(self, value: Tensor) -> Tensor:
        """Its inverse."""
        return functional.signed_parabolic(value, self.epsilon)


class ComposeValueTransform(ValueTransform):
    """Transforms one after the other.

    Args:
        transforms: at least one, first applied first.

    Raises:
        ValueError: there is none.
        TypeError: one is no `ValueTransform`.
    """

    def __init__(self, *transforms: ValueTransform) -> None:
        super().__init__()
        if not transforms:
            raise ValueError("ComposeValueTransform: there are no transforms, expected at least one.")
        for transform in transforms:
            if not isinstance(transform, ValueTransform):
                raise TypeError(f"ComposeValueTransform: got a {type(transform).__name__}, expected ValueTransforms.")
        self.transforms = nn.ModuleList(transforms)

    def forward(self, value: Tensor) -> Tensor:
        """All of them, in order."""
        for transform in self.transforms:
            value = transform(value)
        return value

    def inverse(self, value: Tensor) -> Tensor:
        """Their inverses, from the last to the first."""
        for transform in reversed(self.transforms):
            value = transform.inverse(value)  # type: ignore[operator]
        return value
