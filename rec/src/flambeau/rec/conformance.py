"""What the conformance kit needs to check rec: inputs and small sizes of its models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

_ROWS = 50
_WHOLE = "ids of a batch are one object, which the kit cannot cut into examples; `tests/models` does"
_NO_TENSOR = "its only input is a KeyedJaggedTensor"

expected_failures = {
    "batch-sizes:rec/*": _WHOLE,
    **{f"example-inputs:rec/{name}": _NO_TENSOR for name in ("bert4rec_movielens", "two_tower_movielens")},
}


def _ids(keys: list[str], batch: int, longest: int) -> KeyedJaggedTensor:
    lengths = torch.randint(1, longest + 1, (len(keys) * batch,))
    return KeyedJaggedTensor(keys, torch.randint(1, _ROWS, (int(lengths.sum()),)), lengths=lengths)


def example_inputs(model_name: str, batch: int) -> tuple[Any, ...]:
    """Dense features and ids of Criteo's logs; histories of users; or users and movies."""
    if model_name == "bert4rec_movielens":
        return (_ids(["item"], batch, 8),)
    if model_name == "two_tower_movielens":
        return (_ids(["userId", "movieId"], batch, 1),)
    return torch.randn(batch, 13), _ids([f"cat_{at}" for at in range(26)], batch, 3)


def model_config(model_name: str) -> dict[str, Any]:
    """Small tables; everything else as it is."""
    if model_name == "bert4rec_movielens":
        return {"vocab_size": _ROWS, "max_len": 8, "emb_dim": 16}
    return {"num_embeddings": _ROWS}


def training_loss(model_name: str, model: torch.nn.Module, inputs: tuple[Any, ...]) -> Tensor | None:
    """The dot products of two towers; None for the other models, whose output is a tensor."""
    if model_name != "two_tower_movielens":
        return None
    query, candidate = model(*inputs)
    loss: Tensor = (query * candidate).sum()
    return loss
