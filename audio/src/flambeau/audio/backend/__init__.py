"""Loading and saving whole recordings, and upstream's modules of backends.

`load`, `save` and `info` choose what is fastest for a format; the backends' names are kept for code that asks for one.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {}, submodules=("common", "no_backend", "soundfile_backend", "sox_io_backend")
)
