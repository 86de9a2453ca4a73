"""What upstream offers as prototypes, which it has since dropped; kept here for good."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {}, submodules=("datasets", "functional", "models", "pipelines", "transforms")
)
