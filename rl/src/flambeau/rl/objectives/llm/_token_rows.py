"""Log-probabilities and masks of conversations of different lengths, conversation by conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase

__all__ = [
    "assistant_rows",
    "check_alike",
    "mask_rows",
    "reduced",
    "rows_of",
    "scored_rows",
    "summed",
    "template_options",
]

ASSISTANT = ("masks", "all_assistant_mask")
ATTENTION = ("masks", "all_attention_mask")


def rows_of(tensordict: TensorDictBase, key: Any) -> list[Any] | None:
    """An entry of each conversation, (tokens,), or None where one has none."""
    parts = tensordict.reshape(-1).unbind(0) if tensordict.ndim > 1 else tensordict.unbind(0)
    rows = [part.get(key, None) for part in parts]
    return None if any(row is None for row in rows) else rows


def scored_rows(network: Any, tensordict: TensorDictBase, keys: Any) -> list[Tensor]:
    """The log-probabilities that the network gives the tokens of each conversation.

    Raises:
        KeyError: the history is missing, or the network writes no log-probabilities.
    """
    if rows_of(tensordict, keys.history) is None:
        raise KeyError(f"there is no history at {keys.history!r}; set_keys(history=...) says where it is.")
    rows = rows_of(network(tensordict.copy()), keys.log_probs)
    if rows is None:
        raise KeyError(
            f"the network wrote no log-probabilities at {keys.log_probs!r}; a wrapper with generate=False does."
        )
    return rows


def mask_rows(tensordict: TensorDictBase, key: Any, tokenized: Any) -> list[Tensor]:
    """Which tokens of each conversation count: as the data say, else as its tokens do, made anew."""
    rows = rows_of(tensordict, key)
    return [row.bool() for row in (tokenized() if rows is None else rows)]


def assistant_rows(tensordict: TensorDictBase, history_key: Any, tokenizer: Any, options: dict[str, Any]) -> Any:
    """The conversations' tokens and masks, as a function of what is read of them."""
    how = {"tokenizer": tokenizer, "return_dict": True, **options}

    def read(name: str) -> list[Tensor]:
        if tokenizer is None:
            raise ValueError("tokenizer is missing, and the data have no masks; give one of them.")
        histories = rows_of(tensordict, history_key)
        return [history.apply_chat_template(**how)[name] for history in histories or []]

    return read


def check_alike(rows: Sequence[Tensor], others: Sequence[Tensor], what: str) -> None:
    """Refuse masks or log-probabilities of other tokens.

    Raises:
        ValueError: shapes differ.
    """
    shapes, expected = [tuple(row.shape) for row in others], [tuple(row.shape) for row in rows]
    if shapes != expected:
        raise ValueError(
            f"{what} have shapes {shapes}, the network's log-probabilities {expected}; use the same tokenizer and chat "
            "template for both, and no padding (pad_output=False)."
        )


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """The mean or sum over conversations, or each."""
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def summed(rows: Sequence[Tensor], masks: Sequence[Tensor], by_length: bool) -> Tensor:
    """The sum, or mean, over the tokens that count of each conversation, (conversations,)."""
    each = [
        torch.where(mask, row, 0).sum() / (mask.sum() if by_length else 1)
        for row, mask in zip(rows, masks, strict=True)
    ]
    return torch.stack(each)


def template_options(network: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """How conversations are made tokens: as the network makes them, unless it is said otherwise."""
    own = {name: getattr(network, name, None) for name in ("chat_template_name", "chat_template")}
    return {
        "return_assistant_tokens_mask": True, "tokenize": True, "return_tensors": "pt", "padding": False,
        "add_generation_prompt": False, **{name: value for name, value in own.items() if value is not None},
        **(given or {}),
    }  # fmt: skip
