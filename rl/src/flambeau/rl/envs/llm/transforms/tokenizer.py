"""Conversations as tokens, from turn to turn."""

from __future__ import annotations

from typing import Any

from torch import Size

from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
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

    def _tokens(self, history: Any) -> Any:
        """Of each conversation, as nested lists of (tokens,) or, of one, such a tensor."""
        options: dict[str, Any] = {
            "chat_template_name": self.chat_template_name, "chat_template": self.chat_template,
            "add_generation_prompt": self.add_generation_prompt,
        }  # fmt: skip
        return history.apply_chat_template(
            tokenizer=self.tokenizer, tokenize=True, return_tensors="pt", return_dict=True, **options
        )["input_ids" if history.ndim < 2 else slice(None)]

    def _written(self, tensordict: Any) -> Any:
        history = tensordict.get(self.history_key, None)
        if history is None:
            raise self._missing(self.history_key, tensordict)
        found = self._tokens(history)
        if history.ndim < 2:
            return tensordict.set(self.tokens_key, found)
        for row, tokens in zip(tensordict.unbind(0), found.unbind(0), strict=True):
            row.set(self.tokens_key, tokens["input_ids"])
        return tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._written(tensordict_reset)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        whole = (*self._root(), "full")
        written = (
            tensordict.get(whole, None, as_padded_tensor=False) if _ragged(tensordict) else tensordict.get(whole, None)
        )
        if written is None or self._longer(tensordict, next_tensordict):
            return self._written(next_tensordict)
        return next_tensordict.set(self.tokens_key, written)

    def _root(self) -> tuple[str, ...]:
        key = self.tokens_key
        return () if isinstance(key, str) else tuple(key[:-1])

    def _longer(self, tensordict: Any, next_tensordict: Any) -> bool:
        """Whether there are messages beyond those that the policy wrote."""
        key = self.history_key
        full = tensordict.get((*((key,) if isinstance(key, str) else key[:-1]), "full"), None)
        prompt = next_tensordict.get(key, None)
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
        spec = Unbounded(Size([*observation_spec.shape, 1]), dtype=self._dtype(), device=observation_spec.device)
        spec.shape = shape
        observation_spec[self.tokens_key] = spec
        return observation_spec

    @staticmethod
    def _dtype() -> Any:
        import torch

        return torch.int64


def _ragged(tensordict: Any) -> bool:
    return hasattr(tensordict, "tensordicts")
