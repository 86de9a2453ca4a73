"""IFEval: prompts with instructions that can be checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor

from flambeau.data.tensordict import TensorClass
from flambeau.rl.data.tensor_specs import Composite, NonTensor, Unbounded
from flambeau.rl.envs.llm.datasets._checked import TAGS_PROMPT, CheckedChatEnv
from flambeau.rl.envs.llm.reward.ifeval import IfEvalScorer
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["IFEvalData", "IFEvalEnv", "IfEvalScorer"]


class IFEvalData(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """An item of IFEval, with what a model made of it.

    Attributes:
        key: the item's number, int64.
        instruction_id_list: identifiers of its instructions.
        kwargs: their arguments.
        query: the prompt.
        response: the model's.
        tokens: of the prompt.
        tokens_response: of the response.
        logits: of the response's tokens.
        reward: of the response.
    """

    key: Tensor
    instruction_id_list: list[str]
    kwargs: list[dict[str, Any]]
    query: str
    response: str | None = None
    tokens: Tensor | None = None
    tokens_response: Tensor | None = None
    logits: Tensor | None = None
    reward: Tensor | None = None

    @classmethod
    def default_spec(cls, shape: Any, device: Any = None) -> Composite:
        """The spec of items, for environments.

        Args:
            shape: the batch size.
            device: of numbers.
        """
        import torch

        return Composite(
            key=Unbounded(shape, dtype=torch.int64, device=device),
            instruction_id_list=NonTensor(shape, example_data=["punctuation:no_comma"], device=device),
            kwargs=NonTensor(shape, example_data=[{}], device=device),
            query=NonTensor(shape, example_data="a string", device=device),
            shape=shape,
        )


class IFEvalEnv(CheckedChatEnv):
    """The 541 prompts of IFEval: a model answers, and is rewarded by `IfEvalScorer`.

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
        J. Zhou et al., Instruction-Following Evaluation for Large Language Models, 2023, arXiv:2311.07911.
    """

    SYSTEM_PROMPT = (
        f"{TAGS_PROMPT} The answer alone is judged, by whether it follows every instruction of the question to the "
        "letter: on its length, its words, its language, its format, its capitals and its punctuation."
    )
    _LOADER_NAME = "ifeval_dataloader"

    def __init__(
        self,
        *,
        dataset: str = "google/IFeval",
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
    def _collate(items: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        return {
            "query": [item["prompt"] for item in items],
            "key": torch.tensor([int(item["key"]) for item in items]),
            "instruction_id_list": [list(item["instruction_id_list"]) for item in items],
            "kwargs": [[_given(each) for each in item["kwargs"]] for item in items],
        }

    @staticmethod
    def _parser(tokenizer: Any) -> Transform:
        return IfEvalScorer()


def _given(arguments: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments that an instruction has; the table has a column for each that any has."""
    return {name: value for name, value in (arguments or {}).items() if value is not None}
