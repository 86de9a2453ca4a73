"""Monotone maps that compress large values, and their inverses."""

from __future__ import annotations

from torch import Tensor

__all__ = ["signed_hyperbolic", "signed_parabolic", "symexp", "symlog"]


def symlog(value: Tensor) -> Tensor:
    """sign(x) log(1 + |x|), element by element (Hafner et al. 2023, arXiv:2301.04104, equation 9).

    Example:
        >>> symlog(torch.tensor([-100.0, 0.0, 100.0]))
        tensor([-4.6151,  0.0000,  4.6151])
    """
    return value.sign() * value.abs().log1p()


def symexp(value: Tensor) -> Tensor:
    """sign(x) (exp(|x|) - 1), the inverse of `symlog`."""
    return value.sign() * value.abs().expm1()


def signed_hyperbolic(value: Tensor, epsilon: float = 0.001) -> Tensor:
    """sign(x) (sqrt(|x| + 1) - 1) + epsilon x, element by element (Pohlen et al. 2018, arXiv:1805.11593).

    Args:
        value: any shape.
        epsilon: slope far from 0, > 0.

    Raises:
        ValueError: epsilon is not positive.
    """
    _check_epsilon("signed_hyperbolic", epsilon)
    return value.sign() * ((value.abs() + 1).sqrt() - 1) + epsilon * value


def signed_parabolic(value: Tensor, epsilon: float = 0.001) -> Tensor:
    """The inverse of `signed_hyperbolic`.

    Args:
        value: any shape.
        epsilon: what `signed_hyperbolic` was called with, > 0.

    Raises:
        ValueError: epsilon is not positive.
    """
    _check_epsilon("signed_parabolic", epsilon)
    # (sqrt(1 + 4 epsilon t) - 1) / (2 epsilon), in a form without the difference of almost equal numbers
    t = value.abs() + 1 + epsilon
    root = 2 * t / ((1 + 4 * epsilon * t).sqrt() + 1)
    return value.sign() * (root.square() - 1)


def _check_epsilon(name: str, epsilon: float) -> None:
    if epsilon <= 0:
        raise ValueError(f"{name}: epsilon is {epsilon}, expected a positive number.")
