"""Conversations: who said what, as a tensorclass whose batch dimensions are conversations and their turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, NonTensorStack, TensorClass, TensorDict, lazy_stack
from flambeau.rl.data.llm._assistant_masks import assistant_tokens_mask
from flambeau.rl.data.llm._chat_parsing import PARSERS, messages_of
from flambeau.rl.data.llm.chat_templates import CHAT_TEMPLATES, INVERSE_PARSERS, add_template, family_of, template_of

if TYPE_CHECKING:
    from flambeau.rl.data.tensor_specs import Composite

__all__ = ["ContentBase", "History", "add_chat_template"]

_CHAT_TEMPLATES = CHAT_TEMPLATES  # upstream's tests and recipes read it here


def add_chat_template(
    template_name: str,
    template: str,
    inverse_parser: Callable[[str], History] | None = None,
    model_family_keywords: list[str] | None = None,
) -> None:
    """Add a chat template to those that `History` writes and reads.

    Args:
        template_name: by which `chat_template_name` finds it; one of the same name is replaced.
        template: in Jinja, with `{% generation %}` around what the assistant says.
        inverse_parser: makes a history of a text; without one `History.from_text` refuses the template.
        model_family_keywords: words in the names of models that it fits; upper and lower case are alike.

    Raises:
        ValueError: the template marks nothing that the assistant says.

    Example:
        >>> add_chat_template(
        ...     "plain", "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        ... )
    """
    add_template(template_name, template, inverse_parser, model_family_keywords)


class ContentBase(TensorClass["nocast", "shadow"]):  # type: ignore[misc,name-defined]
    """A part of a message: text, a picture, a recording, a file or a call.

    Attributes:
        type: what it is.
        text: the words, of type "text".
        url: where it lies.
        data: what it is itself, in base 64.
        mime_type: of `data`.
        name: of a file.
        size: of a file, bytes.
        function_name: of the function that is called, of type "function_call".
        function_args: what it is called with.

    Example:
        >>> ContentBase(type="text", text="Hello", batch_size=()).text
        'Hello'
    """

    type: Literal["text", "image", "audio", "video", "file", "function_call"]
    text: str | None = None
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size: int | None = None
    function_name: str | None = None
    function_args: dict[str, Any] | None = None


class History(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Messages of one or of many conversations; the last batch dimension counts the turns.

    Attributes:
        role: who speaks: "system", "user", "assistant", "tool" or another.
        content: what is said; one value, or (nested) lists of the batch size.
        is_complete: whether the message has its end.
        tool_calls: the functions that an assistant calls, or None.
        tool_responses: what they returned, or None.

    Example:
        >>> history = History.from_chats([{"role": "user", "content": "Hi"}])
        >>> history.append(History(role="assistant", content="Hello")).content
        ['Hi', 'Hello']
    """

    role: str
    content: str | ContentBase
    is_complete: bool = True
    tool_calls: list[dict[str, Any]] | None = None
    tool_responses: list[str] | None = None

    def __post_init__(self) -> None:
        for name in ("role", "content", "is_complete"):
            value = getattr(self, name)
            if isinstance(value, list) and value:  # one value for each element of the batch
                parts = isinstance(value[0], ContentBase)
                setattr(self, name, lazy_stack(value) if parts else NonTensorStack.from_list(value))

    # --- To text and tokens

    def apply_chat_template(
        self,
        *,
        tokenizer: Any,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        chat_template_name: str | None = None,
        continue_final_message: bool = False,
        tokenize: bool | None = None,
        padding: bool | str = False,
        truncation: bool | str = False,
        return_tensors: str | None = None,
        return_dict: bool | None = None,
        return_assistant_tokens_mask: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Write the conversations as a model reads them.

        Args:
            tokenizer: a tokenizer or processor of transformers.
            add_generation_prompt: end with the beginning of an assistant's message.
            chat_template: in Jinja.
            chat_template_name: one of those known; by default the one that fits the name of the tokenizer's model, and
                "chatml_format" where none does. Upstream: the tokenizer's own template is not asked.
            continue_final_message: leave the last message open.
            tokenize: give tokens; by default where tensors or a mask are asked for.
            padding: see the tokenizer, which sees one conversation at a time.
            truncation: see the tokenizer.
            return_tensors: "pt" by default where there are tokens.
            return_dict: give a TensorDict with "input_ids" and "attention_mask".
            return_assistant_tokens_mask: give what the assistant said as "assistant_masks", 1 or 0 for each token.
            **kwargs: of the tokenizer's `apply_chat_template`.

        Returns:
            Of one conversation a str, tokens of shape (1, tokens), or a TensorDict of (tokens,) each; of many a list
            of those, nested as the batch is, and of TensorDicts a lazy stack. A history without batch dimensions is a
            conversation of one message, whose TensorDict keeps the batch size (1,).

        Raises:
            RuntimeError: there is neither a tokenizer nor a template.
            KeyError: no template has the name.
            ValueError: a mask is asked for without a dictionary of tokens.
        """
        template = chat_template or template_of(tokenizer, chat_template_name)
        if tokenize is None:
            tokenize = bool(return_tensors) or return_assistant_tokens_mask
        if return_dict is None and return_assistant_tokens_mask:
            return_dict = True
        if return_tensors is None and tokenize:
            return_tensors = "pt"
        options = {
            "chat_template": template, "add_generation_prompt": add_generation_prompt, "padding": padding,
            "truncation": truncation, "return_tensors": return_tensors, "return_dict": return_dict,
            "continue_final_message": continue_final_message, "tokenize": tokenize,
            "return_assistant_tokens_mask": return_assistant_tokens_mask, **kwargs,
        }  # fmt: skip
        return self._rendered(tokenizer, options)

    def _rendered(self, tokenizer: Any, options: dict[str, Any]) -> Any:
        if self.ndim > 1:
            rows = [row._rendered(tokenizer, options) for row in self.unbind(0)]
            return lazy_stack(rows) if isinstance(rows[0], TensorDict | LazyStackedTensorDict) else rows
        messages = (self if self.ndim else self.unsqueeze(0)).tolist()
        if not (options["tokenize"] and options["return_dict"]):
            return tokenizer.apply_chat_template(conversation=messages, **options)
        found = _tokens_and_masks(tokenizer, messages, options)
        batched = TensorDict(found, batch_size=(1,))
        return batched[0] if self.ndim else batched

    # --- From text

    @classmethod
    def from_text(
        cls,
        text: str | list[str],
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        tokenizer: Any = None,
    ) -> Self:
        """Read conversations that a chat template wrote.

        Args:
            text: of one conversation, or of many, special tokens included.
            chat_template_name: which template wrote it; by default the one that fits the tokenizer.
            chat_template: the template itself, of those known.
            tokenizer: whose model's name and end of sequence are looked at.

        Returns:
            Of one text (turns,), of many a lazy stack of them. Messages lose white space around them. Of a text that
            ends within a message, that message's `is_complete` is False.

        Raises:
            ChatFormatError: (RuntimeError) the text has no message in this format.
            NotImplementedError: a template of this name is not known, or was added without a parser.
            ValueError: there is no text.
        """
        if not isinstance(text, str):
            texts = list(text)
            if not texts:
                raise ValueError("text is empty; give one conversation or more.")
            return lazy_stack([cls.from_text(each, chat_template_name, chat_template, tokenizer) for each in texts])  # type: ignore[no-any-return]
        if chat_template_name is None:
            known = (name for name, template in CHAT_TEMPLATES.items() if template == chat_template)
            chat_template_name = next(known, None) or family_of(tokenizer)
        if chat_template_name in INVERSE_PARSERS:
            return INVERSE_PARSERS[chat_template_name](text)  # type: ignore[no-any-return]
        if chat_template_name not in PARSERS:
            raise NotImplementedError(
                f"chat_template_name is {chat_template_name!r}, expected one of "
                f"{sorted({*PARSERS, *INVERSE_PARSERS})}; add_chat_template adds others, with an inverse_parser."
            )
        messages = messages_of(text, chat_template_name, getattr(tokenizer, "eos_token", None))
        return lazy_stack([cls(**message, batch_size=()) for message in messages])  # type: ignore[no-any-return]

    @classmethod
    def from_chats(cls, chats: Sequence[Any]) -> Self:
        """Make a history of dictionaries.

        Args:
            chats: a conversation is a list of dictionaries with "role", "content" and other fields; lists of
                conversations nest as the batch does.

        Raises:
            ValueError: a list is empty.
            TypeError: something is neither a list nor a dictionary, or "role" or "content" is missing.
            AttributeError: a dictionary has a key that is no field.
        """
        if isinstance(chats, dict):
            return cls(**chats, batch_size=())
        if isinstance(chats, str | bytes) or not isinstance(chats, Sequence):
            raise TypeError(
                f"chats has a {type(chats).__name__}, expected lists of dictionaries with role and content."
            )
        if not chats:
            raise ValueError("chats has an empty list; a conversation has one message or more.")
        return lazy_stack([cls.from_chats(chat) for chat in chats])  # type: ignore[no-any-return]

    # --- Longer conversations

    def append(self, history: History, *, inplace: bool = True, dim: int = -1) -> History:
        """Add one message to each conversation.

        Args:
            history: without the dimension `dim`.
            inplace: change this history.
            dim: along which; by default the turns.

        Returns:
            This history, or a longer one.

        Raises:
            RuntimeError: this history has no batch dimension, or `history` not one less.
        """
        if not self.ndim:
            raise RuntimeError("A history without batch size takes no further message; call unsqueeze(0) first.")
        if history.ndim != self.ndim - 1:
            raise RuntimeError(
                f"history has {history.ndim} dimensions, expected {self.ndim - 1}, one less than what it is added to."
            )
        dim = self._dim(dim)
        if not dim:
            return self._longer([history], inplace)
        rows = zip(self.unbind(0), history.unbind(0), strict=True)
        return self._become([row.append(added, inplace=False, dim=dim - 1) for row, added in rows], inplace)

    def extend(self, history: History, *, inplace: bool = True, dim: int = 0) -> History:
        """Add messages behind these.

        Args:
            history: of as many dimensions; conversations may be of different lengths.
            inplace: change this history.
            dim: along which.

        Returns:
            This history, or a longer one.

        Raises:
            RuntimeError: this history has no batch dimension, or `history` not as many.
        """
        if not self.ndim:
            raise RuntimeError("A history without batch size takes no further message; call unsqueeze(0) first.")
        if history.ndim != self.ndim:
            raise RuntimeError(f"history has {history.ndim} dimensions, expected {self.ndim}, as what it is added to.")
        dim = self._dim(dim)
        if not dim:
            return self._longer(list(history.unbind(0)), inplace)
        rows = zip(self.unbind(0), history.unbind(0), strict=True)
        return self._become([row.extend(added, inplace=False, dim=dim - 1) for row, added in rows], inplace)

    def _dim(self, dim: int) -> int:
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"dim is {dim}, expected a dimension of a history of {self.ndim}.")
        return dim % self.ndim  # type: ignore[no-any-return]

    def _longer(self, added: list[Any], inplace: bool) -> History:
        inner = self._tensordict
        if inplace and isinstance(inner, LazyStackedTensorDict) and inner.stack_dim == 0 and not inner.is_locked:
            inner.extend([history._tensordict for history in added])  # which others may hold, too
            return self
        return self._become([*self.unbind(0), *added], inplace)

    def _become(self, rows: list[Any], inplace: bool) -> History:
        """These rows, in a new history, or in this one."""
        made = lazy_stack(rows)
        if not inplace:
            return made  # type: ignore[no-any-return]
        object.__setattr__(self, "_tensordict", made._tensordict)
        return self

    @classmethod
    def default_spec(cls, shape: Sequence[int] = (-1,)) -> Composite:
        """The spec of histories, for environments and transforms.

        Args:
            shape: the batch size, whose last number counts the turns; -1 where conversations have different lengths.

        Returns:
            A `Composite` whose values are histories.
        """
        from flambeau.rl.data.tensor_specs import Composite, NonTensor

        def entry(example: Any) -> NonTensor:
            return NonTensor(example_data=example, shape=shape)

        return Composite(
            role=entry(None), content=entry(None), is_complete=entry(True), tool_calls=entry(None),
            tool_responses=entry(None), shape=tuple(shape)[:-1], data_cls=cls,
        )  # fmt: skip


def _tokens_and_masks(tokenizer: Any, messages: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Tensor]:
    """One conversation's tokens, (1, tokens) each, with the mask found in the text where the template marks nothing."""
    marked = not options["return_assistant_tokens_mask"] or "generation" in options["chat_template"]
    asked = options if marked else options | {"return_assistant_tokens_mask": False}
    found = dict(tokenizer.apply_chat_template(conversation=messages, **asked))
    if not marked:
        told = {**options, "tokenize": False, "return_dict": False, "return_assistant_tokens_mask": False}
        text = tokenizer.apply_chat_template(conversation=messages, **told | {"return_tensors": None})
        found["assistant_masks"] = assistant_tokens_mask(tokenizer, text, messages, found["input_ids"])
    return found
