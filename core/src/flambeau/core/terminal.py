"""Text from elsewhere, made fit for a terminal: names, versions and descriptions may hold control sequences."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Text without characters that a terminal obeys instead of showing: they become escapes such as `\x1b`.

    Line ends and tabs stay. Escaped are control characters, those that change the direction of writing, separators
    that are no space, private ones, and halves of surrogate pairs, which no encoding can write.

    Example:
        >>> print(printable("\x1b[31mred\x1b[0m"))
        \x1b[31mred\x1b[0m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def json_escaped(text: str) -> str:
    r"""JSON with the same characters written as JSON writes them, `\u001b`; what it means stays the same."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
