"""Options of containers, devices, protocols and codecs: whether FFmpeg knows those that are given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._program import answer, has_ffmpeg

__all__ = ["check_options"]

# "  -probesize  <int64>  .D.........  set probing size": an option of libraries, with flags of which the second is for
# reading, the first for writing. "-stream_loop number  set number of times ...": one of the program alone.
_OF_LIBRARIES = re.compile(r"^\s+-(\S+)\s+<\w+>\s+([E.][D.])[\w.]{6,}", re.MULTILINE)
_OF_PROGRAM = re.compile(r"^-(\w+)", re.MULTILINE)


def check_options(names: Iterable[str], *, writing: bool = False, program: bool = False) -> None:
    """Refuse options that no part of FFmpeg has. Without the program there is nobody to ask.

    Args:
        names: of the options.
        writing: whether they are for writing, else for reading.
        program: whether those of the program itself are options, too.

    Raises:
        MediaError: some are unknown.
    """
    names = list(names)
    if not names or not has_ffmpeg():
        return
    text = answer("-h full")
    known = _known(text, "E" if writing else "D") | (_known_to_program(text) if program else frozenset())
    if unknown := [name for name in names if name.partition(":")[0] not in known]:
        raise MediaError(f"Unexpected options: {', '.join(unknown)}. `ffmpeg -h full` lists those that there are.")


@lru_cache(maxsize=4)
def _known(text: str, flag: str) -> frozenset[str]:
    return frozenset(name for name, flags in _OF_LIBRARIES.findall(text) if flag in flags)


@lru_cache(maxsize=4)
def _known_to_program(text: str) -> frozenset[str]:
    return frozenset(_OF_PROGRAM.findall(text))
