"""Cells of models, their parts and generation, with the same weights on both sides, against torchtext."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from flambeau.core.testing.differential import Cell, Library, cross, read_table
from flambeau.core.testing.fill import fill_, integers, tensor


def roberta(library: Library, head: Any = None, **more: Any) -> Any:
    """A small RoBERTa with weights by name."""
    sizes = {"vocab_size": 50, "embedding_dim": 16, "ffn_dimension": 24, "max_seq_len": 14}
    conf = library.models.RobertaEncoderConf(**(sizes | {"num_attention_heads": 4, "num_encoder_layers": 2} | more))
    return fill_(library.models.RobertaModel(conf, head)).eval()


def t5_conf(library: Library, **more: Any) -> Any:
    """Sizes of a small T5."""
    sizes = {"embedding_dim": 16, "qkv_dim": 4, "num_attention_heads": 4, "ffn_dimension": 24, "vocab_size": 40}
    return library.models.T5Conf(**(sizes | {"num_encoder_layers": 2, "num_decoder_layers": 2} | more))


def t5(library: Library, **more: Any) -> Any:
    """A small T5 with weights by name."""
    return fill_(library.models.T5Model(t5_conf(library, **more))).eval()


def container(library: Library, heads: int = 2, **more: Any) -> Any:
    """An attention container of width 8."""
    names = library.nn
    projections = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))
    attention = names.ScaledDotProduct(**more)
    module = names.MultiheadAttentionContainer(
        heads, names.InProjContainer(*projections), attention, torch.nn.Linear(8, 8), **more
    )
    return fill_(module).eval()


def plain(outputs: dict[str, Any]) -> dict[str, Any]:
    """What a T5 gives, its lists read."""
    return {name: list(value) if isinstance(value, Sequence) else value for name, value in outputs.items()}


TOKENS = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 2, 1, 1], [0, 9, 10, 2, 1]])
SOURCE = torch.tensor([[5, 6, 7, 1], [9, 1, 0, 0]])
TARGET = torch.tensor([[0, 4, 8], [0, 5, 3]])

TABLES = read_table(Path(__file__).with_suffix(".txt"))

NAMES: dict[str, Any] = {
    "torch": torch,
    "copy": copy,
    "roberta": roberta,
    "t5": t5,
    "t5_conf": t5_conf,
    "container": container,
    "plain": plain,
    "fill_": fill_,
    "tensor": tensor,
    "integers": integers,
    "TOKENS": TOKENS,
    "SOURCE": SOURCE,
    "TARGET": TARGET,
    "REAL": TOKENS.ne(1),
}

ROBERTA = TABLES["roberta"]

T5_SHAPES = {
    "encoder": {"m": "t5(library, encoder_only=True)"},
    "both": {"m": "t5(library)"},
    "head": {"m": "t5(library, linear_head=True)"},
    "gated": {"m": "t5(library, linear_head=True, feed_forward_proj='gated-gelu')"},
    "gelu": {"m": "t5(library, feed_forward_proj='gelu')"},
}
T5 = TABLES["t5"]
GENERATION = TABLES["generation"]
ATTENTION = TABLES["attention"]


def cells() -> list[Cell]:
    """All cells of this file."""
    made = [
        *cross("models", {"roberta": {}}, ROBERTA, names=NAMES),
        *cross("models/t5", T5_SHAPES, T5, names=NAMES),
        *cross("models", {"t5 by hand": {}}, GENERATION, names=NAMES),
        *cross("models", {"attention": {}}, ATTENTION, names=NAMES),
    ]
    # What is left of the inputs are the modules, of which nothing is changed in place.
    return [dataclasses.replace(one, effects=False) for one in made]
