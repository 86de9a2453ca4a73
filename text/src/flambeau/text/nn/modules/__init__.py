"""Attention made of exchangeable parts."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
# isort: off
if TYPE_CHECKING:
    from flambeau.text.nn.modules.multiheadattention import (
        InProjContainer as InProjContainer,
        MultiheadAttentionContainer as MultiheadAttentionContainer,
        ScaledDotProduct as ScaledDotProduct,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"multiheadattention": ("InProjContainer", "MultiheadAttentionContainer", "ScaledDotProduct")},
    submodules=("multiheadattention",),
)
