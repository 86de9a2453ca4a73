"""What a language model reads and writes: conversations, text and tokens; with masks and log-probabilities.

Each holds a prompt, the response to it, and both together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import NonTensorStack, TensorClass, TensorDict, lazy_stack
from flambeau.rl.data.llm.history import History
from flambeau.rl.data.tensor_specs import Composite, NonTensor, TensorSpec, Unbounded

__all__ = ["ChatHistory", "LogProbs", "Masks", "Text", "Tokens"]

_PARTS = ("prompt", "response", "full")
_MASKS = ("all_attention_mask", "all_assistant_mask")


def _spec_of(cls: Any, names: Sequence[str], shape: Sequence[int], entry: Callable[[], TensorSpec]) -> Composite:
    entries: dict[str, Any] = {name: entry() for name in names}
    if "padded" in cls._field_names:
        entries["padded"] = NonTensor(example_data=False, shape=shape)
    return Composite(entries, shape=tuple(shape)[:-1], data_cls=cls)


def _ragged(shape: Sequence[int], dtype: torch.dtype) -> Callable[[], TensorSpec]:
    return lambda: Unbounded(shape=(*shape, -1), dtype=dtype)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """A function of every text in nested lists of them."""
    return [_each(function, one) for one in value] if isinstance(value, list) else function(value)


def _stacked(value: Any) -> Any:
    """Nested lists of texts as an entry of a tensordict."""
    return NonTensorStack.from_list(_each(str, value)) if isinstance(value, list) else value


def _tokens_td(name: str, rows: Any) -> Any:
    """Nested lists of tokens, which may have different lengths, as a tensordict with one entry."""
    if not isinstance(rows, list):
        return TensorDict({name: rows}, [])
    return lazy_stack([_tokens_td(name, row) for row in rows])


def _into(container: Any, name: str, rows: Any) -> None:
    container.update(_tokens_td(name, rows))


def _rows(container: Any, name: str) -> Any:
    """Nested lists of the tensors of each element of the batch, or None."""
    if container.ndim:
        rows = [_rows(one, name) for one in container.unbind(0)]
        return None if any(row is None for row in rows) else rows
    value = container.get(name, None)
    return None if value is None else value


class Tokens(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Tokens, int64, of (*batch, tokens) each; without padding their number differs within the batch.

    Attributes:
        prompt: what the model is given.
        response: what it says.
        full: both.
        padded: whether all have one length.
    """

    prompt: Tensor | None = None
    response: Tensor | None = None
    full: Tensor | None = None
    padded: bool | None = None

    @classmethod
    def default_spec(
        cls, shape: Sequence[int] = (-1,), keys: list[Literal["prompt", "response", "full"]] | None = None
    ) -> Composite:
        """The spec of tokens, for environments and transforms.

        Args:
            shape: the batch size.
            keys: the parts; by default all.
        """
        return _spec_of(cls, keys or _PARTS, shape, _ragged(shape, torch.int64))

    def to_text(self, tokenizer: Any, skip_special_tokens: bool = False) -> Text:
        """Decode the tokens.

        Args:
            tokenizer: which decodes them.
            skip_special_tokens: leave marks out, without which no conversation can be read.

        Raises:
            ValueError: the tokens are padded, so that it is unknown where they end.
        """
        if _flag(self, "padded"):
            raise ValueError("padded tokens have no end that is known; give them without padding.")
        made = Text(batch_size=self.batch_size)
        for name in _PARTS:
            rows = _rows(self, name)
            if rows is not None:
                decoded = _each(lambda row: tokenizer.decode(row, skip_special_tokens=skip_special_tokens), rows)
                setattr(made, name, _stacked(decoded))
        return made

    def to_history(
        self, tokenizer: Any, chat_template_name: str | None = None, skip_special_tokens: bool = False
    ) -> ChatHistory:
        """Decode the tokens and read the conversations.

        Args:
            tokenizer: which decodes them.
            chat_template_name: see `History.from_text`.
            skip_special_tokens: see `to_text`.

        Raises:
            ValueError: the tokens are padded.
            ChatFormatError: (RuntimeError) there is no conversation in them.
        """
        return self.to_text(tokenizer, skip_special_tokens).to_history(tokenizer, chat_template_name)


class Masks(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Which tokens count, bool, of (*batch, tokens) each, for prompt and response together.

    Attributes:
        all_attention_mask: False where there is padding.
        all_assistant_mask: True where the assistant speaks, or None where that is unknown.
        padded: whether all have one length.
    """

    all_attention_mask: Tensor | None = None
    all_assistant_mask: Tensor | None = None
    padded: bool | None = None

    @classmethod
    def default_spec(
        cls,
        shape: Sequence[int] = (-1,),
        keys: list[Literal["all_attention_mask", "all_assistant_mask"]] | None = None,
    ) -> Composite:
        """The spec of masks, for environments and transforms.

        Args:
            shape: the batch size.
            keys: which of them; by default both.
        """
        return _spec_of(cls, keys or _MASKS, shape, _ragged(shape, torch.bool))


class LogProbs(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Log-probabilities of tokens, of (*batch, tokens) each; see `Tokens`.

    Attributes:
        prompt: of the prompt's tokens.
        response: of the response's.
        full: of all; 0 for the first token, which nothing predicts.
        padded: whether all have one length.
    """

    prompt: Tensor | None = None
    response: Tensor | None = None
    full: Tensor | None = None
    padded: bool | None = None

    @classmethod
    def default_spec(
        cls, shape: Sequence[int] = (-1,), keys: list[Literal["prompt", "response", "full"]] | None = None
    ) -> Composite:
        """The spec of log-probabilities, for environments and transforms.

        Args:
            shape: the batch size.
            keys: the parts; by default all.
        """
        return _spec_of(cls, keys or _PARTS, shape, _ragged(shape, torch.float32))


class Text(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Texts, one for each element of the batch.

    Attributes:
        prompt: what the model is given.
        response: what it says.
        full: both.
    """

    prompt: str | None = None
    response: str | None = None
    full: str | None = None

    def __post_init__(self) -> None:
        for name in _PARTS:
            value = getattr(self, name)
            if isinstance(value, list) and value:
                setattr(self, name, _stacked(value))

    @classmethod
    def default_spec(
        cls, shape: Sequence[int] = (-1,), keys: list[Literal["prompt", "response", "full"]] | None = None
    ) -> Composite:
        """The spec of texts, for environments and transforms.

        Args:
            shape: the batch size.
            keys: the parts; by default all.
        """
        return _spec_of(cls, keys or _PARTS, shape, lambda: NonTensor(example_data="a string", shape=shape))

    def to_tokens(
        self, tokenizer: Any, padding: bool = False, truncation: bool = False, return_tensors: str = "pt"
    ) -> Tokens:
        """Encode the texts.

        Args:
            tokenizer: which encodes them.
            padding: not done here.
            truncation: see the tokenizer.
            return_tensors: "pt".

        Returns:
            Tokens without padding; where they have different lengths a lazy stack of them.

        Raises:
            ValueError: padding is asked for.
        """
        if padding:
            raise ValueError("padding is not done here; pad the tokens with get(..., as_padded_tensor=True).")
        made = Tokens(padded=False, batch_size=self.batch_size)
        encoded = {}
        for name in _PARTS:
            value = getattr(self, name)
            if value is not None:
                encoded[name] = _each(lambda text: _encoded(tokenizer, text, truncation, return_tensors), value)
        return _with_tokens(made, encoded)

    def to_history(self, tokenizer: Any, chat_template_name: str | None = None) -> ChatHistory:
        """Read the conversations.

        Args:
            tokenizer: see `History.from_text`.
            chat_template_name: see `History.from_text`.

        Returns:
            Conversations; where there are both, the response is what the full one has behind the prompt.

        Raises:
            ChatFormatError: (RuntimeError) a text is no conversation. A response alone is none: its beginning stands in
                the prompt.
        """
        made = ChatHistory(batch_size=self.batch_size)
        for name in ("prompt", "full"):
            value = getattr(self, name)
            if value is not None:
                setattr(made, name, _read(value, chat_template_name, tokenizer))
        if made.prompt is not None and made.full is not None:
            made.response = _behind(made.full, made.prompt)
        elif self.response is not None:
            made.response = _read(self.response, chat_template_name, tokenizer)
        return made


class ChatHistory(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Conversations, of a batch size with one dimension more, which counts the turns.

    Attributes:
        prompt: what the model is given.
        response: what it says.
        full: both.
    """

    prompt: History | None = None
    response: History | None = None
    full: History | None = None

    @classmethod
    def default_spec(
        cls, shape: Sequence[int] = (-1,), keys: list[Literal["prompt", "response", "full"]] | None = None
    ) -> Composite:
        """The spec of conversations, for environments and transforms.

        Args:
            shape: the batch size.
            keys: the parts; by default all.
        """
        parts = {name: History.default_spec(shape=(*shape, -1)) for name in keys or _PARTS}
        return Composite(parts, shape=tuple(shape), data_cls=cls)

    def to_text(self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None) -> Text:
        """Write the conversations as text.

        Args:
            tokenizer: see `History.apply_chat_template`.
            chat_template_name: likewise.
            chat_template: likewise.

        Returns:
            The prompt ends with the beginning of an answer, the full text with its end. The response is what stands
            behind the prompt, where there are both.

        Raises:
            ValueError: a full text does not begin with its prompt.
        """
        how = {"tokenizer": tokenizer, "chat_template_name": chat_template_name, "chat_template": chat_template}
        made = Text(batch_size=self.batch_size)
        written: dict[str, Any] = {}
        for name, starts in (("prompt", True), ("full", False)):
            history = getattr(self, name)
            if history is not None:
                written[name] = history.apply_chat_template(add_generation_prompt=starts, **how)
        if len(written) == 2:
            written["response"] = _texts_behind(written["full"], written["prompt"])
        for name, value in written.items():
            setattr(made, name, _stacked(value))
        return made

    def to_tokens(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> Tokens:
        """Write the conversations as tokens.

        Args:
            tokenizer: see `History.apply_chat_template`.
            chat_template_name: likewise.
            chat_template: likewise.

        Returns:
            Tokens without padding, as `to_text` says; the response is what the full tokens have behind the prompt's.
        """
        how = {"tokenizer": tokenizer, "chat_template_name": chat_template_name, "chat_template": chat_template}
        encoded: dict[str, Any] = {}
        for name, starts in (("prompt", True), ("full", False)):
            history = getattr(self, name)
            if history is not None:
                tokens = history.apply_chat_template(add_generation_prompt=starts, tokenize=True, **how)
                encoded[name] = _each(lambda row: row.squeeze(0), tokens)
        if len(encoded) == 2:
            encoded["response"] = _tokens_behind(encoded["full"], encoded["prompt"])
        return _with_tokens(Tokens(padded=False, batch_size=self.batch_size), encoded)


def _flag(container: Any, name: str) -> bool:
    value = getattr(container, name)
    while isinstance(value, list):
        value = value[0] if value else False
    return bool(value)


def _encoded(tokenizer: Any, text: str, truncation: bool, return_tensors: str) -> Tensor:
    found: Tensor = tokenizer(text, truncation=truncation, return_tensors=return_tensors)["input_ids"]
    return found.squeeze(0)


def _with_tokens(made: Tokens, encoded: dict[str, Any]) -> Tokens:
    """A container with tokens, as a lazy stack where they have different lengths."""
    if not encoded:
        return made
    if not made.ndim:
        for name, row in encoded.items():
            setattr(made, name, row)
        return made
    rows = [
        _with_tokens(
            Tokens(padded=False, batch_size=made.batch_size[1:]), {name: value[at] for name, value in encoded.items()}
        )
        for at in range(made.batch_size[0])
    ]
    first = rows[0]
    if made.ndim > 1 or any(row.get(name).shape != first.get(name).shape for row in rows for name in encoded):
        return lazy_stack(rows)  # type: ignore[no-any-return]
    for name in encoded:
        setattr(made, name, torch.stack([row.get(name) for row in rows]))
    return made


def _read(value: Any, name: str | None, tokenizer: Any) -> Any:
    return History.from_text(value, chat_template_name=name, tokenizer=tokenizer)


def _behind(full: Any, prompt: Any) -> Any:
    """The messages that a conversation has behind those of its prompt."""
    if full.ndim > 1:
        return lazy_stack([_behind(*pair) for pair in zip(full.unbind(0), prompt.unbind(0), strict=True)])
    said = [message for message in prompt.unbind(0) if message.is_complete or message.content]
    return full[len(said) :]


def _texts_behind(full: Any, prompt: Any) -> Any:
    if isinstance(full, list):
        return [_texts_behind(*pair) for pair in zip(full, prompt, strict=True)]
    if not full.startswith(prompt):
        raise ValueError(f"the full text begins with {full[:80]!r}, expected its prompt, {prompt[:80]!r}.")
    return full[len(prompt) :]


def _tokens_behind(full: Any, prompt: Any) -> Any:
    if isinstance(full, list):
        return [_tokens_behind(*pair) for pair in zip(full, prompt, strict=True)]
    return full[prompt.shape[-1] :]
