"""The normal distribution within an interval, element by element."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.types import Number

from flambeau.data.tensordict.nn.distributions import truncated_normal as data

__all__ = ["TruncatedNormal", "TruncatedStandardNormal"]


class TruncatedStandardNormal(data.TruncatedStandardNormal):
    """The standard normal distribution within [a, b] (Burkardt 2014, "The truncated normal distribution").

    Args:
        a, b: numbers or tensors that broadcast; a < b.
        validate_args: as for every distribution.
        device: where to put the bounds, if not where they are.

    Raises:
        ValueError: a is not below b.
    """

    def __init__(
        self,
        a: Number | Tensor,
        b: Number | Tensor,
        validate_args: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(_placed(a, device), _placed(b, device), validate_args)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean."""
        return self.mean

    def entropy(self) -> Tensor:  # type: ignore[override]
        """In nats, element by element."""
        result: Tensor = data.TruncatedStandardNormal.entropy.fget(self)  # type: ignore[attr-defined]
        return result

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        shape = torch.Size(batch_shape)
        return TruncatedStandardNormal(self.a.expand(shape), self.b.expand(shape), self._validate_args)


class TruncatedNormal(data.TruncatedNormal):
    """The normal distribution of some location and scale within [a, b].

    Args:
        loc, scale: of the distribution that is cut.
        a, b: bounds of the samples, a < b.
        validate_args: as for every distribution.
        device: where to put them, if not where they are.
    """

    def __init__(
        self,
        loc: Number | Tensor,
        scale: Number | Tensor,
        a: Number | Tensor,
        b: Number | Tensor,
        validate_args: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        placed = [_placed(each, device) for each in (loc, scale, a, b)]
        super().__init__(placed[0], placed[1], placed[2], placed[3], validate_args)

    def rsample(self, sample_shape: Any = None) -> Tensor:
        """Draw (*sample_shape, ...), with gradients; never out of the bounds, where rounding would put it there."""
        drawn = super().rsample(sample_shape)
        return torch.minimum(torch.maximum(drawn, self.low), self.high)

    def entropy(self) -> Tensor:  # type: ignore[override]
        """In nats, element by element."""
        result: Tensor = data.TruncatedNormal.entropy.fget(self)  # type: ignore[attr-defined]
        return result

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        size = torch.Size(batch_shape)
        loc, scale, low, high = (part.expand(size) for part in (self.loc, self.scale, self.low, self.high))
        return TruncatedNormal(loc, scale, low, high, self._validate_args)


def _placed(value: Any, device: torch.device | str | None) -> Any:
    return value if device is None else torch.as_tensor(value, device=device)
