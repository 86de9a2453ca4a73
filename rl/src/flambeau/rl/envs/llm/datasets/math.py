"""MATH: problems of competitions in mathematics, answered by an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from flambeau.rl.envs.llm.datasets._checked import TAGS_PROMPT, CheckedChatEnv
from flambeau.rl.envs.llm.reward.math import MATHRewardParser
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["MATHEnv"]


class MATHEnv(CheckedChatEnv):
    """Problems of MATH, 7,500 to train by: a model thinks and answers, and is rewarded by `MATHRewardParser`.

    Args:
        dataset: its name on the Hub, or a local folder with it.
        shuffle: in a random order.
        num_envs: how many conversations at a time.
        repeats: begin so many with each item, for estimates of advantages.
        batch_size_dl: items that the data set gives at a time.
        seed: of the order; default: any.
        group_repeats: the conversations that begin alike are one batch.
        tokenizer: of the model; writes texts and tokens.
        device: of masks and tokens.
        template_kwargs: of `History.apply_chat_template`.
        apply_template: has no effect; `input_mode` says what prompts are.
        compute_reward: reward responses.
        collate_fn: from a list of items to a dictionary of lists.
        max_steps: turns of an episode, after which it is cut off; 0: it is not.
        input_mode: as for `ChatEnv`.
        ray_backend: items come from an actor of Ray, which many environments may share.
        dataloader_actor_name: its name.

    Raises:
        ImportError: datasets is not installed.

    References:
        D. Hendrycks et al., Measuring Mathematical Problem Solving With the MATH Dataset, 2021, arXiv:2103.03874.
    """

    SYSTEM_PROMPT = f"{TAGS_PROMPT} The answer is a mathematical expression, in LaTeX where that is needed."
    _LOADER_NAME = "math_dataloader"

    def __init__(
        self,
        *,
        dataset: str = "DigitalLearningGmbH/MATH-lighteval",
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
            dataset=dataset, shuffle=shuffle, num_envs=num_envs, repeats=repeats, batch_size_dl=batch_size_dl,
            seed=seed, group_repeats=group_repeats, tokenizer=tokenizer, device=device, template_kwargs=template_kwargs,
            apply_template=apply_template, compute_reward=compute_reward, collate_fn=collate_fn, max_steps=max_steps,
            input_mode=input_mode, ray_backend=ray_backend, dataloader_actor_name=dataloader_actor_name,
        )  # fmt: skip

    @staticmethod
    def _collate(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
        return {"query": [item["problem"] for item in items], "answer": [item["solution"] for item in items]}

    @staticmethod
    def _parser(tokenizer: Any) -> Transform:
        return MATHRewardParser(tokenizer=tokenizer)
