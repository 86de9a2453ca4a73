"""Devices, seeds and retries of tests."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from flambeau.rl._utils import seed_generator

__all__ = [
    "IS_WIN",
    "PYTHON_3_9",
    "capture_log_records",
    "generate_seeds",
    "get_available_devices",
    "get_default_devices",
    "make_tc",
    "mp_ctx",
    "retry",
    "set_global_var",
]

IS_WIN = sys.platform == "win32"
PYTHON_3_9 = sys.version_info < (3, 10)
"""Whether this is Python 3.9, which the package does not run on."""
mp_ctx = "spawn" if IS_WIN else "fork"
"""How tests start processes."""


def __getattr__(name: str) -> Any:
    if name == "dtype_fixture":  # it needs pytest, which the rest does without
        from flambeau.rl.testing._fixtures import dtype_fixture

        return dtype_fixture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def set_global_var(module: Any, var_name: str, value: Any) -> Iterator[None]:
    """Give a module's variable another value for a while.

    Args:
        module: the module.
        var_name: its variable.
        value: the other value.
    """
    before = getattr(module, var_name)
    setattr(module, var_name, value)
    try:
        yield
    finally:
        setattr(module, var_name, before)


def make_tc(td: Any) -> type:
    """A tensorclass whose fields are the keys of a tensordict.

    Args:
        td: the tensordict.
    """
    from flambeau.data.tensordict.tensorclass import tensorclass

    fields = dict.fromkeys(td.keys(), Any)
    made: type = tensorclass(type("MyClass", (), {"__annotations__": fields}))
    return made


def get_available_devices() -> list[torch.device]:
    """The CPU, and all CUDA devices."""
    return [torch.device("cpu"), *(torch.device("cuda", at) for at in range(torch.cuda.device_count()))]


def get_default_devices() -> list[torch.device]:
    """The devices to test on: the CPU without CUDA, a single CUDA device, else all of them and the CPU."""
    count = torch.cuda.device_count()
    return [torch.device("cuda:0")] if count == 1 else get_available_devices()


def generate_seeds(seed: int, repeat: int) -> list[int]:
    """Seeds that follow from one another, the first included.

    Args:
        seed: the first.
        repeat: how many.
    """
    seeds = [seed]
    for _ in range(repeat - 1):
        seeds.append(seed_generator(seeds[-1]))
    return seeds


def retry(
    ExceptionToCheck: type[Exception] | tuple[type[Exception], ...],
    tries: int = 3,
    delay: int = 3,
    skip_after_retries: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator by which a function is called again when it raises.

    Args:
        ExceptionToCheck: what it may raise.
        tries: how often it is called at most.
        delay: seconds between two calls.
        skip_after_retries: skip the test after the last; else the exception comes through.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for left in reversed(range(tries)):
                try:
                    return function(*args, **kwargs)
                except ExceptionToCheck as error:
                    if not left and skip_after_retries:
                        import pytest

                        pytest.skip(f"{function.__name__} raised {error!r} {tries} times")
                    if not left:
                        raise
                    time.sleep(delay)
            return None

        return called

    return decorate


def capture_log_records(records: list[logging.LogRecord], logger_qname: str, record_name: str) -> None:
    """Collect what a logger reports from now on.

    Args:
        records: where records go.
        logger_qname: name of the logger.
        record_name: records whose loggers' names have this in them are collected.
    """

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record_name in record.name:
                records.append(record)

    logger = logging.getLogger(logger_qname)
    logger.addHandler(Collecting())
    logger.setLevel(logging.DEBUG)
