"""The best answers to each prompt, kept for training by examples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase, lazy_stack
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["TopKRewardSelector"]


class TopKRewardSelector(Transform):
    """Keep the answers with the largest rewards of those to one prompt, when they are written to a replay buffer.

    Answers wait until `total_dialog_turns` of a prompt are there; then the best are written, the best first.

    Args:
        total_dialog_turns: how many answers to a prompt are compared.
        topk_size: how many of them are written.
        prompt_key: what tells prompts apart.
        rewards_key: of the rewards, whose mean over an answer counts.
        done_key: of the ends; answers are whole.
        verbose: log what is written.

    Raises:
        ValueError: more answers are wanted than there are, or fewer than 1.
        RuntimeError: of `inv`: an answer has no end.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> def answer(reward):
        ...     following = TensorDict(reward=torch.tensor([[reward]]), done=torch.ones(1, 1, dtype=torch.bool))
        ...     return TensorDict({"next": following, ("text", "prompt"): "Why?"})
        >>> best = TopKRewardSelector(total_dialog_turns=3, topk_size=1, verbose=False)
        >>> chosen = best.inv(lazy_stack([answer(reward) for reward in (1.0, 3.0, 2.0)]))
        >>> chosen["next", "reward"].flatten()
        tensor([3.])
    """

    def __init__(
        self, total_dialog_turns: int, topk_size: int, prompt_key: Any = ("text", "prompt"),
        rewards_key: Any = ("next", "reward"), done_key: Any = ("next", "done"), verbose: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if not 1 <= topk_size <= total_dialog_turns:
            raise ValueError(f"topk_size is {topk_size}, expected 1 to total_dialog_turns, {total_dialog_turns}.")
        self.in_keys, self.out_keys = [prompt_key, rewards_key, done_key], []
        self.prompt_key, self.rewards_key, self.done_key = prompt_key, rewards_key, done_key
        self.total_dialog_turns, self.topk_size, self.verbose = total_dialog_turns, topk_size, verbose
        self.queues: dict[Any, list[Any]] = {}

    def forward(self, tensordict: TensorDictBase) -> Any:
        """Data that are read stay as they are."""
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> Any:
        """The best answers of the prompts that these complete, or None."""
        answers = tensordict.reshape(-1).unbind(0) if tensordict.ndim else [tensordict]
        written = [one for answer in answers for one in self._added(answer)]
        return lazy_stack(written) if written else None

    def _added(self, answer: TensorDictBase) -> list[Any]:
        """Put an answer to the others of its prompt; the best where they are complete."""
        if not bool(answer.get(self.done_key).any()):
            raise RuntimeError(f"an answer does not end: {self.done_key!r} is False. Write whole answers.")
        prompt = answer.get(self.prompt_key)
        name = prompt if isinstance(prompt, str) else str(prompt.tolist() if hasattr(prompt, "tolist") else prompt)
        waiting = self.queues.setdefault(name, [])
        waiting.append(answer)
        if len(waiting) < self.total_dialog_turns:
            return []
        del self.queues[name]
        values = torch.stack([self._aggregate_rewards(one.get(self.rewards_key)) for one in waiting])
        best = values.topk(self.topk_size).indices.tolist()
        if self.verbose:
            from flambeau.rl._utils import logger

            logger.info("of %d answers those with rewards %s were written", len(waiting), values[best].tolist())
        return [waiting[at] for at in best]

    def _aggregate_rewards(self, reward: Tensor) -> Tensor:
        """What an answer is worth: the mean of its rewards. A subclass may value it otherwise."""
        return reward.float().mean()
