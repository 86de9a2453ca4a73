"""The one place where Polars and PyArrow are imported, and where it is known whether they can work."""

from __future__ import annotations

import os

from flambeau.data.frame.errors import ForkedError, missing

try:
    import polars as pl
except ImportError as error:
    raise missing("polars", "frame") from error
try:
    import pyarrow as pa
except ImportError as error:
    raise missing("pyarrow", "frame") from error

__all__ = ["check_process", "pa", "pl"]

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_process() -> None:
    """Refuse to compute in a forked process: Polars' threads do not survive a fork, and it would wait for ever.

    Raises:
        RuntimeError: this process was forked from one that had loaded frames.
    """
    if _forked:
        raise ForkedError(
            "frames cannot compute in a forked process: the engine's threads are not there. Start processes by another "
            'method: DataLoader(..., multiprocessing_context="forkserver"), or use threads.'
        )
