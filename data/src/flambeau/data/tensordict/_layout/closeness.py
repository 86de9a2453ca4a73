"""Comparing tensordicts in tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import TensorCollection


def assert_close(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    intersection: bool = False,
    msg: str = "",
    prefix: Any = (),
) -> bool:
    """Raise unless two tensordicts hold the same keys and values up to rounding.

    Args:
        actual: a tensordict.
        expected: another.
        rtol: relative tolerance; by dtype where neither is given, as in `torch.testing.assert_close`.
        atol: absolute tolerance.
        equal_nan: NaNs are equal.
        intersection: compare the keys that both have, and no others.
        msg: put before the message.
        prefix: of the keys in the message.

    Returns:
        True.

    Raises:
        KeyError: the keys differ.
        AssertionError: values differ; the message names the key and the largest difference.
    """
    mine, theirs = list(actual._key_names()), list(expected._key_names())
    odd = sorted(set(mine) ^ set(theirs))
    if odd and not intersection:
        raise KeyError(f"{msg}the keys differ; on one side only: {listing(odd)}.")
    if isinstance(prefix, str):
        prefix = (prefix,)
    if actual._is_lazy_stack and len(expected.batch_size) > actual.stack_dim:
        others = expected.unbind(actual.stack_dim)
        if len(others) != len(actual.tensordicts):
            raise AssertionError(f"{msg}{len(actual.tensordicts)} stacked tensordicts are not {len(others)}.")
        for left, right in zip(actual.tensordicts, others, strict=True):  # their shapes need not agree
            assert_close(left, right, rtol, atol, equal_nan, intersection, msg, prefix)
        return True
    for key in mine:
        if key in odd:
            continue
        left, right, path = actual._get_str(key), expected._get_str(key), (*prefix, key)
        if isinstance(left, TensorCollection) and left._is_non_tensor:
            if left._unwrap() != right._unwrap():
                raise AssertionError(f"{msg}{path}: {left._unwrap()!r} is not {right._unwrap()!r}.")
        elif isinstance(left, TensorCollection):
            assert_close(left, right, rtol, atol, equal_nan, intersection, msg, path)
        else:
            _assert_tensors(left, right, path, rtol, atol, equal_nan, msg)
    return True


def _assert_tensors(left: Tensor, right: Tensor, path: Any, rtol: Any, atol: Any, equal_nan: bool, msg: str) -> None:
    if (rtol is None) != (atol is None):
        rtol, atol = rtol or 0.0, atol or 0.0
    torch.testing.assert_close(
        left,
        right,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=lambda text: f"{msg}{path}: {text}",
    )
