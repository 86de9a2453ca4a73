"""What environments of data sets with rewards that can be checked have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from flambeau.rl.envs.llm.chat import DatasetChatEnv
from flambeau.rl.envs.transforms import StepCounter
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["TAGS_PROMPT", "CheckedChatEnv"]

# After the template of DeepSeek-R1, arXiv:2501.12948, table 1.
TAGS_PROMPT = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant "
    "first thinks about the reasoning process in the mind and then provides the user with the answer. The reasoning "
    "process and answer are enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., "
    "<think> reasoning process here </think> <answer> answer here </answer>."
)
"""Asks for thought and answer between the tags that the parsers of rewards read."""


class CheckedChatEnv(DatasetChatEnv):
    """Conversations about the items of a data set, cut off after a number of turns and rewarded by a transform."""

    _LOADER_NAME = "dataloader"
    _DATASET_NAME: str | None = None

    def __init__(
        self,
        *,
        dataset: str,
        shuffle: bool = True,
        num_envs: int = 1,
        repeats: int | None = None,
        batch_size_dl: int = 1,
        seed: int | None = None,
        group_repeats: bool = False,
        tokenizer: Any = None,
        device: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        apply_template: bool | None = False,
        compute_reward: bool = True,
        collate_fn: Callable[[Any], Any] | None = None,
        max_steps: int = 1,
        input_mode: Literal["history", "text", "tokens"] = "history",
        ray_backend: bool = False,
        dataloader_actor_name: str | None = None,
    ) -> None:
        super().__init__(
            dataset=dataset, shuffle=shuffle, name=self._DATASET_NAME, num_envs=num_envs, repeats=repeats,
            batch_size_dl=batch_size_dl, seed=seed, group_repeats=group_repeats, tokenizer=tokenizer, device=device,
            template_kwargs=template_kwargs, apply_template=apply_template,
            collate_fn=self._collate if collate_fn is None else collate_fn, input_mode=input_mode,
            ray_backend=ray_backend,
            dataloader_actor_name=self._LOADER_NAME if dataloader_actor_name is None else dataloader_actor_name,
        )  # fmt: skip
        self._rewarded(compute_reward, max_steps, tokenizer)

    def _rewarded(self, compute_reward: bool, max_steps: int, tokenizer: Any) -> None:
        if max_steps:
            self.append_transform(StepCounter(max_steps=max_steps))
        if compute_reward:
            self.append_transform(self._parser(tokenizer))

    @staticmethod
    def _collate(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
        """Items of the data set as a dictionary of lists, with "query"."""
        raise NotImplementedError

    @staticmethod
    def _parser(tokenizer: Any) -> Transform:
        """The transform that rewards."""
        raise NotImplementedError
