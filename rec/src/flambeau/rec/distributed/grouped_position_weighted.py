"""Weights of ids by where in their bags they stand, for all features that one kernel looks up."""

from __future__ import annotations

import torch
from torch import nn

from flambeau.rec.distributed.embedding_types import BaseGroupedFeatureProcessor
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.feature_processor_ import PositionWeightedModuleCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["GroupedPositionWeightedModule"]


class GroupedPositionWeightedModule(BaseGroupedFeatureProcessor):
    """A weight for each place in the bags of each feature; parameters are `position_weights.<feature>`.

    Args:
        max_feature_lengths: ids in the longest bag of each feature, at least 1.
        device: of the weights, which are learned and begin as 1.

    Raises:
        OptionError: a length below 1.
    """

    def __init__(self, max_feature_lengths: dict[str, int], device: torch.device | None = None) -> None:
        super().__init__()
        weights = PositionWeightedModuleCollection(max_feature_lengths, device)
        self.max_feature_lengths = max_feature_lengths
        self.position_weights: nn.ParameterDict = weights.position_weights
        # Not a submodule: names of parameters have no further part.
        self._processor = [weights]

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features with weights.

        Args:
            features: ids; where they have weights already, these are the places of ids, as float32, which ids have had
                before they were divided among processes.

        Returns:
            The same features with weights.

        Raises:
            OptionError: a feature without weights of places.
            RuntimeError: a bag has more ids than there are weights of its feature.
        """
        unknown = [key for key in features.keys() if key not in self.position_weights]  # noqa: SIM118, a method of ours
        if unknown:
            raise OptionError(
                f"features {unknown} have no weights of places; max_feature_lengths has {[*self.max_feature_lengths]}."
            )
        processor = self._processor[0]
        processor.position_weights = self.position_weights
        processor._pre_processed = features.weights_or_none() is not None
        weighted: KeyedJaggedTensor = processor(features)
        return weighted
