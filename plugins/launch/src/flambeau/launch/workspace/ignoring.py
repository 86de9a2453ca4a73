"""Which files of a workspace stay behind: the patterns of `.torchxignore` and `.dockerignore`."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Patterns"]


class Patterns:
    """Patterns as in `.dockerignore`: relative to the workspace's root, `*` and `?` within a name, `**` over folders.

    A pattern that matches a folder leaves out all below; a line that begins with `!` takes something in again; of
    several matching lines the last one holds.

    Args:
        lines: of the file; empty ones and those that begin with `#` mean nothing.

    Example:
        >>> patterns = Patterns(["*.log", "!keep.log", "data/"])
        >>> [name for name in ("a.log", "keep.log", "data/x", "b.py") if patterns.ignores(name)]
        ['a.log', 'data/x']
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            takes_in = text.startswith("!")
            text = text.removeprefix("!").strip().strip("/")
            if text:
                self._rules.append((re.compile(_expression(text)), takes_in))

    def ignores(self, path: str) -> bool:
        """Whether a file or folder stays behind, given its path below the root with `/` between names."""
        ignored = False
        for pattern, takes_in in self._rules:
            if pattern.fullmatch(path):
                ignored = not takes_in
        return ignored

    def may_take_in_below(self) -> bool:
        """Whether some line takes files in again, so that ignored folders must be looked through."""
        return any(takes_in for _, takes_in in self._rules)


def _expression(pattern: str) -> str:
    parts = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif pattern[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            parts.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\")
            inside = f"^{inside[1:]}" if inside[0] in "!^" else inside
            parts.append(f"[{inside}]")
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return "".join(parts) + "(?:/.*)?"
