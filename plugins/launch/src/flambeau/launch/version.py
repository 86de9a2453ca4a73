"""The version, and the image that components run in where none is given."""

from __future__ import annotations

from flambeau.launch.util.entrypoints import load

__all__ = ["IMAGE", "TORCHX_IMAGE", "__version__"]

__version__ = "0.1.0"


def _default_image(version: str) -> str:
    return f"ghcr.io/flambeau-ml/launch:{version}"


# Upstream: a distribution can replace the default by the entry point `get_torchx_image` in `torchx.version`.
IMAGE: str = load("torchx.version", "get_torchx_image", default=_default_image)(__version__)
TORCHX_IMAGE = IMAGE
