"""Transforms of environments of language models: prompts, tools, tokens, divergences."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.llm.transforms.browser import BrowserTransform as BrowserTransform
    from flambeau.rl.envs.llm.transforms.dataloading import DataLoadingPrimer as DataLoadingPrimer
    from flambeau.rl.envs.llm.transforms.dataloading import RayDataLoadingPrimer as RayDataLoadingPrimer
    from flambeau.rl.envs.llm.transforms.dataloading import as_nested_tensor as as_nested_tensor
    from flambeau.rl.envs.llm.transforms.dataloading import as_padded_tensor as as_padded_tensor
    from flambeau.rl.envs.llm.transforms.format import TemplateTransform as TemplateTransform
    from flambeau.rl.envs.llm.transforms.kl import KLComputation as KLComputation
    from flambeau.rl.envs.llm.transforms.kl import KLRewardTransform as KLRewardTransform
    from flambeau.rl.envs.llm.transforms.kl import RayKLRewardTransform as RayKLRewardTransform
    from flambeau.rl.envs.llm.transforms.kl import RayRetrieveKL as RayRetrieveKL
    from flambeau.rl.envs.llm.transforms.kl import RetrieveKL as RetrieveKL
    from flambeau.rl.envs.llm.transforms.kl import RetrieveLogProb as RetrieveLogProb
    from flambeau.rl.envs.llm.transforms.policy_version import PolicyVersion as PolicyVersion
    from flambeau.rl.envs.llm.transforms.reason import AddThinkingPrompt as AddThinkingPrompt
    from flambeau.rl.envs.llm.transforms.tokenizer import IncrementalTokenizer as IncrementalTokenizer
    from flambeau.rl.envs.llm.transforms.tokenizer import Tokenizer as Tokenizer
    from flambeau.rl.envs.llm.transforms.tools import ExecuteToolsInOrder as ExecuteToolsInOrder
    from flambeau.rl.envs.llm.transforms.tools import JSONCallParser as JSONCallParser
    from flambeau.rl.envs.llm.transforms.tools import MCPToolTransform as MCPToolTransform
    from flambeau.rl.envs.llm.transforms.tools import PythonExecutorService as PythonExecutorService
    from flambeau.rl.envs.llm.transforms.tools import PythonInterpreter as PythonInterpreter
    from flambeau.rl.envs.llm.transforms.tools import SimpleToolTransform as SimpleToolTransform
    from flambeau.rl.envs.llm.transforms.tools import ToolCall as ToolCall
    from flambeau.rl.envs.llm.transforms.tools import ToolRegistry as ToolRegistry
    from flambeau.rl.envs.llm.transforms.tools import ToolService as ToolService
    from flambeau.rl.envs.llm.transforms.tools import XMLBlockParser as XMLBlockParser

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "browser": ("BrowserTransform",),
        "dataloading": ("DataLoadingPrimer", "RayDataLoadingPrimer", "as_nested_tensor", "as_padded_tensor"),
        "format": ("TemplateTransform",),
        "kl": (
            "KLComputation",
            "KLRewardTransform",
            "RayKLRewardTransform",
            "RayRetrieveKL",
            "RetrieveKL",
            "RetrieveLogProb",
        ),
        "policy_version": ("PolicyVersion",),
        "reason": ("AddThinkingPrompt",),
        "tokenizer": ("IncrementalTokenizer", "Tokenizer"),
        "tools": (
            "ExecuteToolsInOrder",
            "JSONCallParser",
            "MCPToolTransform",
            "PythonExecutorService",
            "PythonInterpreter",
            "SimpleToolTransform",
            "ToolCall",
            "ToolRegistry",
            "ToolService",
            "XMLBlockParser",
        ),
    },
)
