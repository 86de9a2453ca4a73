"""Feature processors of dictionaries of features, under the names of older programs; see `feature_processor_`."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn

from flambeau.rec.modules.feature_processor_ import get_stride_per_key_per_rank
from flambeau.rec.ops.ranges import offsets_range
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "BaseFeatureProcessor",
    "BaseGroupedFeatureProcessor",
    "PositionWeightedModule",
    "PositionWeightedProcessor",
    "offsets_to_range_traceble",
    "position_weighted_module_update_features",
]


class BaseFeatureProcessor(nn.Module):
    """Changes a dictionary of features."""

    @abc.abstractmethod
    def forward(self, features: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
        """The features, changed."""


class BaseGroupedFeatureProcessor(nn.Module):
    """Changes several features at once."""

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features, changed."""


def _weights(max_feature_lengths: dict[str, int], device: torch.device | None) -> nn.ParameterDict:
    weights = nn.ParameterDict()
    for name, length in max_feature_lengths.items():  # in this order: a dictionary would be sorted
        weights[name] = nn.Parameter(torch.ones(length, device=device))
    return weights


class PositionWeightedModule(BaseFeatureProcessor):
    """Weighs ids by where in their bags they stand; parameters are `position_weights.<feature>`.

    Args:
        max_feature_lengths: ids in the longest bag of each feature.
        device: of the weights, which are learned and begin as 1.
    """

    def __init__(self, max_feature_lengths: dict[str, int], device: torch.device | None = None) -> None:
        super().__init__()
        self.max_feature_lengths = max_feature_lengths
        self.position_weights = _weights(max_feature_lengths, device)

    def reset_parameters(self) -> None:
        """Make all weights 1."""
        with torch.no_grad():
            for weights in self.position_weights.values():
                weights.fill_(1.0)

    def forward(self, features: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
        """The same features, those that were named with weights.

        Raises:
            KeyError: a feature that was named is missing.
            RuntimeError: a bag has more ids than there are weights of its feature.
        """
        weighted = {}
        for name, weights in self.position_weights.items():
            feature = features[name]
            places = offsets_to_range_traceble(feature.offsets(), feature.values())
            weighted[name] = JaggedTensor(
                values=feature.values(),
                lengths=feature.lengths(),
                offsets=feature.offsets(),
                weights=torch.gather(weights, 0, places),
            )
        return position_weighted_module_update_features(features, weighted)


class PositionWeightedProcessor(BaseGroupedFeatureProcessor):
    """As `PositionWeightedModule`, for features that are keys of one tensor; others are left out of the result.

    Args:
        max_feature_lengths: ids in the longest bag of each feature.
        device: of the weights, which are learned and begin as 1.
    """

    def __init__(self, max_feature_lengths: dict[str, int], device: torch.device | None = None) -> None:
        super().__init__()
        self.max_feature_lengths = max_feature_lengths
        self.position_weights = _weights(max_feature_lengths, device)

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features that were named, in the order in which they come, with weights.

        Raises:
            KeyError: one is missing.
            RuntimeError: a bag has more ids than there are weights of its feature.
        """
        missing = [name for name in self.position_weights if name not in features.index_per_key()]
        if missing:
            raise KeyError(f"features has no {missing}; it has {features.keys()}.")
        names = [key for key in features.keys() if key in self.position_weights]  # noqa: SIM118, a method of ours
        chosen = features.permute([features.index_per_key()[name] for name in names])
        at = offsets_to_range_traceble(chosen.offsets(), chosen.values())
        parts = zip([self.position_weights[name] for name in names], at.split(chosen.length_per_key()), strict=True)
        variable = chosen.variable_stride_per_key()
        return KeyedJaggedTensor(
            keys=chosen.keys(),
            values=chosen.values(),
            weights=torch.cat([torch.gather(weights, 0, part) for weights, part in parts]),
            lengths=chosen.lengths(),
            offsets=chosen.offsets(),
            stride=None if variable else chosen.stride(),
            stride_per_key_per_rank=get_stride_per_key_per_rank(chosen),
            length_per_key=chosen.length_per_key(),
        )


def offsets_to_range_traceble(offsets: Tensor, values: Tensor) -> Tensor:
    """Where in its bag each id stands.

    Args:
        offsets: (bags + 1,).
        values: (L,).

    Returns:
        (L,) int64.
    """
    return offsets_range(offsets[:-1].long().contiguous(), values.numel())


def position_weighted_module_update_features(
    features: dict[str, JaggedTensor], weighted_features: dict[str, JaggedTensor]
) -> dict[str, JaggedTensor]:
    """Features of which some are replaced; the dictionary is changed and given back."""
    features.update(weighted_features)
    return features
