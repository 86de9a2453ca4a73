"""Names in published BERT checkpoints that this module tree does not have, or has under another name."""

from __future__ import annotations

from typing import Any

# TensorFlow's names of a normalization's parameters, which the first checkpoints kept.
_OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# What pretraining needed: heads for gaps and for the next sentence.
_HEADS = "cls."
# A table of consecutive numbers that older releases of transformers saved.
_NUMBERS = "embeddings.position_ids"
_WRAPPED = "bert."


def adapt(state_dict: dict[str, Any], prefix: str) -> None:
    """Give a state the names of `BertModel`, in place.

    The prefix of models that wrap the encoder goes, and the heads of pretraining with it; other heads stay, for strict
    loading to tell.
    """
    wrapped = any(key.startswith(f"{prefix}{_WRAPPED}embeddings.") for key in state_dict)
    for key in [key for key in state_dict if key.startswith(prefix)]:
        name = key[len(prefix) :]
        if wrapped and name.startswith(_HEADS):
            del state_dict[key]
            continue
        name = name.removeprefix(_WRAPPED) if wrapped else name
        if name == _NUMBERS:
            del state_dict[key]
            continue
        for old, new in _OLDER.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if prefix + name != key:
            state_dict[prefix + name] = state_dict.pop(key)
