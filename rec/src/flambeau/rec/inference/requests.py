"""What is asked of a served model and what it answers, and how requests of many clients become one batch.

A request brings features of one or more examples by name. Dense ones are (batch, columns). Sparse ones are
feature-major,
as in a KeyedJaggedTensor: lengths of all examples of the first feature, then of the second, ..., and values likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.ops.permute import permute_1D_sparse_data

__all__ = ["PredictionRequest", "SparseFeatures", "combine", "split"]

KINDS = ("dense", "sparse", "weighted_sparse", "embedding")


@dataclass(frozen=True)
class SparseFeatures:
    """Ids of several features.

    Args:
        num_features: how many features there are.
        lengths: (num_features * batch,) int32 or int64, feature-major.
        values: (sum of lengths,) ids.
        weights: (sum of lengths,) float32 where ids are weighted.
    """

    num_features: int
    lengths: Tensor
    values: Tensor
    weights: Tensor | None = None


@dataclass(frozen=True)
class PredictionRequest:
    """Features of some examples.

    Args:
        batch_size: how many examples.
        dense: (batch_size, columns) by name: numbers, or embeddings.
        sparse: ids by name, weighted or not.
    """

    batch_size: int
    dense: Mapping[str, Tensor] = field(default_factory=dict)
    sparse: Mapping[str, SparseFeatures] = field(default_factory=dict)

    def check(self, metadata: Mapping[str, str]) -> None:
        """Refuse what the model cannot be given.

        Args:
            metadata: by name, what kind of feature the model takes: one of `KINDS`.

        Raises:
            OptionError: a feature is missing, unknown, or its shape does not fit.
        """
        if self.batch_size < 1:
            raise OptionError(f"batch_size is {self.batch_size}, expected at least one example.")
        given, expected = {*self.dense, *self.sparse}, set(metadata)
        if given != expected:
            raise OptionError(
                f"the request has the features {sorted(given)}, the model takes {sorted(expected)}; missing: "
                f"{sorted(expected - given)}, unknown: {sorted(given - expected)}."
            )
        for name, values in self.dense.items():
            if metadata[name] not in ("dense", "embedding"):
                raise OptionError(f"{name!r} is dense in the request, the model takes it as {metadata[name]}.")
            if values.dim() < 1 or values.shape[0] != self.batch_size:
                raise OptionError(
                    f"{name!r} has shape {tuple(values.shape)}, expected ({self.batch_size}, ...): one row an example."
                )
        for name, features in self.sparse.items():
            self._check_sparse(name, features, metadata[name])

    def _check_sparse(self, name: str, features: SparseFeatures, kind: str) -> None:
        if kind not in ("sparse", "weighted_sparse"):
            raise OptionError(f"{name!r} is sparse in the request, the model takes it as {kind}.")
        if (features.weights is not None) != (kind == "weighted_sparse"):
            raise OptionError(
                f"{name!r} is {kind} for the model; the request brings weights only where it is weighted."
            )
        bags = features.num_features * self.batch_size
        if features.lengths.numel() != bags:
            raise OptionError(
                f"{name!r} has {features.lengths.numel()} lengths, expected {features.num_features} features times "
                f"{self.batch_size} examples."
            )
        total = int(features.lengths.sum())
        if bool((features.lengths < 0).any()) or features.values.numel() != total:
            raise OptionError(
                f"{name!r} has {features.values.numel()} values, its lengths add up to {total}; lengths are not "
                "negative."
            )
        if features.weights is not None and features.weights.numel() != total:
            raise OptionError(f"{name!r} has {features.weights.numel()} weights for {total} values.")


def combine(requests: Sequence[PredictionRequest]) -> dict[str, Tensor]:
    """One batch of all requests' examples, in order.

    Args:
        requests: one or more that have the same features.

    Returns:
        By name: dense features (examples, columns); `<name>.lengths`, `<name>.values` and, where there are weights,
        `<name>.weights` of sparse ones, feature-major over all examples.

    Raises:
        OptionError: requests that differ in the number of features.
    """
    first = requests[0]
    batch = {name: torch.cat([request.dense[name] for request in requests]) for name in first.dense}
    for name in first.sparse:
        parts = [request.sparse[name] for request in requests]
        if len(counts := {part.num_features for part in parts}) > 1:
            raise OptionError(
                f"{name!r} has {sorted(counts)} features in requests of one batch, expected equally many."
            )
        lengths, values, weights = _join(parts, [request.batch_size for request in requests])
        batch[f"{name}.lengths"], batch[f"{name}.values"] = lengths, values
        if weights is not None:
            batch[f"{name}.weights"] = weights
    return batch


def _join(parts: Sequence[SparseFeatures], sizes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor | None]:
    weighted = [part.weights for part in parts if part.weights is not None]
    lengths, values = torch.cat([part.lengths for part in parts]), torch.cat([part.values for part in parts])
    weights = torch.cat(weighted) if weighted else None
    if len(parts) == 1:
        return lengths, values, weights
    # Bags stand request by request, then feature by feature; wanted is the other way round.
    features, start, blocks = parts[0].num_features, 0, []
    for size in sizes:
        blocks.append(torch.arange(start, start + features * size).view(features, size))
        start += features * size
    order = torch.cat(blocks, 1).reshape(-1)
    return permute_1D_sparse_data(order, lengths, values, weights)


def split(predictions: Mapping[str, Tensor], sizes: Sequence[int]) -> list[dict[str, Tensor]]:
    """Each request's share of what was predicted for a batch.

    Args:
        predictions: (examples, ...) by name.
        sizes: examples of each request.

    Returns:
        For each request its examples' predictions by name.

    Raises:
        OptionError: predictions that are not one for each example.
    """
    total = sum(sizes)
    for name, values in predictions.items():
        if values.dim() < 1 or values.shape[0] != total:
            raise OptionError(f"the model's {name!r} has shape {tuple(values.shape)}, expected ({total}, ...).")
    parts = {name: values.split(list(sizes)) for name, values in predictions.items()}
    return [{name: part[at] for name, part in parts.items()} for at in range(len(sizes))]
