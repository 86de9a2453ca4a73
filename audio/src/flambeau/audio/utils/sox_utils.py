"""What SoX's effects are, and settings of the program that computes those that are not computed here."""

from __future__ import annotations

import re

from flambeau.audio.sox_effects import _program
from flambeau.audio.sox_effects._native_effects import USAGES
from flambeau.audio.sox_effects.sox_effects import effect_names

__all__ = [
    "get_buffer_size",
    "list_effects",
    "list_read_formats",
    "list_write_formats",
    "set_buffer_size",
    "set_seed",
    "set_use_threads",
    "set_verbosity",
]


def set_seed(seed: int) -> None:
    """Make effects that draw random numbers repeat themselves.

    Args:
        seed: of torch's generator, from which the effects computed here draw. The program has one seed of its own: with
            any number here it uses that one.
    """
    import torch

    torch.manual_seed(seed)
    _program.settings.repeatable = True


def set_verbosity(verbosity: int) -> None:
    """Choose how much the program says; it goes to the logger "flambeau.sox".

    Args:
        verbosity: 0 nothing, 1 failures, 2 warnings, 3 details, 4 to 6 for debugging.

    Raises:
        ValueError: another number.
    """
    if not 0 <= verbosity <= 6:
        raise ValueError(f"set_verbosity: verbosity is {verbosity}, expected 0 to 6.")
    _program.settings.verbosity = verbosity


def set_buffer_size(buffer_size: int) -> None:
    """Choose how much the program works on at once.

    Args:
        buffer_size: bytes, more than 16.

    Raises:
        ValueError: a smaller one.
    """
    if buffer_size <= 16:
        raise ValueError(f"set_buffer_size: buffer_size is {buffer_size}, expected more than 16 bytes.")
    _program.settings.buffer_size = buffer_size


def get_buffer_size() -> int:
    """Bytes that the program works on at once."""
    return _program.settings.buffer_size


def set_use_threads(use_threads: bool) -> None:
    """Choose whether the program computes channels side by side.

    Args:
        use_threads: yes or no; no is the default.
    """
    _program.settings.threads = use_threads


def list_effects() -> dict[str, str]:
    """The effects that work here, and the arguments of each."""
    usages = dict(USAGES)
    if path := _program.program():
        said = _program.answer(path, "--help-effect", "all")
        for text in re.split(r"^Effect usage:\s*$", said, flags=re.MULTILINE)[1:]:
            name, _, arguments = text.strip().partition(" ")
            if re.fullmatch(r"\w+", name.strip()):
                usages[name.strip()] = arguments.strip()
    return {name: usages.get(name, "") for name in effect_names()}


def list_read_formats() -> list[str]:
    """Formats of files that the program reads; none where there is no program."""
    return _formats("Reads")


def list_write_formats() -> list[str]:
    """Formats of files that the program writes; none where there is no program."""
    return _formats("Writes")


def _formats(direction: str) -> list[str]:
    path = _program.program()
    if path is None:
        return []
    listed = re.search(r"^AUDIO FILE FORMATS: (.*)$", _program.answer(path, "--help"), re.MULTILINE)
    names = set(listed[1].split() if listed else [])
    able = _able(_program.answer(path, "--help-format", "all"))
    # Formats of loadable modules are not described all at once.
    for name in sorted(names - able.keys()):
        able |= _able(_program.answer(path, "--help-format", name))
    return sorted(name for name in names if direction in able.get(name, ()))


def _able(description: str) -> dict[str, set[str]]:
    """Format -> "Reads", "Writes", both or neither, from the program's descriptions."""
    found: dict[str, set[str]] = {}
    for text in re.split(r"^Format: ", description, flags=re.MULTILINE)[1:]:
        answers = re.findall(r"^(Reads|Writes):(.*)$", text, re.MULTILINE)
        directions = {name for name, answer in answers if answer.strip() != "no"}
        also = re.search(r"^Also handles:(.*)$", text, re.MULTILINE)
        for name in [text.split(maxsplit=1)[0], *(also[1].split() if also else [])]:
            found[name] = directions
    return found
