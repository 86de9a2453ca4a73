"""Scores of features, by which ids of tables in key-value stores are evicted: sent along as weights of ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingInfo
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    FeatureScoreBasedEvictionPolicy,
    NoEvictionPolicy,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["create_sharding_type_to_feature_score_mapping", "may_collect_feature_scores"]


def create_sharding_type_to_feature_score_mapping(
    embedding_configs: Sequence[BaseEmbeddingConfig],
    sharding_type_to_sharding_infos: dict[str, list[EmbeddingShardingInfo]],
) -> tuple[bool, bool, dict[str, dict[str, float]]]:
    """What tables say of the scores of their features.

    Args:
        embedding_configs: the tables.
        sharding_type_to_sharding_infos: the same by the way in which they are spread.

    Returns:
        Whether ids are evicted by scores; whether scores are those of features; and, by the way in which tables are
        spread, the score of each feature.

    Raises:
        OptionError: tables that disagree, or a feature without a score.
    """
    virtual = [table for table in embedding_configs if getattr(table, "use_virtual_table", False)]
    policies = {table.name: getattr(table, "virtual_table_eviction_policy", None) for table in virtual}
    evicting = {
        name: policy
        for name, policy in policies.items()
        if policy is not None and not isinstance(policy, NoEvictionPolicy)
    }
    by_score = {name: one for name, one in evicting.items() if isinstance(one, FeatureScoreBasedEvictionPolicy)}
    if not by_score:
        return False, False, {}
    others = sorted(set(evicting) - set(by_score))
    if others:
        raise OptionError(
            f"ids of tables {sorted(by_score)} are evicted by scores, those of {others} otherwise; choose a "
            "FeatureScoreBasedEvictionPolicy for all of them, as scores take the place of weights."
        )
    collected = [name for name, policy in by_score.items() if policy.enable_auto_feature_score_collection]
    if not collected:
        return True, False, {}
    rest = sorted(set(by_score) - set(collected))
    if rest:
        raise OptionError(
            f"scores of features are collected for tables {sorted(collected)}, and not for {rest}; set "
            "enable_auto_feature_score_collection for all of them or for none."
        )
    found: dict[str, dict[str, float]] = {}
    for kind, infos in sharding_type_to_sharding_infos.items():
        scores: dict[str, float] = {}
        for info in infos:
            config = info.embedding_config
            if config.name in by_score:
                scores |= {name: _score(config.name, by_score[config.name], name) for name in config.feature_names}
        if scores:
            found[kind] = scores
    return True, True, found


def _score(table: str, policy: FeatureScoreBasedEvictionPolicy, feature: str) -> float:
    scores = policy.feature_score_mapping or {}
    if feature in scores:
        return scores[feature]
    if policy.feature_score_default_value is None:
        raise OptionError(
            f"the eviction policy of table {table!r} has no score of feature {feature!r}; add it to "
            "feature_score_mapping, or set feature_score_default_value."
        )
    return policy.feature_score_default_value


def may_collect_feature_scores(
    input_feature_splits: list[KeyedJaggedTensor],
    enabled_feature_score_auto_collection: bool,
    sharding_type_feature_score_mapping: dict[str, dict[str, float]],
) -> list[KeyedJaggedTensor]:
    """Give ids the scores of their features as weights, in place.

    Args:
        input_feature_splits: features of each sharding, in the order of the mapping.
        enabled_feature_score_auto_collection: whether to do so.
        sharding_type_feature_score_mapping: of each sharding, the score of each feature; 0 for others.

    Returns:
        The features.

    Raises:
        OptionError: features that have weights already.
    """
    if not enabled_feature_score_auto_collection:
        return input_feature_splits
    for features, scores in zip(input_feature_splits, sharding_type_feature_score_mapping.values(), strict=False):
        if features.weights_or_none() is not None:
            raise OptionError(
                f"features {features.keys()} have weights, in whose place scores would be sent; give them none."
            )
        values = torch.tensor([scores.get(key, 0.0) for key in features.keys()], device=features.device())  # noqa: SIM118
        counts = torch.tensor(features.length_per_key(), device=features.device())
        features._weights = values.repeat_interleave(counts, output_size=features.values().shape[0])
    return input_feature_splits
