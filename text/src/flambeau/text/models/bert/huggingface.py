"""BERT encoders from folders that `transformers` or `sentence-transformers` saved."""

from __future__ import annotations

import os
from typing import Literal

from flambeau.core.errors import CheckpointError
from flambeau.core.weights import empty_parameters, load_into
from flambeau.text.models._huggingface import need, read_config, read_weights
from flambeau.text.models.bert.model import BertConf, BertModel
from flambeau.text.models.bert.pooling import Pooling

__all__ = ["build_model_from_huggingface_ckpt"]


def build_model_from_huggingface_ckpt(
    ckpt_path: str | os.PathLike[str],
    pooling: Pooling | Literal["pooler"] | None = None,
    normalize: bool = False,
) -> BertModel:
    """Build an encoder of what `save_pretrained` wrote for a BERT.

    Args:
        ckpt_path: the folder, with `config.json` and `model.safetensors` or `pytorch_model.bin`, whole or in shards.
        pooling: as `BertModel`.
        normalize: as `BertModel`.

    Raises:
        MissingCheckpointError: a file is missing.
        CheckpointError: the folder holds another model, or names or shapes do not fit.
    """
    config, state = read_config(ckpt_path), read_weights(ckpt_path)
    if config.get("model_type") != "bert":
        raise CheckpointError(
            f"{os.fspath(ckpt_path)!r} holds a model of type {config.get('model_type')!r}, expected 'bert'."
        )
    conf = BertConf(
        vocab_size=need(config, "vocab_size", ckpt_path),
        embedding_dim=need(config, "hidden_size", ckpt_path),
        ffn_dimension=need(config, "intermediate_size", ckpt_path),
        padding_idx=config.get("pad_token_id", 0),
        max_seq_len=need(config, "max_position_embeddings", ckpt_path),
        num_attention_heads=need(config, "num_attention_heads", ckpt_path),
        num_encoder_layers=need(config, "num_hidden_layers", ckpt_path),
        num_segments=config.get("type_vocab_size", 2),
        dropout=config.get("hidden_dropout_prob", 0.1),
        layer_norm_eps=config.get("layer_norm_eps", 1e-12),
        activation=config.get("hidden_act", "gelu"),
        pooler=any(name.endswith("pooler.dense.weight") for name in state),
    )
    with empty_parameters():
        model = BertModel(conf, pooling, normalize)
    load_into(model, state, assign=True)
    return model
