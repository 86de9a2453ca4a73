"""Audio for PyTorch: streaming input and output, signal processing, decoding, speech models with weights.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "backend.common": ("AudioMetaData",),
        "backend.dispatch": (
            "get_audio_backend",
            "info",
            "list_audio_backends",
            "load",
            "load_with_torchcodec",
            "save",
            "save_with_torchcodec",
            "set_audio_backend",
        ),
    },
    submodules=(
        "backend",
        "compliance",
        "datasets",
        "functional",
        "io",
        "kaldi_io",
        "models",
        "pipelines",
        "prototype",
        "recognition",
        "sox_effects",
        "transforms",
        "utils",
    ),
)
