"""Tokenizers, vocabularies, language models with pretrained weights, and text datasets for PyTorch.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_TEXT_BUCKET = "https://download.pytorch.org/models/text/"
_CACHE_DIR: str

_lazy, __dir__, _ = lazy_exports(
    __name__,
    {},
    submodules=(
        "data", "datasets", "experimental", "functional", "models", "nn", "prototype", "transforms", "utils", "vocab"
    ),
)  # fmt: skip
__all__ = ["disable_torchtext_deprecation_warning"]


def disable_torchtext_deprecation_warning() -> None:
    """Do nothing: there is no such warning here. Upstream's programs call it first."""


def __getattr__(name: str) -> Any:
    if name == "_CACHE_DIR":  # read when it is needed, so that FLAMBEAU_HOME may change
        from flambeau.core.hub import cache_dir

        return str(cache_dir("text"))
    return _lazy(name)
