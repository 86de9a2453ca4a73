"""Conversations as tokens, from turn to turn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size

from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.llm.transforms._log_probs import model_rows, write_rows
from flambeau.rl.envs.transforms import Tokenizer
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["IncrementalTokenizer", "Tokenizer"]


class IncrementalTokenizer(Transform):
    """Keeps the tokens of a conversation beside it, so that a model reads again exactly what it wrote.

    At resets the conversation is made tokens by the tokenizer. After a step the tokens are those that the policy wrote
    at (root of `tokens_key`, "full"), with its response in them, so that whatever a model keeps of earlier turns
    stays valid; they are made anew where the policy wrote none, or where another transform added messages.

    Args:
        tokenizer: of transformers.
        history_key: of the conversation.
        tokens_key: of its tokens.
        chat_template_name: of the template that it is written by; default: the one that fits the tokenizer.
        chat_template: itself.
        add_generation_prompt: end with the beginning of an assistant's message.

    Example:
        >>> from flambeau.rl.envs.llm import ChatEnv  # doctest: +SKIP
        >>> env = ChatEnv(tokenizer=tokenizer, batch_size=(1,))  # doctest: +SKIP
        >>> env = env.append_transform(IncrementalTokenizer(tokenizer))  # doctest: +SKIP
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        history_key: NestedKey = ("history", "prompt"),
        tokens_key: NestedKey = ("tokens", "prompt"),
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
    ) -> None:
        super().__init__([history_key], [tokens_key])
        self.tokenizer = tokenizer
        self.history_key = history_key
        self.tokens_key = tokens_key
        self.chat_template_name = chat_template_name
        self.chat_template = chat_template
        self.add_generation_prompt = add_generation_prompt

    def _written(self, tensordict: Any) -> Any:
        history = tensordict.get(self.history_key, None)
        if history is None:
            raise self._missing(self.history_key, tensordict)
        tokens = history.apply_chat_template(
            tokenizer=self.tokenizer,
            tokenize=True,
            return_tensors="pt",
            return_dict=True,
            chat_template_name=self.chat_template_name,
            chat_template=self.chat_template,
            add_generation_prompt=self.add_generation_prompt,
        )
        return write_rows(tensordict, self.tokens_key, model_rows(tokens, "input_ids"), False, "left")

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._written(tensordict_reset)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        whole = (*_root(self.tokens_key), "full")
        rows: list[Any] = (
            [row.get(whole, None) for row in tensordict.reshape(-1).unbind(0)] if tensordict.batch_dims else [None]
        )
        if any(row is None for row in rows) or self._longer(tensordict, next_tensordict):
            return self._written(next_tensordict)
        return write_rows(next_tensordict, self.tokens_key, rows, False, "left")

    def _longer(self, tensordict: Any, next_tensordict: Any) -> bool:
        """Whether there are messages beyond those that the policy wrote."""
        full = tensordict.get((*_root(self.history_key), "full"), None)
        prompt = next_tensordict.get(self.history_key, None)
        return full is not None and prompt is not None and full.shape != prompt.shape

    def forward(self, tensordict: Any) -> Any:
        """Write the tokens of data with conversations.

        Args:
            tensordict: changed in place.
        """
        return self._written(tensordict)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With tokens beside the conversations.

        Args:
            observation_spec: a composite.
        """
        shape = Size([*observation_spec.shape, -1])
        spec = Unbounded(Size([*observation_spec.shape, 1]), dtype=torch.int64, device=observation_spec.device)
        spec.shape = shape
        observation_spec[self.tokens_key] = spec
        return observation_spec


def _root(key: NestedKey) -> tuple[str, ...]:
    return () if isinstance(key, str) else tuple(key[:-1])
