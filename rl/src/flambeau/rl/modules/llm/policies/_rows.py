"""What a wrapper reads from a batch and writes into it, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data.llm.history import History
from flambeau.rl.errors import ChatFormatError
from flambeau.rl.modules.llm.policies.containers import ChatHistory, LogProbs, Masks, Text, Tokens

__all__ = ["Answer", "Row", "read_answer", "stacked", "written"]


@dataclass
class Row:
    """One prompt, or one whole sequence that is scored.

    Attributes:
        tokens: (tokens,), int64, without padding.
        text: what they say; "" where tokens are read.
        history: the conversation they come from, (turns,).
        assistant: (tokens,), bool: what the assistant said, where it is known.
        places: (columns,), bool: where the tokens stand in a padded row that is scored, which the results then follow.
    """

    tokens: Tensor
    text: str = ""
    history: Any = None
    assistant: Tensor | None = None
    places: Tensor | None = None

    def spread(self, values: Tensor) -> Tensor:
        """Values of the tokens, where the tokens stand; 0 elsewhere."""
        if self.places is None:
            return values
        made = values.new_zeros((len(self.places), *values.shape[1:]))
        made[self.places.to(values.device)] = values
        return made


@dataclass
class Answer:
    """What an engine said to a prompt, or thinks of a sequence.

    Attributes:
        log_probs: (tokens,), of the response or of the sequence.
        tokens: (tokens,), of a response.
        complete: whether the response came to its end.
    """

    log_probs: Tensor | None = None
    tokens: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    complete: bool = True


def read_answer(row: Row, text: str, answer: Answer, said: str, wrapper: Any) -> Any:
    """The messages of a response, (turns,): at least the one that the prompt began.

    Args:
        row: the prompt.
        text: prompt and response.
        answer: the response.
        said: the response alone, without special tokens.
        wrapper: whose tokenizer and template are used.
    """
    how = {"chat_template_name": wrapper.chat_template_name, "tokenizer": wrapper.tokenizer}
    try:
        before, after = (
            History.from_text(each, chat_template=wrapper.chat_template, **how) for each in (row.text, text)
        )
    except (ChatFormatError, NotImplementedError):  # a template of which no parser is known
        return _alone(said, answer)
    begun = [message for message in before.unbind(0) if message.is_complete or message.content]
    messages = after[len(begun) :]
    return messages if len(messages) else _alone(said, answer)


def _alone(said: str, answer: Answer) -> Any:
    message = History(role="assistant", content=said.strip(), is_complete=answer.complete, batch_size=())
    return lazy_stack([message])


def written(row: Row, answer: Answer, wrapper: Any) -> dict[str, Any]:
    """The entries of one element of the batch, without padding."""
    made: dict[str, Any] = {}
    if wrapper.generate:
        _write_generated(made, row, answer, wrapper)
    else:
        _write_scored(made, row, answer, wrapper)
    return made


def _write_scored(made: dict[str, Any], row: Row, answer: Answer, wrapper: Any) -> None:
    tokens = row.spread(row.tokens)
    made[wrapper.tokens_key] = Tokens(full=tokens, padded=row.places is not None)
    seen = row.spread(torch.ones_like(row.tokens, dtype=torch.bool))
    made[wrapper.masks_key] = Masks(all_attention_mask=seen, all_assistant_mask=row.assistant, padded=False)
    if answer.log_probs is not None:
        made[wrapper.log_probs_key] = LogProbs(full=row.spread(answer.log_probs), padded=False)
    if wrapper.input_mode != "tokens":
        made[wrapper.text_key] = Text(full=row.text)
    if wrapper.input_mode == "history":
        made[wrapper.history_key] = ChatHistory(full=row.history)


def _write_generated(made: dict[str, Any], row: Row, answer: Answer, wrapper: Any) -> None:
    full = torch.cat([row.tokens, answer.tokens])
    made[wrapper.tokens_key] = Tokens(prompt=row.tokens, response=answer.tokens, full=full, padded=False)
    made[wrapper.masks_key] = Masks(all_attention_mask=torch.ones_like(full, dtype=torch.bool), padded=False)
    if answer.log_probs is not None:
        # Tokens of the prompt were not drawn.
        padded = F.pad(answer.log_probs, (len(row.tokens), 0))
        made[wrapper.log_probs_key] = LogProbs(response=answer.log_probs, full=padded, padded=False)
    if wrapper.input_mode == "tokens":
        return
    decode = wrapper.tokenizer.decode
    response = decode(answer.tokens, skip_special_tokens=False)
    text = row.text + response
    made[wrapper.text_key] = Text(prompt=row.text, response=response, full=text)
    if wrapper.input_mode == "history":
        history = read_answer(row, text, answer, decode(answer.tokens, skip_special_tokens=True), wrapper)
        both = lazy_stack([*row.history.unbind(0), *history.unbind(0)])
        made[wrapper.history_key] = ChatHistory(prompt=row.history, response=history, full=both)


def stacked(elements: Sequence[dict[str, Any]], pad: bool, padding_value: int) -> TensorDict:
    """The entries of a batch, from those of its elements.

    Args:
        elements: see `written`.
        pad: give tensors of one length: prompts and sequences with padding on the left, responses on the right.
        padding_value: the token of padding.
    """
    made = {}
    tokens = next(value for value in elements[0].values() if isinstance(value, Tokens))
    key_of_tokens = next(key for key, value in elements[0].items() if value is tokens)
    prompts = [_prompt_length(element[key_of_tokens]) for element in elements]
    for key in elements[0]:
        parts = [element[key] for element in elements]
        first = parts[0]
        if pad and isinstance(first, Tokens | Masks | LogProbs):
            made[key] = _padded(parts, padding_value if isinstance(first, Tokens) else 0, prompts)
        else:
            made[key] = lazy_stack(parts)
    return TensorDict(made, batch_size=(len(elements),))


def _prompt_length(tokens: Tokens) -> int:
    """After how many tokens the response begins; a sequence that is scored has padding before it alone."""
    response = tokens.get("response", None)
    full = tokens.get("full")
    return len(full) if response is None else len(full) - len(response)


def _padded(parts: Sequence[Any], value: int, prompts: Sequence[int]) -> Any:
    kind = type(parts[0])
    made = kind(padded=True, batch_size=(len(parts),))
    for name in kind._field_names:
        rows: list[Any] = [part.get(name, None) for part in parts] if name != "padded" else [None]
        if any(row is None for row in rows):
            continue
        if name in ("prompt", "response"):
            columns = _to_one_length(rows, value, left=name == "prompt")
        else:
            cut = list(zip(rows, prompts, strict=True))
            before = _to_one_length([row[:at] for row, at in cut], value, left=True)
            columns = torch.cat([before, _to_one_length([row[at:] for row, at in cut], value, left=False)], -1)
        setattr(made, name, columns)
    return made


def _to_one_length(rows: Sequence[Tensor], value: int, left: bool) -> Tensor:
    length = max(len(row) for row in rows)
    sides = [(length - len(row), 0) if left else (0, length - len(row)) for row in rows]
    return torch.stack([F.pad(row, side, value=value) for row, side in zip(rows, sides, strict=True)])
