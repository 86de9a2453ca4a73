"""Data of language models: conversations, prompts, rewards, and controllers of divergences."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.llm.history import ContentBase as ContentBase
    from flambeau.rl.data.llm.history import History as History
    from flambeau.rl.data.llm.history import add_chat_template as add_chat_template

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"history": ("ContentBase", "History", "add_chat_template")}, submodules=("chat_templates",)
)
