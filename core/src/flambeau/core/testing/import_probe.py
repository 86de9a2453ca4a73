"""A program for a fresh interpreter: import the modules named as arguments, and print as JSON what that did besides.

Core and torch are imported first: what they do is not the plugin's doing. Printed last, on a line of its own: a list
of phrases such as "opens the file x for writing", empty when the imports did nothing but import.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def main(modules: list[str]) -> list[str]:
    """Import, and say what else happened."""
    import torch

    import flambeau.core.weights  # noqa: F401

    effects: dict[str, None] = {}  # ordered, each once
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and (effect := _effect(event, arguments)):
            effects[effect] = None

    def state() -> dict[str, Any]:
        return {
            "environment variables": dict(os.environ),
            "the working directory": os.getcwd(),  # noqa: PTH109
            "Python's random state": random.getstate(),
            "torch's random state": torch.get_rng_state().tolist(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's number of threads": torch.get_num_threads(),
            "torch's gradient mode": torch.is_grad_enabled(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
            "warning filters": list(warnings.filters),
            "the recursion limit": sys.getrecursionlimit(),
            "exception hooks": (sys.excepthook, threading.excepthook),
        }

    before, threads = state(), threading.active_count()
    output = io.StringIO()
    sys.addaudithook(watch)
    with redirect_stdout(output), redirect_stderr(output):
        for module in modules:
            importlib.import_module(module)
    watching = False
    after = state()
    found = list(effects)
    found += [f"changes {name}" for name in before if before[name] != after[name]]
    if threading.active_count() > threads:
        found.append("starts a thread")
    if printed := output.getvalue().strip():
        found.append(f"prints {printed[:80]!r}")
    return found


def _effect(event: str, arguments: tuple[Any, ...]) -> str | None:
    phrase = _EFFECTS.get(event)
    return phrase(arguments) if phrase else None


def _opened(arguments: tuple[Any, ...]) -> str | None:
    path, mode, flags = arguments
    writes = any(letter in (mode or "") for letter in "wax+") or (
        not mode and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    )
    # Compiled bytecode is Python's own business, and a null device no file.
    if not writes or isinstance(path, int) or "__pycache__" in str(path) or str(path) == os.devnull:
        return None
    return f"opens {path} for writing"


_EFFECTS: dict[str, Callable[[tuple[Any, ...]], str | None]] = {
    "open": _opened,
    "os.mkdir": lambda arguments: None if "__pycache__" in str(arguments[0]) else f"makes the folder {arguments[0]}",
    "os.remove": lambda arguments: f"removes {arguments[0]}",
    "os.system": lambda arguments: f"runs {arguments[0]!r}",
    "socket.connect": lambda arguments: f"connects to {arguments[1]}",
    "socket.getaddrinfo": lambda arguments: f"looks up the host {arguments[0]}",
    "subprocess.Popen": lambda arguments: f"runs {arguments[0]!r}",
    "signal.signal": lambda arguments: f"handles signal {arguments[0]}",
}


if __name__ == "__main__":
    result = main(sys.argv[1:])
    sys.stdout.write("\n" + json.dumps(result) + "\n")
