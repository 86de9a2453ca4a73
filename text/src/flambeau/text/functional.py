"""From tokens and ids to tensors, as functions of one sequence or many."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Any, NoReturn, overload

import torch
from torch import Tensor

__all__ = ["add_token", "str_to_int", "to_tensor", "truncate"]


def to_tensor(input: Any, padding_value: int | None = None, dtype: torch.dtype = torch.long) -> Tensor:
    """Ids as a tensor.

    Args:
        input: list of int, or list of lists of int.
        padding_value: fills up the rows that are shorter than the longest; needed if any is.
        dtype: of the tensor of many sequences. Upstream: one sequence is int64 whatever is asked for.

    Returns:
        (ids,) for one sequence, (sequences, most ids) for many.

    Raises:
        TypeError: another type: tuples, floats, tensors, mixed lists.
        ValueError: rows of different lengths without `padding_value`.

    Example:
        >>> to_tensor([[5, 6], [7]], padding_value=1)
        tensor([[5, 6],
                [7, 1]])
    """
    if not isinstance(input, list):
        _refuse("to_tensor", input, "a list of int or a list of lists of int")
    if not input or not isinstance(input[0], list):
        return _integers(input)
    if not set(map(type, input)) <= {list}:
        _refuse("to_tensor", input, "a list of int or a list of lists of int")
    lengths = set(map(len, input))
    width = max(lengths)
    rows = input
    if len(lengths) > 1:
        if padding_value is None:
            _integers(chain.from_iterable(input))  # what is no number is another error, and comes first
            raise ValueError(f"Rows have {min(lengths)} to {width} ids; give padding_value, which fills them up.")
        filling = [padding_value] * width
        rows = [row + filling[len(row) :] for row in input]
    return _integers(chain.from_iterable(rows)).view(len(rows), width).to(dtype)


@overload
def truncate(input: list[int], max_seq_len: int) -> list[int]: ...
@overload
def truncate(input: list[str], max_seq_len: int) -> list[str]: ...
@overload
def truncate(input: list[list[int]], max_seq_len: int) -> list[list[int]]: ...
@overload
def truncate(input: list[list[str]], max_seq_len: int) -> list[list[str]]: ...


def truncate(input: Any, max_seq_len: int) -> Any:
    """The first tokens of a sequence, or of each of many.

    Args:
        input: list of int or of str, or list of such lists.
        max_seq_len: how many to keep; a negative number says, as in a slice, how many to cut off at the end.

    Raises:
        TypeError: another type.
    """
    if _kind("truncate", input).many:
        return [tokens[:max_seq_len] for tokens in input]
    return input[:max_seq_len]


def add_token(input: Any, token_id: Any, begin: bool = True) -> Any:
    """A sequence, or each of many, with a token more.

    Args:
        input: list of int or of str, or list of such lists.
        token_id: int, or str among str.
        begin: put it in front; False puts it at the end.

    Raises:
        TypeError: another type, or a token unlike the others.
    """
    kind = _kind("add_token", input)
    if not isinstance(token_id, kind.of):
        names = " or ".join(one.__name__ for one in kind.of)
        raise TypeError(f"add_token got the token {token_id!r} for a list of {names}; expected one of these.")
    extra = [token_id]
    if kind.many:
        return [extra + tokens for tokens in input] if begin else [tokens + extra for tokens in input]
    return extra + input if begin else input + extra


@overload
def str_to_int(input: list[str]) -> list[int]: ...
@overload
def str_to_int(input: list[list[str]]) -> list[list[int]]: ...


def str_to_int(input: Any) -> Any:
    """Ids as numbers, from ids as strings.

    Args:
        input: list of str, or list of lists of str.

    Raises:
        TypeError: another type.
        ValueError: a string is no whole number.
    """
    kind = _kind("str_to_int", input)
    if str not in kind.of:
        _refuse("str_to_int", input, "a list of str or a list of lists of str")
    return [list(map(int, tokens)) for tokens in input] if kind.many else list(map(int, input))


class _Kind:
    """What a list holds: one sequence or many, of what."""

    __slots__ = ("many", "of")

    def __init__(self, many: bool, of: tuple[type, ...]) -> None:
        self.many, self.of = many, of


_ANY = (int, str)
# Sets of exact types are compared first, for which one pass in C suffices; subclasses take a second look.
_KINDS: dict[tuple[bool, frozenset[type]], _Kind] = {
    (many, types): _Kind(many, of)
    for many in (False, True)
    for types, of in ((frozenset({int}), (int,)), (frozenset({str}), (str,)), (frozenset[type](), _ANY))
}


def _kind(function: str, input: Any) -> _Kind:
    if not isinstance(input, list):
        _refuse(function, input)
    many = bool(input) and isinstance(input[0], list)
    if many and set(map(type, input)) != {list}:
        _refuse(function, input)
    types = frozenset(map(type, chain.from_iterable(input) if many else input))
    known = _KINDS.get((many, types))
    if known is None:
        known = next((_Kind(many, (of,)) for of in _ANY if all(issubclass(one, of) for one in types)), None)
    return known if known is not None else _refuse(function, input)


def _integers(values: Any) -> Tensor:
    try:
        numbers = array("q", values)
    except TypeError as error:
        raise TypeError(f"to_tensor takes ids that are int ({error}).") from error
    return torch.frombuffer(numbers, dtype=torch.int64) if numbers else torch.empty(0, dtype=torch.int64)


def _refuse(function: str, input: Any, wanted: str = "a list of int or of str, or a list of such lists") -> NoReturn:
    raise TypeError(f"{function} takes {wanted}, not a {type(input).__name__}: {input!r:.60}.")
