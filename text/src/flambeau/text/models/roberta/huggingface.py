"""RoBERTa and XLM-R as `transformers` saves them: other names, and three projections in place of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.core.errors import CheckpointError
from flambeau.text.models._huggingface import need, read_config
from flambeau.text.models.roberta.model import RobertaEncoderConf

__all__ = ["encoder_state", "read_encoder_conf"]

_TYPES = ("roberta", "xlm-roberta", "camembert")
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "token_embedding.weight",
    "embeddings.position_embeddings.weight": "positional_embedding.embedding.weight",
    "embeddings.LayerNorm.weight": "embedding_layer_norm.weight",
    "embeddings.LayerNorm.bias": "embedding_layer_norm.bias",
}
_PARTS = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def read_encoder_conf(folder: str | os.PathLike[str]) -> tuple[RobertaEncoderConf, float]:
    """The sizes that a folder's `config.json` states, and the epsilon of its normalizations.

    Raises:
        CheckpointError: it is of another kind of model, or of an activation that RoBERTa has not.
    """
    config = read_config(folder)
    kind, activation = config.get("model_type"), config.get("hidden_act", "gelu")
    if kind not in _TYPES:
        raise CheckpointError(f"{os.fspath(folder)!r} holds a model of type {kind!r}, expected {', '.join(_TYPES)}.")
    if activation != "gelu":
        raise CheckpointError(f"{os.fspath(folder)!r} has the activation {activation!r}, expected 'gelu'.")
    conf = RobertaEncoderConf(
        vocab_size=need(config, "vocab_size", folder),
        embedding_dim=need(config, "hidden_size", folder),
        ffn_dimension=need(config, "intermediate_size", folder),
        padding_idx=config.get("pad_token_id", 1),
        max_seq_len=need(config, "max_position_embeddings", folder),
        num_attention_heads=need(config, "num_attention_heads", folder),
        num_encoder_layers=need(config, "num_hidden_layers", folder),
        dropout=config.get("hidden_dropout_prob", 0.1),
    )
    return conf, config.get("layer_norm_eps", 1e-5)


def encoder_state(weights: Mapping[str, Tensor], conf: RobertaEncoderConf) -> dict[str, Any]:
    """A state of `RobertaModel` without a head, from the tensors of a folder.

    Raises:
        CheckpointError: a tensor is missing.
    """
    prefix = next((p for p in ("roberta.", "") if f"{p}embeddings.word_embeddings.weight" in weights), None)
    if prefix is None:
        raise CheckpointError("the checkpoint has no embeddings.word_embeddings.weight, expected a RoBERTa encoder's.")

    def take(name: str) -> Tensor:
        if prefix + name not in weights:
            raise CheckpointError(f"the checkpoint lacks {prefix + name}, which its configuration asks for.")
        return weights[prefix + name]

    start = "encoder.transformer."
    state = {start + ours: take(theirs) for theirs, ours in _EMBEDDINGS.items()}
    # There is one type of segment, the same for each token: its row is part of every token's embedding.
    types = take("embeddings.token_type_embeddings.weight")
    state[start + "token_embedding.weight"] = state[start + "token_embedding.weight"] + types[0]
    for layer in range(conf.num_encoder_layers):
        theirs, ours = f"encoder.layer.{layer}.", f"{start}layers.layers.{layer}."
        for kind in ("weight", "bias"):
            projections = [take(f"{theirs}attention.self.{name}.{kind}") for name in ("query", "key", "value")]
            state[f"{ours}self_attn.in_proj_{kind}"] = torch.cat(projections)
            for part, name in _PARTS.items():
                state[f"{ours}{name}.{kind}"] = take(f"{theirs}{part}.{kind}")
    return state
