"""A collection of tables whose features are weighted first."""

from __future__ import annotations

import torch
from torch import nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.modules.feature_processor_ import (
    FeatureProcessor,
    FeatureProcessorsCollection,
    get_stride_per_key_per_rank,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = ["FeatureProcessedEmbeddingBagCollection", "FeatureProcessorDictWrapper", "apply_feature_processors_to_kjt"]


def apply_feature_processors_to_kjt(
    features: KeyedJaggedTensor, feature_processors: dict[str, nn.Module]
) -> KeyedJaggedTensor:
    """Features with the weights that processors give them.

    Args:
        features: the features.
        feature_processors: of some of them; the weights of others are 1.
    """
    weights = []
    # By place: where rows of tables are on several processes, a key comes once for each table, with ids of its own.
    for key, part in zip(features.keys(), features.split([1] * len(features.keys())), strict=True):
        if key in feature_processors:
            feature = JaggedTensor(part.values(), part.weights_or_none(), part.lengths().view(-1))
            weights.append(feature_processors[key](feature).weights())
        else:
            weights.append(torch.ones(len(part.values()), device=features.device()))
    return KeyedJaggedTensor(
        keys=features.keys(),
        values=features.values(),
        weights=torch.cat(weights) if weights else features.weights_or_none(),
        lengths=features.lengths(),
        offsets=features.offsets(),
        stride=features.stride(),
        stride_per_key_per_rank=get_stride_per_key_per_rank(features),
        length_per_key=features.length_per_key(),
        offset_per_key=features.offset_per_key(),
        index_per_key=features.index_per_key(),
        inverse_indices=features.inverse_indices_or_none(),
    )


class FeatureProcessorDictWrapper(FeatureProcessorsCollection):
    """Processors of single features as one of all.

    Args:
        feature_processors: by the names of features.
    """

    def __init__(self, feature_processors: nn.ModuleDict) -> None:
        super().__init__()
        self._feature_processors = feature_processors

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features with weights."""
        return apply_feature_processors_to_kjt(features, dict(self._feature_processors.items()))


class FeatureProcessedEmbeddingBagCollection(nn.Module):
    """Features are weighted by processors, looked up, and pooled.

    Args:
        embedding_bag_collection: tables that take weights.
        feature_processors: one for each feature of the tables, or one for all.

    Raises:
        OptionError: the tables take no weights, or processors are not those of the features.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        feature_processors: dict[str, FeatureProcessor] | FeatureProcessorsCollection,
    ) -> None:
        super().__init__()
        self._embedding_bag_collection = embedding_bag_collection
        self._feature_processors: nn.ModuleDict | FeatureProcessorsCollection
        if isinstance(feature_processors, FeatureProcessorsCollection):
            self._feature_processors = feature_processors
        else:
            self._feature_processors = nn.ModuleDict(feature_processors)
        names = {name for table in embedding_bag_collection.embedding_bag_configs() for name in table.feature_names}
        if not isinstance(feature_processors, FeatureProcessorsCollection) and names != set(feature_processors):
            raise OptionError(
                f"feature_processors are of {sorted(feature_processors)}, expected those of the tables' features, "
                f"{sorted(names)}."
            )
        if not embedding_bag_collection.is_weighted():
            raise OptionError("embedding_bag_collection takes no weights; construct it with is_weighted=True.")
        self._feature_names = list(dict.fromkeys(sorted(names)))

    def split(self) -> tuple[FeatureProcessorsCollection, EmbeddingBagCollection]:
        """Both halves by themselves."""
        if isinstance(self._feature_processors, nn.ModuleDict):
            return FeatureProcessorDictWrapper(self._feature_processors), self._embedding_bag_collection
        return self._feature_processors, self._embedding_bag_collection

    def is_weighted(self) -> bool:
        """Whether features have weights of their own."""
        return self._embedding_bag_collection.is_weighted()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Weigh, look up and pool; see `EmbeddingBagCollection.forward`."""
        processors = self._feature_processors
        if isinstance(processors, nn.ModuleDict):
            features = apply_feature_processors_to_kjt(features, dict(processors.items()))
        else:
            features = processors(features)
        pooled: KeyedTensor = self._embedding_bag_collection(features)
        return pooled
