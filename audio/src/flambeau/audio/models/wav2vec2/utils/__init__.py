"""Models of other libraries turned into ours."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "import_fairseq": ("import_fairseq_model",),
        "import_huggingface": ("import_huggingface_model",),
    },
)
