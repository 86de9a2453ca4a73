"""Pictures and films of policies at work."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "films": ("film",),
        "video": (
            "compose_frame_grid",
            "encode_gif",
            "encode_video",
            "normalize_frame",
            "normalize_frame_output",
            "write_png",
        ),
    },
    submodules=("scenes",),
)
