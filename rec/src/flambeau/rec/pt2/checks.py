"""Whether torch is compiling or exporting, and what it may rely on then; each costs nothing otherwise."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

__all__ = [
    "USE_TORCHDYNAMO_COMPILING_PATH",
    "get_use_torchdynamo_compiling_path",
    "is_non_strict_exporting",
    "is_pt2_compiling",
    "is_torchdynamo_compiling",
    "pt2_check_size_nonzero",
    "pt2_checks_all_is_size",
    "pt2_checks_tensor_slice",
    "pt2_guard_or_false",
    "pt2_guard_or_true",
    "set_use_torchdynamo_compiling_path",
]

USE_TORCHDYNAMO_COMPILING_PATH: bool = False


def set_use_torchdynamo_compiling_path(val: bool) -> None:
    """Have code run as if it were compiled, also where it is not: for tests of these paths.

    Args:
        val: whether.
    """
    global USE_TORCHDYNAMO_COMPILING_PATH
    USE_TORCHDYNAMO_COMPILING_PATH = val


def get_use_torchdynamo_compiling_path() -> bool:
    """Whether code runs as if it were compiled."""
    return USE_TORCHDYNAMO_COMPILING_PATH


def is_torchdynamo_compiling() -> bool:
    """Whether `torch.compile`, or a strict export, traces the caller."""
    return USE_TORCHDYNAMO_COMPILING_PATH or bool(torch.compiler.is_dynamo_compiling())


def is_non_strict_exporting() -> bool:
    """Whether `torch.export` runs the caller by Python."""
    return not torch.compiler.is_dynamo_compiling() and bool(torch.compiler.is_compiling())


def is_pt2_compiling() -> bool:
    """Whether torch compiles or exports the caller."""
    return is_torchdynamo_compiling() or bool(torch.compiler.is_compiling())


def pt2_checks_tensor_slice(tensor: Tensor, start_offset: int, end_offset: int, dim: int = 0) -> None:
    """Tell a compiler that two numbers, which it does not know, cut a tensor.

    Args:
        tensor: that will be cut.
        start_offset: 0 to `end_offset`.
        end_offset: up to the size.
        dim: along which it will be.
    """
    if not is_pt2_compiling():
        return
    torch._check(start_offset >= 0)
    torch._check(end_offset >= 0)
    torch._check(start_offset <= tensor.size(dim))
    torch._check(end_offset <= tensor.size(dim))
    torch._check(end_offset - start_offset >= 0)


def pt2_checks_all_is_size(x: list[int]) -> list[int]:
    """Tell a compiler that numbers, which it does not know, are sizes.

    Args:
        x: the numbers.

    Returns:
        The same list.
    """
    if is_pt2_compiling():
        for size in x:
            torch._check(size >= 0)
    return x


def pt2_check_size_nonzero(x: Tensor) -> Tensor:
    """Tell a compiler that a tensor has entries.

    Args:
        x: the tensor.

    Returns:
        The same tensor.
    """
    if is_pt2_compiling():
        for dim in range(x.dim()):
            size = x.size(dim)
            torch._check(size > 0)
    return x


def pt2_guard_or_false(x: bool) -> bool:
    """The value of a condition; False where a compiler cannot know it.

    Args:
        x: the condition.
    """
    return guard_or_false(x) if is_pt2_compiling() else x


def pt2_guard_or_true(x: bool) -> bool:
    """The value of a condition; True where a compiler cannot know it.

    Args:
        x: the condition.
    """
    return guard_or_true(x) if is_pt2_compiling() else x
