"""Columns of samples: what `input_col` and `output_col` mean, which functions can be used so, and which to keep."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_function(fn: Callable[..., Any]) -> None:
    """Warn about functions that cannot reach another process.

    Raises:
        TypeError: `fn` is not callable.
    """
    if not callable(fn):
        raise TypeError(f"expected a callable, got {type(fn).__name__}: {fn!r}")
    plain = fn.func if isinstance(fn, functools.partial) else fn
    if not inspect.isfunction(plain) or not ("<lambda>" in plain.__qualname__ or "<locals>" in plain.__qualname__):
        return
    if _can_pickle_local_functions():
        return
    kind = "a lambda" if "<lambda>" in plain.__qualname__ else f"the local function {plain.__qualname__!r}"
    warnings.warn(
        f"{kind} cannot be sent to another process; define it at the top of a module, or install cloudpickle.",
        stacklevel=4,
    )


@functools.cache
def _can_pickle_local_functions() -> bool:
    return any(importlib.util.find_spec(name) for name in ("cloudpickle", "dill"))


def check_positional(fn: Callable[..., Any], input_col: Any) -> None:
    """Make sure that a function can be called with the columns it is to be given.

    Args:
        fn: the function.
        input_col: None for the sample itself, a key or index for one column, a list or tuple for several.

    Raises:
        ValueError: it needs keyword-only arguments, or another number of positional ones.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):  # built-in functions and classes need not have a signature
        return
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    name = getattr(fn, "__name__", repr(fn))
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if keywords:
        raise ValueError(f"{name} needs the keyword-only arguments {keywords}; bind them with functools.partial.")
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    needed = sum(p.default is p.empty for p in positional)
    most = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    if given < needed or (most is not None and given > most):
        takes = f"{needed} or more" if most is None else f"{needed} to {most}" if most != needed else str(needed)
        raise ValueError(
            f"{name} takes {takes} positional arguments, but input_col={input_col!r} gives it {given}; choose as many "
            "columns as it takes, or bind the others with functools.partial."
        )


def check_output(input_col: Any, output_col: Any) -> Any:
    """Make sure that output columns fit input columns; returns the output column without the list around it.

    Raises:
        ValueError: output without input, or several outputs.
    """
    if output_col is None:
        return None
    if input_col is None:
        raise ValueError(f"output_col={output_col!r} needs input_col; without it the result replaces the whole sample.")
    if isinstance(output_col, (list, tuple)):
        if len(output_col) != 1:
            raise ValueError(f"output_col has to be one column, got {output_col!r}.")
        return output_col[0]
    return output_col


def column_applier(fn: Callable[..., Any], input_col: Any, output_col: Any) -> Callable[[Any], Any]:
    """The function from sample to sample that applies `fn` to columns, as `map` does.

    Args:
        fn: applied to the whole sample when `input_col` is None, else to the columns.
        input_col: None, a key or index, or a list of them.
        output_col: None: the result takes the first input column's place and the other input columns are dropped; -1:
            it is appended; else the key or index that it replaces, or that is added to a dict.
    """
    if input_col is None:
        return fn
    get = argument_getter(input_col)
    several = isinstance(input_col, (list, tuple))

    def apply(sample: Any) -> Any:
        arguments = get(sample)
        result = fn(*arguments) if several else fn(arguments)
        return put(sample, result, input_col, output_col)

    return apply


def argument_getter(input_col: Any) -> Callable[[Any], Any]:
    """The function that takes one column, or a tuple of several, out of a sample."""
    if input_col is None:
        return lambda sample: sample
    if isinstance(input_col, (list, tuple)):
        columns = tuple(input_col)
        return lambda sample: tuple([column(sample, col) for col in columns])
    return lambda sample: column(sample, input_col)


def column(sample: Any, col: Any) -> Any:
    """One column of a sample; the fields of a named tuple also by name."""
    if isinstance(col, str) and isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return getattr(sample, col)
    return sample[col]


def put(sample: Any, result: Any, input_col: Any, output_col: Any) -> Any:
    """A copy of a sample with a result put into its column; tuples stay tuples, named tuples their own class."""
    fields = getattr(sample, "_fields", None) if isinstance(sample, tuple) else None
    changed = list(sample) if isinstance(sample, tuple) else _shallow(sample)
    if fields is not None:
        input_col, output_col = _positions(fields, input_col), _positions(fields, output_col)
    if output_col is None:
        _replace_inputs(changed, result, input_col)
    elif output_col == -1:
        changed.append(result)
    else:
        changed[output_col] = result
    if not isinstance(sample, tuple):
        return changed
    if fields is not None and len(changed) == len(fields):
        return type(sample)(*changed)
    return tuple(changed)


def _shallow(sample: Any) -> Any:
    # Upstream changes the sample itself, which a second reader of it would see.
    return sample.copy() if hasattr(sample, "copy") and not hasattr(sample, "clone") else sample


def _positions(fields: Sequence[str], col: Any) -> Any:
    if isinstance(col, (list, tuple)):
        return [_positions(fields, one) for one in col]
    return fields.index(col) if isinstance(col, str) else col


def _replace_inputs(changed: Any, result: Any, input_col: Any) -> None:
    if not isinstance(input_col, (list, tuple)):
        changed[input_col] = result
        return
    changed[input_col[0]] = result
    dropped = input_col[1:]
    if isinstance(changed, list):
        dropped = sorted({index % len(changed) for index in dropped}, reverse=True)
    for col in dropped:
        del changed[col]


class Column:
    """Takes one column of a sample."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, sample: Sequence[Any]) -> Any:
        return sample[self.number]


def kept_columns(sequence_length: int, columns_to_skip: Sequence[int] | None) -> list[int]:
    """The columns that get a stream.

    Raises:
        ValueError: none is left, or a column to skip does not exist.
    """
    if sequence_length < 1:
        raise ValueError(f"unzip: sequence_length has to be >= 1, got {sequence_length}.")
    skipped = set(columns_to_skip or ())
    unknown = sorted(skipped - set(range(sequence_length)))
    if unknown:
        raise ValueError(f"unzip: columns_to_skip names {unknown}, columns are 0 to {sequence_length - 1}.")
    kept = [number for number in range(sequence_length) if number not in skipped]
    if not kept:
        raise ValueError("unzip: all columns are skipped; keep at least one.")
    return kept
