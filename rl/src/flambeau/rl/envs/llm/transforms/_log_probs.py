"""Log-probabilities by conversation: of tensors of one length, and of lazy stacks of different ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict, lazy_stack
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.modules.llm.policies import ChatHistory

__all__ = ["conversation", "masked", "model_rows", "write_rows"]


def conversation(tensordict: Any, next_tensordict: Any, model: Any) -> Any:
    """What a model is to score: what a step has led to, at the key that it reads.

    Raises:
        KeyError: there is no such conversation.
    """
    mode = model.input_mode
    for holder, part in ((tensordict, "full"), (next_tensordict, "full"), (next_tensordict, "prompt")):
        whole = holder.get(mode, None)
        value = None if whole is None else whole.get(part, None)
        if value is None:
            continue
        if mode == "history":
            whole = ChatHistory(full=value, batch_size=whole.batch_size)
        return TensorDict({}, whole.batch_size).set(mode, whole)
    raise KeyError(
        f"There is no conversation at ({mode!r}, 'full'); there is {sorted(map(str, tensordict.keys(True)))}."
    )


def model_rows(tensordict: Any, key: NestedKey) -> list[Tensor]:
    """The values of the flattened batch, each for itself."""
    if not tensordict.batch_dims:
        return [tensordict.get(key)]
    return [row for part in tensordict.unbind(0) for row in model_rows(part, key)]


def masked(
    rows: list[Tensor], found: Any, given: Any, model: Any, tokenizer: Any, options: dict[str, Any]
) -> list[Tensor]:
    """With 0 for tokens that the assistant did not say."""
    key = (getattr(model, "masks_key", "masks"), "all_assistant_mask")
    try:
        masks = model_rows(found, key)
    except KeyError:
        masks = [None] * len(rows)  # type: ignore[list-item]
    if any(mask is None for mask in masks):
        masks = _template_masks(given, tokenizer, options, model)
    return [row * _aligned(mask, row) for row, mask in zip(rows, masks, strict=True)]


def _template_masks(given: Any, tokenizer: Any, options: dict[str, Any], model: Any) -> list[Tensor]:
    history = given.get("history").full
    known = {
        "chat_template_name": getattr(model, "chat_template_name", None),
        "chat_template": getattr(model, "chat_template", None),
    }
    asked = {
        "return_assistant_tokens_mask": True,
        "tokenize": True,
        "return_dict": True,
        "add_generation_prompt": False,
    }
    tokens = history.apply_chat_template(tokenizer=tokenizer, **known, **asked | options)
    return model_rows(tokens, "assistant_masks")


def _aligned(mask: Tensor, row: Tensor) -> Tensor:
    """A mask as long as what it masks, which is filled up on the left."""
    missing = row.shape[-1] - mask.shape[-1]
    mask = mask.to(row.device, torch.bool)
    return torch.nn.functional.pad(mask, (missing, 0)) if missing else mask


def write_rows(tensordict: Any, key: NestedKey, rows: list[Tensor], padded: bool, side: str) -> Any:
    """Write values, one for each of a batch: as one tensor where they have one length, else each for itself.

    Args:
        tensordict: changed in place, where it can have them.
        key: of the values.
        rows: (T, *) each.
        padded: they have one length.
        side: where they are filled up.
    """
    size, device = tensordict.batch_size, tensordict.device
    rows = [row if device is None else row.to(device) for row in rows]
    if not size:
        return tensordict.set(key, rows[0])
    if padded and len({row.shape for row in rows}) == 1:
        return tensordict.set(key, torch.stack(rows).reshape(*size, *rows[0].shape))
    if isinstance(tensordict, LazyStackedTensorDict) and len(size) == 1:
        for part, row in zip(tensordict.unbind(0), rows, strict=True):
            part.set(key, row)
        return tensordict
    if len(size) == 1:
        made = lazy_stack([TensorDict({}, []).set(key, row) for row in rows])
        return tensordict.update(made)
    filled = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side=side)
    return tensordict.set(key, filled.reshape(*size, *filled.shape[1:]))
