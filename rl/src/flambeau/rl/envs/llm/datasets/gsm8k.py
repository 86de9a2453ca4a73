"""GSM8K: school problems in mathematics, answered by a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from flambeau.data.tensordict import NonTensorData, NonTensorStack
from flambeau.rl.data.tensor_specs import Composite, NonTensor
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.llm.chat import _LoaderMaker
from flambeau.rl.envs.llm.datasets._checked import TAGS_PROMPT, CheckedChatEnv
from flambeau.rl.envs.llm.envs import LLMEnv
from flambeau.rl.envs.llm.reward.gsm8k import GSM8KRewardParser
from flambeau.rl.envs.transforms import StepCounter, TransformedEnv
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["GSM8KEnv", "GSM8KPrepareQuestion", "make_gsm8k_env"]

_PROMPT = f"{TAGS_PROMPT} The answer is a number, and nothing else."


def _questions(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {"query": [item["question"] for item in items], "answer": [item["answer"] for item in items]}


class GSM8KEnv(CheckedChatEnv):
    """Problems of GSM8K, 7,473 to train by: a model thinks and answers, and is rewarded by `GSM8KRewardParser`.

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
        K. Cobbe et al., Training Verifiers to Solve Math Word Problems, 2021, arXiv:2110.14168.
    """

    SYSTEM_PROMPT = _PROMPT
    _LOADER_NAME = "gsm8k_dataloader"
    _DATASET_NAME = "main"

    def __init__(
        self,
        *,
        dataset: str = "openai/gsm8k",
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

    _collate = staticmethod(_questions)

    @staticmethod
    def _parser(tokenizer: Any) -> Transform:
        return GSM8KRewardParser(tokenizer=tokenizer)


class GSM8KPrepareQuestion(Transform):
    """Puts the question of each item into the prompt that asks for thought and answer between tags.

    Args:
        in_keys: of questions; default: "text".
        out_keys: of prompts; default: as `in_keys`.
    """

    def __init__(self, in_keys: list[NestedKey] | None = None, out_keys: list[NestedKey] | None = None) -> None:
        in_keys = ["text"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)

    def _apply_transform(self, question: Any) -> Any:
        if isinstance(question, NonTensorStack):
            return NonTensorStack.from_list(_each(question.tolist()))
        return NonTensorData(_each(getattr(question, "data", question)), [])

    def _call(self, next_tensordict: Any) -> Any:
        """Prompts are put together when an episode begins; later ones have the model's words in them."""
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return super()._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With the prompts.

        Args:
            observation_spec: a composite.
        """
        for _, out_key in self._pairs():
            if out_key not in observation_spec.keys(True):
                observation_spec[out_key] = NonTensor(observation_spec.shape, example_data="a string")
        return observation_spec


def _each(question: Any) -> Any:
    if isinstance(question, list):
        return [_each(each) for each in question]
    return f"{_PROMPT} User: {question}. Assistant: <think>"


def make_gsm8k_env(
    dataset: str = "openai/gsm8k",
    num_envs: int = 1,
    repeats: int | None = None,
    batch_size_dl: int = 1,
    seed: int | None = None,
    group_repeats: bool = False,
    tokenizer: Any = None,
) -> TransformedEnv:
    """Problems of GSM8K as texts, in an `LLMEnv`; `GSM8KEnv` has them as conversations.

    Args:
        dataset: its name on the Hub, or a local folder with it.
        num_envs: how many at a time.
        repeats: each problem comes so many times.
        batch_size_dl: problems that the data set gives at a time.
        seed: of the order; default: any.
        group_repeats: the same problems are one batch.
        tokenizer: of the model.

    Raises:
        ImportError: datasets is not installed.
    """
    loader = _LoaderMaker(dataset, "main", "train", True, batch_size_dl, seed, _texts)()
    env: TransformedEnv = LLMEnv.from_dataloader(
        dataloader=loader, tokenizer=tokenizer, from_text=True, batch_size=(num_envs,), repeats=repeats,
        group_repeats=group_repeats, str_key="text",
    )  # fmt: skip
    env.append_transform(GSM8KPrepareQuestion())
    env.append_transform(StepCounter(max_steps=1))
    parser = GSM8KRewardParser(tokenizer=tokenizer, in_keys=["text_response", "answer"], input_mode="text")
    env.append_transform(parser)
    return env


def _texts(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {"text": [item["question"] for item in items], "answer": [item["answer"] for item in items]}
