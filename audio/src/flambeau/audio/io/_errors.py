"""What goes wrong with media, by name.

::

    MediaError (RuntimeError)
    ├── MediaFileNotFoundError (FileNotFoundError)
    ├── MediaValueError (ValueError)
    ├── MediaTimeoutError (TimeoutError)
    └── MissingFFmpegError (ImportError)
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError


class MediaError(FlambeauError, RuntimeError):
    """Media that cannot be opened, decoded, filtered or written; carries FFmpeg's own words."""


class MediaFileNotFoundError(MediaError, FileNotFoundError):
    """There is no file of this name."""


class MediaValueError(MediaError, ValueError):
    """An argument that no media could make valid."""


class MediaTypeError(MediaValueError, TypeError):
    """What was given is nothing that media can be read from or written to."""


class MediaTimeoutError(MediaError, TimeoutError):
    """A source gave nothing for as long as the caller was willing to wait."""


class MissingFFmpegError(MediaError, ImportError):
    """Neither the ffmpeg program nor PyAV is there for what was asked; the message says how to get them."""
