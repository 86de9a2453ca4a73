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
__all__ = ["cmake_dir", "disable_torchtext_deprecation_warning"]


def cmake_dir() -> str:
    """The folder of `FlambeauTextConfig.cmake`, for `FlambeauText_DIR`: programs link tokenizers without Python by it.

    Raises:
        FileNotFoundError: the package was installed without its native library.
    """
    from flambeau.text._native import LIBRARY

    if LIBRARY.path is None or not (folder := LIBRARY.path.parent / "cmake").is_dir():
        raise FileNotFoundError("flambeau-text has no native library here; install a wheel, or build it from source.")
    return str(folder)


def disable_torchtext_deprecation_warning() -> None:
    """Do nothing: there is no such warning here. Upstream's programs call it first."""


def __getattr__(name: str) -> Any:
    if name == "_CACHE_DIR":  # read when it is needed, so that FLAMBEAU_HOME may change
        from flambeau.core.hub import cache_dir

        return str(cache_dir("text"))
    return _lazy(name)
