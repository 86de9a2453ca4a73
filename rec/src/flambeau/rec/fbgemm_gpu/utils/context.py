"""Settings that hold for a block of code."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["updated_env"]


@contextmanager
def updated_env(overrides: dict[str, str]) -> Generator[None, None, None]:
    """Variables of the environment for a block; those named are put back afterwards, whatever happens in it.

    Args:
        overrides: by name.
    """
    before = {name: os.environ.get(name) for name in overrides}
    os.environ.update(overrides)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
