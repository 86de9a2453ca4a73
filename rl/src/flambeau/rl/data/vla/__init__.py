"""Data of models of vision, language and action."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.vla.tokenizers import ActionTokenizerBase as ActionTokenizerBase
    from flambeau.rl.data.vla.tokenizers import UniformActionTokenizer as UniformActionTokenizer

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"tokenizers": ("ActionTokenizerBase", "UniformActionTokenizer")}
)
