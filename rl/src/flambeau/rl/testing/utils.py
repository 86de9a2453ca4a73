"""Devices, seeds and retries of tests."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from flambeau.rl._utils import seed_generator

__all__ = ["capture_log_records", "generate_seeds", "get_available_devices", "get_default_devices", "retry"]


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
