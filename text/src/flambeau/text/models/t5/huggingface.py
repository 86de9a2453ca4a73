"""T5 and Flan-T5 as `transformers` saves them, under this package's names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.core.errors import CheckpointError
from flambeau.text.models._huggingface import need, read_config
from flambeau.text.models.t5.model import T5Conf

__all__ = ["read_conf", "renamed"]

_TYPES = ("t5", "mt5")
_BLOCK = re.compile(r"(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.(.+)")
_ATTENTION = {
    "q.weight": "q_proj_weight",
    "k.weight": "k_proj_weight",
    "v.weight": "v_proj_weight",
    "o.weight": "out_proj.weight",
    "relative_attention_bias.weight": "relative_attention_bias.weight",
}
_FEED_FORWARD = {
    "wi.weight": "linear1.weight",
    "wi_0.weight": "linear1_0.weight",
    "wi_1.weight": "linear1_1.weight",
    "wo.weight": "linear2.weight",
}
# Which normalization goes before the first, second and third part of a layer.
_NORMS = {"encoder": ("norm1", "norm2"), "decoder": ("norm1", "norm3", "norm2")}
_EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def read_conf(folder: str | os.PathLike[str], weights: Mapping[str, Tensor], *, encoder_only: bool) -> T5Conf:
    """The sizes that a folder's `config.json` states.

    Raises:
        CheckpointError: it is of another kind of model.
    """
    config = read_config(folder)
    if config.get("model_type") not in _TYPES:
        raise CheckpointError(
            f"{os.fspath(folder)!r} holds a model of type {config.get('model_type')!r}, expected {' or '.join(_TYPES)}."
        )
    layers = need(config, "num_layers", folder)
    return T5Conf(
        encoder_only=encoder_only,
        linear_head=not encoder_only and _has_head(config, weights),
        embedding_dim=need(config, "d_model", folder),
        qkv_dim=need(config, "d_kv", folder),
        num_attention_heads=need(config, "num_heads", folder),
        num_encoder_layers=layers,
        num_decoder_layers=config.get("num_decoder_layers") or layers,
        ffn_dimension=need(config, "d_ff", folder),
        dropout=config.get("dropout_rate", 0.1),
        layer_norm_eps=config.get("layer_norm_epsilon", 1e-6),
        relative_attention_num_buckets=config.get("relative_attention_num_buckets", 32),
        relative_attention_max_distance=config.get("relative_attention_max_distance", 128),
        padding_idx=config.get("pad_token_id", 0),
        max_seq_len=config.get("n_positions", 512),
        vocab_size=need(config, "vocab_size", folder),
        feed_forward_proj=config.get("feed_forward_proj") or "relu",
    )


def _has_head(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> bool:
    """Whether scores of tokens are computed; a head that shares the embeddings is not saved by itself."""
    return "lm_head.weight" in weights or any("Conditional" in name for name in config.get("architectures") or ())


def renamed(weights: Mapping[str, Tensor], conf: T5Conf) -> dict[str, Any]:
    """A state of `T5Model`, from the tensors of a folder.

    Names that are not a T5's stay as they are, for strict loading to tell.

    Raises:
        CheckpointError: there is no embedding.
    """
    embedding = next((weights[name] for name in _EMBEDDINGS if name in weights), None)
    if embedding is None:
        raise CheckpointError("the checkpoint has no shared.weight, expected a T5's embedding.")
    state: dict[str, Any] = {"token_embeddings.weight": embedding, "encoder.token_embeddings.weight": embedding}
    for name, value in weights.items():
        if name in _EMBEDDINGS or (conf.encoder_only and name.startswith(("decoder.", "lm_head."))):
            continue
        if (ours := _name(name)) is not None:
            state[ours] = value
    if conf.linear_head:
        state.setdefault("lm_head.weight", embedding)
    return state


def _name(theirs: str) -> str | None:
    """This package's name of a tensor; None for one that is computed and never read."""
    if theirs in ("encoder.final_layer_norm.weight", "decoder.final_layer_norm.weight"):
        return theirs.replace("final_layer_norm", "norm")
    match = _BLOCK.fullmatch(theirs)
    if match is None:
        return theirs
    side, layer, part, rest = match[1], match[2], int(match[3]), match[4]
    prefix, (kind, _, name) = f"{side}.layers.{layer}.", rest.partition(".")
    if rest == "layer_norm.weight" and part < len(_NORMS[side]):
        return f"{prefix}{_NORMS[side][part]}.weight"
    if kind in ("SelfAttention", "EncDecAttention") and name in _ATTENTION:
        if kind == "EncDecAttention" and name.startswith("relative"):
            return None  # old files have a table for cross-attention, which has no distances
        return f"{prefix}{'self' if kind == 'SelfAttention' else 'cross'}_attn.{_ATTENTION[name]}"
    if kind == "DenseReluDense" and name in _FEED_FORWARD:
        return prefix + _FEED_FORWARD[name]
    return theirs
