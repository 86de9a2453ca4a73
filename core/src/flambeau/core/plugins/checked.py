"""Manifests that were found right before: checking a thousand values anew would be a good part of each listing.

`manifests.json` in the user's cache holds path, size and time of change of each, and the version of the rules. Whatever
is wrong with that file means that nothing is remembered; where it cannot be written every listing checks again.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from flambeau.core.environment import home
from flambeau.core.files import write_atomic
from flambeau.core.hub import addresses
from flambeau.core.manifest import reading, values
from flambeau.core.version import __version__

_FILE = "manifests.json"


class Checked:
    """What is remembered; read once, written by `save` if anything was added."""

    def __init__(self) -> None:
        rules = (reading, values, addresses)
        self._rules: list[object] = [__version__, *(state_of(Path(str(module.__file__))) for module in rules)]
        self._known: dict[str, object] = _read(self._rules)
        self._added: dict[str, object] = {}

    def knows(self, path: Path, state: list[int]) -> bool:
        """Whether the manifest was found right in this state."""
        return self._known.get(str(path)) == state

    def remember(self, path: Path, state: list[int]) -> None:
        """Note that the manifest is right in this state, which is that of before it was read."""
        self._added[str(path)] = state

    def save(self) -> None:
        """Write what was added; nothing depends on it."""
        if not self._added:
            return
        kept = {path: state for path, state in self._known.items() if os.path.isfile(path)}  # noqa: PTH113
        content = json.dumps({"rules": self._rules, "manifests": kept | self._added})
        with contextlib.suppress(OSError):
            home().mkdir(parents=True, exist_ok=True)
            write_atomic(home() / _FILE, content)


def state_of(path: Path) -> list[int]:
    """Size and time of change of a file."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _read(rules: list[object]) -> dict[str, object]:
    try:
        content = json.loads((home() / _FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("rules") != rules or not isinstance(content.get("manifests"), dict):
        return {}
    found: dict[str, object] = content["manifests"]
    return found
