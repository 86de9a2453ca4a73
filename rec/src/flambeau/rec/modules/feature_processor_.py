"""Feature processors: weights for the ids of a feature, which depend on where in their bags they stand."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.ops.ranges import offsets_range
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from flambeau.rec.types import ModuleCopyMixin

__all__ = [
    "FeatureProcessor",
    "FeatureProcessorsCollection",
    "PositionWeightedModule",
    "PositionWeightedModuleCollection",
    "get_stride_per_key_per_rank",
    "get_weights_list",
]


class FeatureProcessor(abc.ABC, nn.Module):
    """Changes one feature."""

    @abc.abstractmethod
    def forward(self, features: JaggedTensor) -> JaggedTensor:
        """The feature, changed."""


class PositionWeightedModule(FeatureProcessor):
    """Weighs ids by where in their bags they stand: the first of each has weight `position_weight[0]`, and so on.

    Args:
        max_feature_length: ids in the longest bag.
        device: of the weights, which are learned and begin as 1.
    """

    def __init__(self, max_feature_length: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.position_weight = nn.Parameter(torch.empty(max_feature_length, device=device))
        self._pre_processed = False
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make all weights 1."""
        with torch.no_grad():
            self.position_weight.fill_(1.0)

    def pre_process_input(self, features: JaggedTensor) -> None:
        """Write the places of ids into their weights, ahead of `forward`, which takes them from there then."""
        places = _places(features.offsets(), features.values())
        features.weights().copy_(places.to(torch.float32))
        self._pre_processed = True

    def forward(self, features: JaggedTensor) -> JaggedTensor:
        """The same bags with weights.

        Raises:
            RuntimeError: a bag has more ids than there are weights.
        """
        if self._pre_processed:
            places = features.weights().long()
        else:
            places = _places(features.offsets(), features.values())
        return JaggedTensor(
            values=features.values(),
            lengths=features.lengths(),
            offsets=features.offsets(),
            weights=torch.gather(self.position_weight, 0, places),
        )


class FeatureProcessorsCollection(nn.Module):
    """Changes several features at once."""

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features, changed."""


class PositionWeightedModuleCollection(FeatureProcessorsCollection, ModuleCopyMixin):
    """A `PositionWeightedModule` for each feature; parameters are `position_weights.<feature>`.

    Args:
        max_feature_lengths: ids in the longest bag of each feature, at least 1.
        device: of the weights, which are learned and begin as 1.

    Raises:
        OptionError: a length below 1.
    """

    def __init__(self, max_feature_lengths: dict[str, int], device: torch.device | None = None) -> None:
        super().__init__()
        for name, length in max_feature_lengths.items():
            if length <= 0:
                raise OptionError(f"max_feature_lengths is {length} for {name!r}, expected 1 or more.")
        self.max_feature_lengths = max_feature_lengths
        self._pre_processed = False
        self.position_weights = nn.ParameterDict(
            {name: nn.Parameter(torch.empty(length, device=device)) for name, length in max_feature_lengths.items()}
        )
        self.reset_parameters()

    @property
    def position_weights_dict(self) -> dict[str, nn.Parameter]:
        """The weights of each feature."""
        return dict(self.position_weights.items())

    def reset_parameters(self) -> None:
        """Make all weights 1."""
        with torch.no_grad():
            for weights in self.position_weights.values():
                weights.fill_(1.0)

    def pre_process_input(self, features: KeyedJaggedTensor) -> None:
        """Write the places of ids into their weights, ahead of `forward`, which takes them from there then."""
        places = _places(features.offsets(), features.values())
        features.weights().copy_(places.to(torch.float32))
        self._pre_processed = True

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The same features with weights; those of features that were not named are 1.

        Raises:
            RuntimeError: a bag has more ids than there are weights of its feature.
        """
        places = features.weights().long() if self._pre_processed else _places(features.offsets(), features.values())
        return KeyedJaggedTensor(
            keys=features.keys(),
            values=features.values(),
            weights=get_weights_list(places, features, self.position_weights_dict),
            lengths=features.lengths(),
            offsets=features.offsets(),
            stride=features.stride(),
            length_per_key=features.length_per_key(),
            offset_per_key=features.offset_per_key(),
            index_per_key=features.index_per_key(),
            stride_per_key_per_rank=get_stride_per_key_per_rank(features),
            inverse_indices=features.inverse_indices_or_none(),
        )


def get_stride_per_key_per_rank(kjt: KeyedJaggedTensor) -> list[list[int]] | None:
    """Examples of each key, and of each process that they came from; None with one batch for all keys."""
    return kjt.stride_per_key_per_rank() if kjt.variable_stride_per_key() else None


def get_weights_list(
    cat_seq: Tensor, features: KeyedJaggedTensor, position_weights: Mapping[str, nn.Parameter]
) -> Tensor | None:
    """The weight of each id by its place.

    Args:
        cat_seq: (L,) int64: where in its bag each id stands.
        features: the ids.
        position_weights: (longest bag,) of each feature; features that have none here are weighted by 1.

    Returns:
        (L,); None where there are no features.
    """
    parts = [
        torch.gather(position_weights[key], 0, places)
        if key in position_weights
        else torch.ones(len(places), device=places.device)
        for key, places in zip(features.keys(), cat_seq.split(features.length_per_key()), strict=True)
    ]
    return torch.cat(parts) if parts else features.weights_or_none()


def _places(offsets: Tensor, values: Tensor) -> Tensor:
    """(L,) int64: where in its bag each id stands."""
    return offsets_range(offsets[:-1].long().contiguous(), values.numel())
