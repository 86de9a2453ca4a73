"""Tools of language models."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.transforms.tools._base import ToolTransformBase as ToolTransformBase
    from flambeau.rl.envs.llm.transforms.tools._calls import JSONCallParser as JSONCallParser
    from flambeau.rl.envs.llm.transforms.tools._calls import LLMToolParser as LLMToolParser
    from flambeau.rl.envs.llm.transforms.tools._calls import ParseResult as ParseResult
    from flambeau.rl.envs.llm.transforms.tools._calls import ToolCall as ToolCall
    from flambeau.rl.envs.llm.transforms.tools._calls import ToolRegistry as ToolRegistry
    from flambeau.rl.envs.llm.transforms.tools._calls import ToolService as ToolService
    from flambeau.rl.envs.llm.transforms.tools._calls import XMLBlockParser as XMLBlockParser
    from flambeau.rl.envs.llm.transforms.tools._in_order import ExecuteToolsInOrder as ExecuteToolsInOrder
    from flambeau.rl.envs.llm.transforms.tools._in_order import SimpleToolTransform as SimpleToolTransform
    from flambeau.rl.envs.llm.transforms.tools._mcp import MCPToolTransform as MCPToolTransform
    from flambeau.rl.envs.llm.transforms.tools._processes import PersistentPythonProcess as PersistentPythonProcess
    from flambeau.rl.envs.llm.transforms.tools._processes import PythonExecutorService as PythonExecutorService
    from flambeau.rl.envs.llm.transforms.tools._python import PythonInterpreter as PythonInterpreter

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_base": ("ToolTransformBase",),
        "_calls": (
            "JSONCallParser", "LLMToolParser", "ParseResult", "ToolCall", "ToolRegistry", "ToolService",
            "XMLBlockParser",
        ),
        "_in_order": ("ExecuteToolsInOrder", "SimpleToolTransform"),
        "_mcp": ("MCPToolTransform",),
        "_processes": ("PersistentPythonProcess", "PythonExecutorService"),
        "_python": ("PythonInterpreter",),
    },
)  # fmt: skip
