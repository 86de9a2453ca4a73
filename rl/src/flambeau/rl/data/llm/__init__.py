"""Data of language models: conversations, prompts, rewards, and controllers of divergences."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.llm.dataset import TensorDictTokenizer as TensorDictTokenizer
    from flambeau.rl.data.llm.dataset import TokenizedDatasetLoader as TokenizedDatasetLoader
    from flambeau.rl.data.llm.dataset import create_infinite_iterator as create_infinite_iterator
    from flambeau.rl.data.llm.dataset import get_dataloader as get_dataloader
    from flambeau.rl.data.llm.history import ContentBase as ContentBase
    from flambeau.rl.data.llm.history import History as History
    from flambeau.rl.data.llm.history import add_chat_template as add_chat_template
    from flambeau.rl.data.llm.prompt import PromptData as PromptData
    from flambeau.rl.data.llm.prompt import PromptTensorDictTokenizer as PromptTensorDictTokenizer
    from flambeau.rl.data.llm.reward import PairwiseDataset as PairwiseDataset
    from flambeau.rl.data.llm.reward import RewardData as RewardData
    from flambeau.rl.data.llm.topk import TopKRewardSelector as TopKRewardSelector
    from flambeau.rl.data.llm.utils import AdaptiveKLController as AdaptiveKLController
    from flambeau.rl.data.llm.utils import ConstantKLController as ConstantKLController
    from flambeau.rl.data.llm.utils import RolloutFromModel as RolloutFromModel

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "dataset": ("TensorDictTokenizer", "TokenizedDatasetLoader", "create_infinite_iterator", "get_dataloader"),
        "history": ("ContentBase", "History", "add_chat_template"),
        "prompt": ("PromptData", "PromptTensorDictTokenizer"),
        "reward": ("PairwiseDataset", "RewardData"),
        "topk": ("TopKRewardSelector",),
        "utils": ("AdaptiveKLController", "ConstantKLController", "RolloutFromModel"),
    },
    submodules=("chat_templates",),
)
