"""Process-wide switches: how lists, equal non-tensors and shape operations are treated, and how tensordicts print.

Each switch has an environment variable, a reader, and a `set_...` class that is a context manager, a decorator and,
through `.set()`, a plain setter.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Switch:
    """One boolean setting, read from its environment variable when it is first needed."""

    __slots__ = ("_value", "default", "variable")

    def __init__(self, variable: str, *, default: bool) -> None:
        self.variable, self.default = variable, default
        self._value: bool | None = None

    @property
    def value(self) -> bool:
        """The setting."""
        if self._value is None:
            text = os.environ.get(self.variable, "None")
            # Upstream, imported in the same process, writes "None" into the variable of an undecided switch.
            self._value = self.default if text == "None" else strtobool(text)
        return self._value

    @value.setter
    def value(self, value: bool) -> None:
        self._value = value


def strtobool(val: Any) -> bool:
    """True for "y", "yes", "t", "true", "on", "1", False for "n", "no", "f", "false", "off", "0" (any case).

    Raises:
        ValueError: it is none of these.
    """
    text = str(val).strip().lower()
    if text in ("y", "yes", "t", "true", "on", "1"):
        return True
    if text in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"{val!r} is no truth value; use one of true, false, 1, 0, yes, no, on, off.")


class _DecoratorContextManager:
    """A context manager that decorates functions too; every call of the function enters a fresh copy."""

    def clone(self) -> Any:
        """A fresh one with the same arguments."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no __enter__.")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no __exit__.")

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]


class _SetSwitch(_DecoratorContextManager):
    """Sets a switch, and puts it back at the end of a `with` block."""

    _switch: Switch

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> Any:
        """A fresh one with the same mode."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self._before = self._switch.value
        self._switch.value = self.mode

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self._switch.value = self._before

    def set(self) -> None:
        """Set it for good, and for processes started from now on."""
        self._switch.value = self.mode
        os.environ[self._switch.variable] = str(self.mode)


_LAZY_LEGACY = Switch("LAZY_LEGACY_OP", default=False)
_LIST_TO_STACK = Switch("LIST_TO_STACK", default=True)
_CAPTURE_NON_TENSOR_STACK = Switch("CAPTURE_NONTENSOR_STACK", default=False)


class set_lazy_legacy(_SetSwitch):
    """Whether `view`, `permute`, `transpose`, `squeeze`, `unsqueeze` and `stack` are lazy, as they once were."""

    _switch = _LAZY_LEGACY


class set_list_to_stack(_SetSwitch):
    """Whether a list set as an entry is a stack along the batch dimension (default), or one value."""

    _switch = _LIST_TO_STACK


class set_capture_non_tensor_stack(_SetSwitch):
    """Whether stacking equal non-tensor values collapses them to one `NonTensorData`."""

    _switch = _CAPTURE_NON_TENSOR_STACK


def lazy_legacy(allow_none: bool = False) -> bool:
    """Whether shape operations are lazy; False unless `set_lazy_legacy` or `LAZY_LEGACY_OP` says otherwise."""
    return _LAZY_LEGACY.value


def list_to_stack(allow_none: bool = False) -> bool:
    """Whether a list set as an entry becomes a stack; True unless `set_list_to_stack` or `LIST_TO_STACK` says no."""
    return _LIST_TO_STACK.value


def capture_non_tensor_stack(allow_none: bool = False) -> bool:
    """Whether stacks of equal non-tensor values collapse; False by default, see `set_capture_non_tensor_stack`."""
    return _CAPTURE_NON_TENSOR_STACK.value


def _legacy_lazy(func: F) -> F:
    """Mark a function that lazy legacy mode replaces; the mark is read by nobody else."""
    func._is_legacy_lazy = True  # type: ignore[attr-defined]
    return func


_REPR_OPTIONS: dict[str, Any] = {
    "show_batch_size": True,
    "show_device": True,
    "show_is_shared": True,
    "show_shape": True,
    "show_field_device": True,
    "show_dtype": True,
    "show_field_is_shared": True,
    "show_grad": False,
    "show_is_contiguous": False,
    "show_is_view": False,
    "show_storage_size": False,
    "plain": False,
    "sort_keys": "alphabetical",
}


_CONCISE = ("show_shape", "show_batch_size")
_VERBOSE = [name for name in _REPR_OPTIONS if name.startswith("show_") and name not in _CONCISE]


def get_printoptions() -> dict[str, Any]:
    """The options of `set_printoptions` as they stand; a copy."""
    return dict(_REPR_OPTIONS)


class set_printoptions(_DecoratorContextManager):
    """How tensordicts print, from now on or for a `with` block.

    Args:
        verbose: False starts from little: of the options named `show_...`, shapes and batch sizes alone are on unless
            given.
        kwargs: options by the names that `get_printoptions` lists. `sort_keys` is "alphabetical", None for the order
            of insertion, or a function of an entry's line to sort by; `plain` adds a summary of the values.

    Raises:
        TypeError: an unknown option.
    """

    def __init__(self, *, verbose: bool = True, **kwargs: Any) -> None:
        unknown = kwargs.keys() - _REPR_OPTIONS.keys()
        if unknown:
            raise TypeError(f"no printing option {sorted(unknown)}; there are {sorted(_REPR_OPTIONS)}.")
        self.verbose, self.given = verbose, kwargs
        quiet = {} if verbose else dict.fromkeys(_VERBOSE, False)
        self.options = {**quiet, **kwargs}

    def clone(self) -> set_printoptions:
        """A fresh one with the same options."""
        return type(self)(verbose=self.verbose, **self.given)

    def __enter__(self) -> None:
        self._before = dict(_REPR_OPTIONS)
        _REPR_OPTIONS.update(self.options)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _REPR_OPTIONS.update(self._before)

    def set(self) -> None:
        """Set the options for good."""
        _REPR_OPTIONS.update(self.options)
