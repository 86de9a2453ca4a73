"""What FFmpeg and sox can do here, and assets from upstream's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.audio.utils.download import download_asset as download_asset

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"download": ("download_asset",)}, submodules=("ffmpeg_utils", "sox_utils")
)
