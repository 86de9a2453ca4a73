"""What parsers of answers in tags have in common: reading responses of any mode, rewards, their specs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["AnswerRewardParser", "base_chat_env", "response_texts"]

_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_OUT_KEYS = ["reward_answer", "reward_think", "reward_right", "reward", "success"]


class AnswerRewardParser(Transform):
    """Rewards responses with an answer between tags: right, wrong but in the right form, or without an answer.

    A subclass says what the reference is, and whether an answer equals it.

    Args:
        tokenizer: decodes responses that are tokens, and knows the end of a sequence.
        in_keys: of the whole conversation and of the reference; default: ((input_mode, "full"), "answer").
        out_keys: of the five that are written, each (*batch, 1, 1): whether there is an answer, whether there is a
            thought, the reward, the reward, and whether the answer is right.
        eos_token: is taken off the end of responses; default: the tokenizer's.
        set_done_if_answer: an episode ends with an answer, right or not.
        input_mode: of the environment; default: it is asked.
        format_reward: for a wrong answer between tags.
        correct_reward: for a right one.
    """

    def __init__(
        self,
        tokenizer: Any = None,
        in_keys: list[NestedKey] | None = None,
        out_keys: list[NestedKey] | None = None,
        eos_token: str | None = None,
        set_done_if_answer: bool = True,
        input_mode: Literal["history", "text", "tokens"] | None = None,
        format_reward: float = 0.1,
        correct_reward: float = 1.0,
    ) -> None:
        super().__init__(in_keys, list(_OUT_KEYS) if out_keys is None else out_keys)
        if len(self.out_keys) != len(_OUT_KEYS):
            raise ValueError(f"out_keys are {len(_OUT_KEYS)}, for {_OUT_KEYS}; got {self.out_keys}.")
        self.tokenizer = tokenizer
        self.eos_token = eos_token if eos_token is not None else getattr(tokenizer, "eos_token", None)
        self.set_done_if_answer = set_done_if_answer
        self._input_mode = input_mode
        self.format_reward = format_reward
        self.correct_reward = correct_reward

    @property
    def input_mode(self) -> str:
        """How responses come: as "history", "text" or "tokens".

        Raises:
            ValueError: it was not given, and there is no chat environment to ask.
        """
        return self._input_mode if self._input_mode is not None else str(base_chat_env(self).input_mode)

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of, and find its keys there.

        Args:
            container: as for other transforms.
        """
        super().set_container(container)
        if not self.in_keys and (self._input_mode is not None or _chat_env(self) is not None):
            self.in_keys = [(self.input_mode, "full"), "answer"]

    # What an answer is worth

    def _reference(self, answer: str) -> Any:
        """What answers are compared with, of the data set's entry."""
        raise NotImplementedError

    def _equal(self, answer: str, reference: Any) -> bool:
        raise NotImplementedError

    @staticmethod
    def extract_tags(text: str) -> tuple[str, str]:
        """The first thought and the first answer of a response, without white space around them.

        Args:
            text: with <think>...</think> and <answer>...</answer>, not necessarily well-formed otherwise.

        Returns:
            Both, empty where there is none.
        """
        thought, answer = _THINK.search(text), _ANSWER.search(text)
        return thought[1].strip() if thought else "", answer[1].strip() if answer else ""

    # Data

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        keys = self.in_keys or [(self.input_mode, "full"), "answer"]
        self._reward(tensordict, next_tensordict, keys)
        if self.set_done_if_answer:
            self._end(next_tensordict)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Reward steps of a batch.

        Args:
            tensordict: a step with "next", or the step's end itself; changed in place.
        """
        keys = self.in_keys or [(self.input_mode, "full"), "answer"]
        self._reward(tensordict, tensordict.get("next", tensordict), keys)
        return tensordict

    def _reward(self, tensordict: Any, next_tensordict: Any, keys: Sequence[NestedKey]) -> None:
        texts = response_texts(tensordict, keys[0], self.tokenizer)
        holder = next_tensordict if next_tensordict.get(keys[1], None) is not None else tensordict
        references = holder.get(keys[1], None)
        if references is None:
            raise self._missing(keys[1], next_tensordict)
        answers = references.tolist() if hasattr(references, "tolist") else references
        answers = _flat([answers] if isinstance(answers, str) else answers)
        rows = [self._row(text, answer) for text, answer in zip(texts, answers, strict=True)]
        found = torch.tensor(rows, dtype=torch.float32, device=next_tensordict.device)
        found = found.reshape(*next_tensordict.batch_size, 4, 1, 1).movedim(-3, 0)
        has_answer, has_thought, reward, success = (each.clone() for each in found.unbind(0))
        values = (has_answer, has_thought, reward, reward.clone(), success.bool())
        for key, value in zip(self.out_keys, values, strict=True):
            next_tensordict.set(key, value)

    def _row(self, text: str, answer: str) -> list[float]:
        if self.eos_token:
            text = text.removesuffix(self.eos_token)
        thought, given = self.extract_tags(text)
        right = bool(given) and self._equal(given, self._reference(answer))
        reward = self.correct_reward if right else self.format_reward if given else 0.0
        return [float(bool(given)), float(bool(thought)), reward, float(right)]

    def _end(self, next_tensordict: Any) -> None:
        answered: Tensor = next_tensordict.get(self.out_keys[0]).flatten(-2).any(-1, keepdim=True)
        for key in ("done", "terminated"):
            end = next_tensordict.get(key, None)
            next_tensordict.set(key, answered if end is None else end | answered)

    # Specs

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:  # type: ignore[override]
        """With the five entries.

        Args:
            reward_spec: a composite.
        """
        shape = (*reward_spec.shape, 1, 1)
        for key in (self.out_keys[3], *self.out_keys[:3]):
            reward_spec[key] = Unbounded(shape, dtype=torch.float32, device=reward_spec.device)
        reward_spec[self.out_keys[4]] = Unbounded(shape, dtype=torch.bool, device=reward_spec.device)
        return reward_spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self.in_keys})"


def _chat_env(transform: Transform) -> Any:
    env = transform.parent
    while env is not None and not hasattr(env, "input_mode"):
        env = getattr(env, "base_env", None)
    return env


def base_chat_env(transform: Transform) -> Any:
    """The chat environment that a transform belongs to.

    Raises:
        ValueError: there is none.
    """
    env = _chat_env(transform)
    if env is None:
        raise ValueError(
            f"{type(transform).__name__} is part of no chat environment that says how responses come; give input_mode."
        )
    return env


def response_texts(tensordict: Any, key: NestedKey, tokenizer: Any) -> list[str]:
    """The last message of each conversation, in the order of the flattened batch.

    Args:
        tensordict: with conversations.
        key: (mode, "full") or (mode, "response") of a history, of texts or of tokens.
        tokenizer: decodes tokens.

    Raises:
        KeyError: there is nothing at the key.
        ValueError: tokens without a tokenizer.
    """
    mode, kind = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
    # What was said last is the response where it is there; a whole text cannot be told from its prompt.
    value = tensordict.get((mode, "response"), None) if mode in ("text", "tokens") and kind == "full" else None
    if value is None:
        value = tensordict.get(key, None)
    if value is None:
        raise KeyError(f"There are no responses at {key!r}; there is {sorted(map(str, tensordict.keys(True)))}.")
    if mode == "history":
        return _last_contents(value)
    if isinstance(value, Tensor) or mode == "tokens":
        if tokenizer is None:
            raise ValueError("Responses that are tokens need a tokenizer; give one.")
        rows = value.reshape(-1, value.shape[-1]) if isinstance(value, Tensor) else value
        return [str(tokenizer.decode(row)) for row in rows]
    texts = value.tolist() if hasattr(value, "tolist") else value
    return _flat([texts] if isinstance(texts, str) else texts)


def _last_contents(history: Any) -> list[str]:
    """Of each conversation; a history's last dimension counts turns."""
    if history.ndim > 1:
        return [text for row in history.unbind(0) for text in _last_contents(row)]
    last = history if not history.ndim else history[-1]
    return [str(last.content)]


def _flat(values: Any) -> list[str]:
    found: list[str] = []
    for value in values:
        found += [value] if isinstance(value, str) else _flat(value)
    return found
