"""Checks that transforms make."""

from __future__ import annotations

from torch import Tensor

__all__ = ["check_finite"]


def check_finite(tensor: Tensor) -> None:
    """Raise where a tensor has NaN or infinity.

    Args:
        tensor: of any dtype.

    Raises:
        ValueError: some of its values are not finite.

    Example:
        >>> check_finite(torch.ones(2))
    """
    finite = tensor.isfinite()
    if not finite.all():
        raise ValueError(
            f"Of {tensor.numel()} values {int((~finite).sum())} are not finite; {int(tensor.isnan().sum())} of "
            "them are NaN."
        )
