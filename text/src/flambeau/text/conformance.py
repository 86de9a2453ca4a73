"""What the conformance kit needs to check text: inputs of models, miniature datasets, and what is known not to hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.registry import MODELS
from flambeau.text._miniatures import write_miniature
from flambeau.text.datasets import DATASETS

_NO_CHECKSUM = "its owner states no checksum or size, and none is on record"
_UNCHECKED = "its owner states no checksum of some of its files, and none is on record"
_POOLER = "published checkpoints have a pooler, which only pooling='pooler' reads"
_SHARED = "biases of positions are part of its output, as upstream's, and the same for every text"
_LAZY = "attention weights are computed when they are read, which a graph cannot do: it gives None"
_BIASED = ("t5_*", "flan_t5_*")

expected_failures = {
    **{f"weights-metadata:text/{name}": _NO_CHECKSUM for name in ("roberta_*", "xlmr_*", *_BIASED)},
    **{f"weights-metadata:text/{name}": _NO_CHECKSUM for name in ("bert_large_*", "minilm_l12")},
    **{f"gradients-reach-parameters:text/{name}": _POOLER for name in ("bert_*", "minilm_*")},
    **{f"batch-sizes:text/{name}": _SHARED for name in _BIASED},
    **{f"facts-complete:text/{name}": _UNCHECKED for name in ("cc100", "cnndm", "multi30k")},
    **{f"{check}:text/{name}": _LAZY for name in _BIASED for check in ("compiles", "exports")},
}


def dataset_fixture(name: str, root: Path) -> dict[str, Any]:
    """Write a few items in the dataset's true layout; returns what to build it with."""
    dataset = next(known for known in DATASETS if known.lower() == name)
    write_miniature(dataset, root / "datasets" / dataset)
    return {"root": root}


def example_inputs(model_name: str, batch: int) -> tuple[Tensor, ...]:
    """Token ids of texts of several lengths, padded; for a T5 with a decoder the ids so far as well."""
    padding = 1 if model_name.startswith(("roberta", "xlmr")) else 0
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, 900, (batch, 9), generator=generator)
    for row in range(batch):
        tokens[row, 9 - 2 * (row % 3) :] = padding
    if MODELS.info(f"text/{model_name}").get("task") != "text-generation":
        return (tokens,)
    return tokens, torch.randint(5, 900, (batch, 4), generator=generator)


def model_config(model_name: str) -> dict[str, Any]:
    """Two layers, and a vocabulary of a thousand: names and shapes of the rest are those of the published model."""
    if model_name == "language_identifier":
        return {}
    if "t5" in model_name:
        wide = {"embedding_dim": 64, "ffn_dimension": 96, "num_attention_heads": 4, "qkv_dim": 16}
        return {"num_encoder_layers": 2, "num_decoder_layers": 2, "vocab_size": 1000, **wide}
    return {"num_encoder_layers": 2, "vocab_size": 1000, "embedding_dim": 48, "ffn_dimension": 96}


def training_loss(model_name: str, model: torch.nn.Module, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """The sum of a T5's scores, whose other outputs are not all differentiable; None for the other models."""
    if "t5" not in model_name:
        return None
    loss: Tensor = model(*inputs)["decoder_output"].sum()
    return loss
