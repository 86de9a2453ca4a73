"""Tokens by substitutions."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Any

from torch import nn

from flambeau.text._exporting import NotScripted

Substitution = Callable[[str], str]


class RegexTokenizer(NotScripted, nn.Module):
    r"""Replaces what patterns match, one after another, and cuts the result at spaces.

    The syntax is RE2's: `\s`, `\d`, `\w` and `\b` know ASCII alone, `\pL` is a letter of any script, `\1` in a
    replacement is what the first group matched; neither look-around nor references inside patterns. The library
    `google-re2` is used if it is installed, else `regex`, which would also accept look-around.

    Args:
        patterns_list: pairs of a pattern and its replacement.

    Raises:
        ValueError: a pattern or a replacement is invalid.
        ImportError: neither library is installed.

    Example:
        >>> RegexTokenizer([(r"[,.]", " "), (r"\d+", "<num>")])("Basic, 42 tests.")
        ['Basic', '<num>', 'tests']
    """

    def __init__(self, patterns_list: list[tuple[str, str]]) -> None:
        super().__init__()
        self.patterns_list = [(str(pattern), str(replacement)) for pattern, replacement in patterns_list]
        self._substitutions = self._compiled()

    def _compiled(self) -> list[Substitution]:
        return [substitution(pattern, replacement) for pattern, replacement in self.patterns_list]

    def forward(self, line: str) -> list[str]:
        """The tokens of one text; only U+0020 separates them.

        Raises:
            TypeError: it is no str.
        """
        if not isinstance(line, str):
            raise TypeError(f"RegexTokenizer takes a str, got {type(line).__name__}.")
        for substitute in self._substitutions:
            line = substitute(line)
        return [token for token in line.split(" ") if token]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_substitutions"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._substitutions = self._compiled()


def substitution(pattern: str, replacement: str) -> Substitution:
    """The function that replaces all matches of a pattern in RE2's syntax.

    Raises:
        ValueError: the pattern or the replacement is invalid.
        ImportError: no engine is installed.
    """
    for name, compile_pattern in (("re2", _by_re2), ("regex", _by_regex)):
        if importlib.util.find_spec(name) is not None:
            return compile_pattern(pattern, replacement)
    raise ImportError("RegexTokenizer needs an engine: pip install google-re2, or pip install regex.")


def _by_re2(pattern: str, replacement: str) -> Substitution:
    import re2  # type: ignore[import-not-found,unused-ignore]

    try:
        compiled = re2.compile(pattern)
        template = _template(replacement, compiled.groups)
        compiled.sub(template, "")
    except (re2.error, IndexError) as error:
        raise ValueError(f"{pattern!r} with {replacement!r} is no valid substitution: {error}.") from error

    def substitute(line: str) -> str:
        result: str = compiled.sub(template, line)
        return result

    return substitute


def _by_regex(pattern: str, replacement: str) -> Substitution:
    import regex  # type: ignore[import-untyped,unused-ignore]

    try:
        compiled = regex.compile(_ascii_classes(pattern), regex.VERSION0)
        template = _template(replacement, compiled.groups)
        compiled.sub(template, "")
    except (regex.error, IndexError) as error:
        raise ValueError(f"{pattern!r} with {replacement!r} is no valid substitution: {error}.") from error

    def substitute(line: str) -> str:
        result: str = compiled.sub(template, line)
        return result

    return substitute


def _template(replacement: str, groups: int) -> str:
    r"""RE2's replacement as Python's: `\0` is the whole match, and a group's number has one digit.

    Raises:
        IndexError: a group that the pattern does not have.
    """

    def reference(match: re.Match[str]) -> str:
        if match[1] == "\\":
            return match[0]
        if int(match[1]) > groups:
            raise IndexError(f"the replacement names group {match[1]}, the pattern has {groups}")
        return rf"\g<{match[1]}>"

    return re.sub(r"\\(\\|\d)", reference, replacement)


_CLASSES = {"s": r"\t\n\f\r ", "d": "0-9", "w": "0-9A-Za-z_"}
_BOUNDARY = r"(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))"
_NO_BOUNDARY = r"(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))"


def _ascii_classes(pattern: str) -> str:
    r"""The pattern with `\s \d \w \b` and their opposites written out, so that they mean ASCII and `\pL` does not."""
    parts, inside, at = [], False, 0
    while at < len(pattern):
        character = pattern[at]
        pair = pattern[at : at + 2]
        if character == "\\" and len(pair) == 2:
            parts.append(_written_out(pair, inside))
            at += 2
            continue
        if character == "[" and not inside:
            inside = True
            if pattern[at + 1 : at + 3] in ("^]",):
                parts.append("[^\\]")
                at += 3
                continue
        elif character == "]" and inside and parts and parts[-1] not in ("[",):
            inside = False
        parts.append(character)
        at += 1
    return "".join(parts)


def _written_out(pair: str, inside: bool) -> str:
    letter = pair[1]
    if letter in _CLASSES:
        return _CLASSES[letter] if inside else f"[{_CLASSES[letter]}]"
    if letter.lower() in _CLASSES:
        # Inside a class the opposite has no list; its ranges complement ASCII's.
        return f"[^{_CLASSES[letter.lower()]}]" if not inside else _OPPOSITES[letter]
    if not inside and letter in "bB":
        return _BOUNDARY if letter == "b" else _NO_BOUNDARY
    return pair


_OPPOSITES = {
    "S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010FFFF",
    "D": r"\x00-/:-\U0010FFFF",
    "W": r"\x00-/:-@\[-^`{-\U0010FFFF",
}
