"""What differs between the outcomes of one cell on our library and on the peer."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any

from flambeau.core.testing.comparing import difference
from flambeau.core.testing.differential.execution import Failure, Outcome

# A name that a cell misspells, or that nothing has imported yet, fails on both sides in the same way, and would pass.
_NOTHING = re.compile(r"(partially initialized )?module '.*' has no attribute '.*'|name '.*' is not defined", re.DOTALL)


def findings(ours: Outcome, peer: Outcome, *, rtol: float = 1e-5, atol: float = 1e-6) -> list[str]:
    """One line for each part of the outcome that differs: error, result, inputs, output, files; empty where none does.

    Args:
        ours: what our library did.
        peer: what is expected.
        rtol: tolerance of floating-point values relative to the peer's.
        atol: absolute tolerance.
    """
    if ours.failure is not None or peer.failure is not None:
        if ours.failure is None:
            return [f"error: we return {_brief(ours.result)}, the peer raises {peer.failure}"]
        if peer.failure is None:
            return [f"error: we raise {ours.failure}, the peer returns {_brief(peer.result)}"]
        if _NOTHING.fullmatch(ours.failure.message) and _NOTHING.fullmatch(peer.failure.message):
            return [f"error: neither library has what is called: {ours.failure}"]
        same = caught_alike(ours.failure, peer.failure)
        return [] if same else [f"error: we raise {ours.failure}, the peer raises {peer.failure}"]
    return list(_parts(ours, peer, rtol, atol))


def _parts(ours: Outcome, peer: Outcome, rtol: float, atol: float) -> Iterator[str]:
    pairs: list[tuple[str, Any, Any]] = [
        ("result", ours.result, peer.result),
        ("inputs", ours.inputs, peer.inputs),
        ("printed", ours.printed, peer.printed),
        ("files", dict(ours.files), dict(peer.files)),
    ]
    for name, left, right in pairs:
        if fault := difference(left, right, rtol=rtol, atol=atol, where=name):
            yield fault


def caught_alike(ours: Failure, peer: Failure) -> bool:
    """Whether an `except` that catches the peer's error catches ours.

    An error class of the peer's own that we do not have counts as the nearest builtin one above it.
    """
    if peer.classes[0] in ours.classes:
        return True
    if "." in peer.classes[0] or hasattr(builtins, peer.classes[0]):  # a class that both libraries get elsewhere
        return False
    nearest = next(name for name in peer.classes if hasattr(builtins, name))
    return nearest in ours.classes


def _brief(record: Any) -> str:
    if isinstance(record, dict) and "type" in record:
        return f"a {record['type']}"
    text = repr(record)
    return text if len(text) <= 60 else f"{text[:57]}..."
