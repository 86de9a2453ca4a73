"""Scores of IFEval, and the reward that they come to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorClass, lazy_stack
from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.llm.reward._answers import base_chat_env, response_texts
from flambeau.rl.envs.llm.reward.ifeval._instructions import follows, follows_loosely
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["IFEvalScoreData", "IfEvalScorer"]

_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_WEIGHTS = (0.4, 0.3, 0.2, 0.1)
ANSWER_BONUS, THOUGHT_BONUS = 0.1, 0.05


class IFEvalScoreData(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Which instructions a response follows; loosely: if its first or last line and its asterisks may be left out.

    Attributes:
        prompt_level_strict_acc: (1,), bool: all of them.
        inst_level_strict_acc: (instructions,), bool: each of them.
        prompt_level_loose_acc: (1,), bool: all of them, loosely.
        inst_level_loose_acc: (instructions,), bool: each of them, loosely.
    """

    prompt_level_strict_acc: Tensor | None
    inst_level_strict_acc: Tensor | None
    prompt_level_loose_acc: Tensor | None
    inst_level_loose_acc: Tensor | None

    @classmethod
    def default_spec(cls, shape: Size, device: torch.device | None = None) -> Composite:
        """The spec of scores.

        Args:
            shape: the batch size.
            device: of the scores.
        """
        entries = {name: Unbounded(shape, dtype=torch.bool, device=device) for name in _FIELDS}
        return Composite(entries, shape=Size(shape)[:-1], device=device, data_cls=cls)


_FIELDS = ("prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc")


class IfEvalScorer(Transform):
    """Scores responses to prompts of IFEval by the instructions that they follow, and rewards them.

    What is scored is the first answer between `<answer>` tags; a response without one follows nothing. The default
    reward is the weighted sum of the four scores, of which those by instruction are means, and 0.1 for exactly one
    answer and 0.05 for exactly one thought, between `<think>` tags: at most 1.15, and 0 without an answer.

    Args:
        instruction_ids_key: of the lists of instructions' identifiers.
        prompt_key: of prompts.
        keyword_args_key: of the lists of instructions' arguments.
        id_key: of prompts' numbers.
        response_column: of responses, in data without conversations.
        score_key: of the scores, an `IFEvalScoreData`.
        aggregate_reward: write a reward; or a function that makes it, of an `IFEvalScoreData` and, where it takes them,
            the keyword arguments `think_blocks`, `answer_blocks` and `complete`.
        format_weights: of the four scores, in the order of their fields; default: 0.4, 0.3, 0.2, 0.1.
        verbose: has no effect; what was scored is in the data.
        set_done_if_answer: an episode ends with an answer.

    Note:
        Instructions on languages need langdetect. Sentences are counted, and capital words found, by NLTK where it is
        installed, with its Punkt model: the published scores are.

    References:
        J. Zhou et al., Instruction-Following Evaluation for Large Language Models, 2023, arXiv:2311.07911.
    """

    def __init__(
        self,
        *,
        instruction_ids_key: NestedKey = "instruction_id_list",
        prompt_key: NestedKey = "text",
        keyword_args_key: NestedKey = "kwargs",
        id_key: NestedKey = "key",
        response_column: NestedKey = "text_response",
        score_key: NestedKey = "ifeval_score",
        aggregate_reward: bool | Callable[..., Tensor] = True,
        format_weights: list[float] | None = None,
        verbose: bool = False,
        set_done_if_answer: bool = True,
    ) -> None:
        in_keys = [instruction_ids_key, prompt_key, keyword_args_key, id_key, response_column]
        super().__init__(in_keys, [score_key, "reward"] if aggregate_reward else [score_key])
        weights = list(_WEIGHTS) if format_weights is None else list(format_weights)
        if len(weights) != len(_FIELDS):
            raise ValueError(f"format_weights are {len(_FIELDS)}, one for each of {_FIELDS}; got {weights}.")
        self.instruction_ids_key = instruction_ids_key
        self.keyword_args_key = keyword_args_key
        self.prompt_key = prompt_key
        self.id_key = id_key
        self.response_key = response_column
        self.score_key = score_key
        self.aggregate_reward = aggregate_reward
        self.format_weights = weights
        self.verbose = verbose
        self.set_done_if_answer = set_done_if_answer

    @property
    def expected_keys(self) -> list[NestedKey]:
        """What is read."""
        return list(self.in_keys)

    def default_reward_aggregator(
        self,
        score: IFEvalScoreData,
        think_blocks: list[str] | None = None,
        answer_blocks: list[str] | None = None,
        complete: bool | Tensor | None = None,
    ) -> Tensor:
        """The reward that scores come to.

        Args:
            score: of one response.
            think_blocks: its thoughts.
            answer_blocks: its answers; None where that is not asked: without a bonus.
            complete: has no effect.

        Returns:
            (1, 1), float32.
        """
        values = [getattr(score, name).float().mean() for name in _FIELDS]
        weights = zip(self.format_weights, values, strict=True)
        reward = torch.stack([weight * value for weight, value in weights]).sum()
        bonus = ANSWER_BONUS * (len(answer_blocks or ()) == 1) + THOUGHT_BONUS * (len(think_blocks or ()) == 1)
        return (reward + bonus).reshape(1, 1)

    # Data

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._scored(tensordict, next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Score steps of a batch.

        Args:
            tensordict: a step with "next", or the step's end itself; changed in place.
        """
        self._scored(tensordict, tensordict.get("next", tensordict))
        return tensordict

    def _responses(self, tensordict: Any) -> list[str]:
        if tensordict.get("history", None) is not None:
            return response_texts(tensordict, ("history", "full"), None)
        if self.parent is not None and (mode := base_chat_env(self).input_mode) != "history":
            return response_texts(tensordict, (mode, "full"), base_chat_env(self).tokenizer)
        return response_texts(tensordict, self.response_key, None)

    def _scored(self, tensordict: Any, next_tensordict: Any) -> Any:
        responses = self._responses(tensordict)
        holder = next_tensordict if next_tensordict.get(self.instruction_ids_key, None) is not None else tensordict
        flat = holder.reshape(-1) if holder.batch_dims != 1 else holder
        rows = []
        for row, response in zip(flat.unbind(0), responses, strict=True):
            rows.append(self._row(row, response))
        size = next_tensordict.batch_size
        scores = lazy_stack([score for score, _, _ in rows])
        next_tensordict.set(self.score_key, scores.reshape(size) if len(size) != 1 else scores)
        if self.aggregate_reward:
            rewards = torch.stack([reward for _, reward, _ in rows])
            next_tensordict.set("reward", rewards.reshape(*size, *rewards.shape[1:]).to(next_tensordict.device))
        if self.set_done_if_answer:
            self._end(next_tensordict, torch.tensor([answered for _, _, answered in rows]).reshape(*size, 1))
        return next_tensordict

    def _row(self, row: Any, response: str) -> tuple[IFEvalScoreData, Tensor, bool]:
        """Score, reward, and whether there is an answer, of one response."""
        identifiers, arguments = _listed(row.get(self.instruction_ids_key)), _listed(row.get(self.keyword_args_key))
        if len(identifiers) != len(arguments):
            raise ValueError(f"There are {len(identifiers)} instructions, and arguments of {len(arguments)}.")
        thoughts, answers = _THINK.findall(response), _ANSWER.findall(response)
        answer = answers[0] if answers else ""
        checks = [(name, given or {}, answer) for name, given in zip(identifiers, arguments, strict=True)]
        strict, loose = [follows(*check) for check in checks], [follows_loosely(*check) for check in checks]
        score = IFEvalScoreData(
            prompt_level_strict_acc=torch.tensor([all(strict)]),
            inst_level_strict_acc=torch.tensor(strict),
            prompt_level_loose_acc=torch.tensor([all(loose)]),
            inst_level_loose_acc=torch.tensor(loose),
            batch_size=(),
        )
        return score, self._rewarded(score, thoughts, answers), bool(answers)

    def _rewarded(self, score: IFEvalScoreData, thoughts: list[str], answers: list[str]) -> Tensor:
        if callable(self.aggregate_reward):
            return self.aggregate_reward(score, think_blocks=thoughts, answer_blocks=answers)
        if not answers:
            return torch.zeros(1, 1)
        return self.default_reward_aggregator(score, think_blocks=thoughts, answer_blocks=answers)

    @staticmethod
    def _end(next_tensordict: Any, answered: Tensor) -> None:
        for key in ("done", "terminated"):
            end = next_tensordict.get(key, None)
            next_tensordict.set(key, answered if end is None else end | answered.to(end.device))

    # Specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With the scores.

        Args:
            observation_spec: a composite.
        """
        shape = observation_spec.shape
        spec = IFEvalScoreData.default_spec(shape, observation_spec.device)
        spec.shape = shape
        observation_spec[self.score_key] = spec
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:  # type: ignore[override]
        """With the reward.

        Args:
            reward_spec: a composite.
        """
        if self.aggregate_reward:
            reward_spec["reward"] = Unbounded(
                (*reward_spec.shape, 1, 1), dtype=torch.float32, device=reward_spec.device
            )
        return reward_spec


def _listed(value: Any) -> list[Any]:
    """A list, however it is wrapped."""
    value = getattr(value, "data", value)
    return list(value.tolist() if hasattr(value, "tolist") else value)
