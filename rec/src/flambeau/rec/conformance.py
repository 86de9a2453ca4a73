"""What the conformance kit needs to check rec: inputs and small sizes of its models, data sets in miniature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing import Sample
from flambeau.rec.models.interaction_features import DENSE, SPARSE, Candidates, Interactions
from flambeau.rec.ops import _samples
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

_ROWS = 50
_WHOLE = "ids of a batch are one object, which the kit cannot cut into examples; `tests/models` does"
_NO_TENSOR = "its only input is a KeyedJaggedTensor"
_NO_CHECKSUM = "its owner states no checksum, and none is on record"

expected_failures = {
    "batch-sizes:rec/*": _WHOLE,
    "facts-complete:rec/criteo_kaggle": _NO_CHECKSUM,
    "to:rec/keyed_jagged": "the sizes of batches that differ by key stay on the host, which reads them",
    **_samples.expected_failures,
    **{f"example-inputs:rec/{name}": _NO_TENSOR for name in ("bert4rec_movielens", "two_tower_movielens")},
}


def _ids(keys: list[str], batch: int, longest: int) -> KeyedJaggedTensor:
    lengths = torch.randint(1, longest + 1, (len(keys) * batch,))
    return KeyedJaggedTensor(keys, torch.randint(1, _ROWS, (int(lengths.sum()),)), lengths=lengths)


def example_inputs(model_name: str, batch: int) -> tuple[Any, ...]:
    """Dense features and ids, of Criteo's logs or of interactions; histories of users; or users and movies."""
    if model_name == "bert4rec_movielens":
        return (_ids(["item"], batch, 8),)
    if model_name == "two_tower_movielens":
        return (_ids(["userId", "movieId"], batch, 1),)
    if model_name == "interaction_ranker":
        lengths = torch.cat([torch.randint(0, 5, (batch,)), torch.ones(3 * batch, dtype=torch.int64)])
        sizes = torch.tensor([*SPARSE.values()]).repeat_interleave(batch).repeat_interleave(lengths)
        ids = (torch.rand(len(sizes)) * sizes).long()
        return torch.randn(batch, len(DENSE)), KeyedJaggedTensor(list(SPARSE), ids, lengths=lengths)
    return torch.randn(batch, 13), _ids([f"cat_{at}" for at in range(26)], batch, 3)


def model_config(model_name: str) -> dict[str, Any]:
    """Small tables; everything else as it is."""
    if model_name == "bert4rec_movielens":
        return {"vocab_size": _ROWS, "max_len": 8, "emb_dim": 16}
    if model_name == "interaction_ranker":
        return {}
    return {"num_embeddings": _ROWS}


def raw_input(model_name: str) -> Interactions | None:
    """Twelve users who each know some of nine items."""
    if model_name != "interaction_ranker":
        return None
    users = torch.arange(12).repeat_interleave(4)
    return Interactions(users, (users + torch.arange(4).repeat(12) ** 2) % 9)


def as_batch(model_name: str, transformed: Candidates) -> tuple[Any, ...]:
    """The features of all pairs."""
    return transformed.dense, transformed.sparse


def training_loss(model_name: str, model: torch.nn.Module, inputs: tuple[Any, ...]) -> Tensor | None:
    """The dot products of two towers; None for the other models, whose output is a tensor."""
    if model_name != "two_tower_movielens":
        return None
    query, candidate = model(*inputs)
    loss: Tensor = (query * candidate).sum()
    return loss


def tensor_samples(type_name: str) -> list[Any]:
    """Rows of different lengths, empty ones among them, with weights and without; keys likewise; pooled vectors."""
    values, lengths, weights = torch.tensor([3, 1, 4, 1]), torch.tensor([2, 0, 1, 1]), torch.rand(4)
    if type_name == "jagged":
        return [JaggedTensor(values, lengths=lengths), JaggedTensor(values, weights, lengths)]
    if type_name == "keyed_jagged":
        uneven = KeyedJaggedTensor(["a", "b"], values, lengths=lengths, stride_per_key_per_rank=[[1], [3]])
        plain, weighted = (KeyedJaggedTensor(["a", "b"], values, one, lengths) for one in (None, weights))
        return [plain, weighted, uneven]
    return [KeyedTensor(["a", "b"], [1, 2], torch.rand(2, 3))]


def op_samples() -> Iterator[Sample]:
    """A sample of each operator, by its name."""
    import flambeau.rec.distributed.comm_ops  # noqa: F401 registers collectives

    yield from _samples.op_samples()
    yield _samples.operator("all_gather_into_tensor", torch.ones(2, 3), 0, 1, "0", False)
    yield _samples.operator("reduce_scatter_tensor", torch.ones(2, 3), "sum", 1, "0", False)


def dataset_fixture(name: str, root: Path) -> dict[str, Any]:
    """Write a few rows in the data set's true layout; returns what to build it with."""
    if name == "criteo_kaggle":
        rows = [
            "\t".join([*(str(row + at) for at in range(13)), *(f"{at:08x}" for at in range(26))]) for row in range(5)
        ]
        (root / "train.txt").write_text("".join(f"{at % 2}\t{row}\n" for at, row in enumerate(rows)))
        (root / "test.txt").write_text("".join(f"{row}\n" for row in rows))
        return {"root": root}
    folder = root / {"movielens_20m": "ml-20m", "movielens_25m": "ml-25m"}[name]
    folder.mkdir()
    ratings = [f"{user},{10 + user % 3},{0.5 * (1 + user)},{1112486000 + user}" for user in range(1, 6)]
    (folder / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *ratings, ""]))
    (folder / "movies.csv").write_text('movieId,title,genres\n10,"One, The",Drama\n11,Two,Action|Comedy\n12,Three,\n')
    return {"root": root}
