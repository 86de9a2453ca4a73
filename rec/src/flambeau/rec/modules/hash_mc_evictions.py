"""Which ids may leave a hash table of rows: those not seen for some hours, or the one not seen for longest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum, unique

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor

__all__ = [
    "HashZchEvictionConfig",
    "HashZchEvictionModule",
    "HashZchEvictionPolicyName",
    "HashZchEvictionScorer",
    "HashZchOptEvictionModule",
    "HashZchPerFeatureTtlScorer",
    "HashZchSingleTtlScorer",
    "HashZchThresholdEvictionModule",
    "get_eviction_module",
    "get_eviction_scorer",
    "get_kernel_from_policy",
]


@unique
class HashZchEvictionPolicyName(Enum):
    """Ids not seen for some hours, the same for all features or not; or the one that was not seen for longest."""

    SINGLE_TTL_EVICTION = "SINGLE_TTL_EVICTION"
    PER_FEATURE_TTL_EVICTION = "PER_FEATURE_TTL_EVICTION"
    LRU_EVICTION = "LRU_EVICTION"


@dataclass
class HashZchEvictionConfig:
    """For how long ids stay.

    Args:
        features: of the table.
        single_ttl: hours, for all features.
        per_feature_ttl: hours of each feature.
    """

    features: list[str]
    single_ttl: int | None = None
    per_feature_ttl: list[int] | None = None


def get_kernel_from_policy(policy_name: HashZchEvictionPolicyName | None) -> int:
    """What `zero_collision_hash` calls a policy: 0 by threshold, 1 the oldest."""
    return int(policy_name == HashZchEvictionPolicyName.LRU_EVICTION)


def _hour() -> int:
    return int(time.time()) // 3600


class HashZchEvictionScorer:
    """Scores ids by the hour until which they stay, counted from 1970.

    Args:
        config: for how long.
    """

    def __init__(self, config: HashZchEvictionConfig) -> None:
        self._config = config

    def gen_score(self, feature: JaggedTensor, device: torch.device) -> Tensor:
        """(L,) int32: the score of each id."""
        return torch.empty(0, device=device)

    def gen_threshold(self) -> int:
        """Ids with a lower score may be evicted; -1 for none."""
        return -1


class HashZchSingleTtlScorer(HashZchEvictionScorer):
    """The hour of now, and `single_ttl` more."""

    def gen_score(self, feature: JaggedTensor, device: torch.device) -> Tensor:
        """(L,) int32: the score of each id.

        Raises:
            OptionError: no time to live.
        """
        ttl = self._config.single_ttl
        if ttl is None or ttl <= 0:
            raise OptionError(f"single_ttl is {ttl}, expected hours above 0.")
        return torch.full_like(feature.values(), _hour() + ttl, dtype=torch.int32, device=device)

    def gen_threshold(self) -> int:
        """The hour of now."""
        return _hour()


class HashZchPerFeatureTtlScorer(HashZchEvictionScorer):
    """The hour of now, and the hours of the id's feature more.

    The weights of what is scored are the numbers of ids of each feature.
    """

    def gen_score(self, feature: JaggedTensor, device: torch.device) -> Tensor:
        """(L,) int32: the score of each id.

        Raises:
            OptionError: not a time to live for each feature.
        """
        hours = self._config.per_feature_ttl
        if hours is None or len(hours) != len(self._config.features):
            raise OptionError(f"per_feature_ttl is {hours}, expected hours for each of {self._config.features}.")
        counts = feature.weights().to(torch.int64)
        ttl = torch.tensor(hours, dtype=torch.int32, device=device)
        return ttl.repeat_interleave(counts.to(device)) + _hour()

    def gen_threshold(self) -> int:
        """The hour of now."""
        return _hour()


def get_eviction_scorer(policy_name: HashZchEvictionPolicyName, config: HashZchEvictionConfig) -> HashZchEvictionScorer:
    """The scorer of a policy; that of a single time to live for all but one for each feature."""
    if policy_name == HashZchEvictionPolicyName.PER_FEATURE_TTL_EVICTION:
        return HashZchPerFeatureTtlScorer(config)
    return HashZchSingleTtlScorer(config)


class HashZchThresholdEvictionModule(nn.Module):
    """Eviction by scores.

    Args:
        policy_name: how ids are scored.
        config: for how long they stay.
    """

    def __init__(self, policy_name: HashZchEvictionPolicyName, config: HashZchEvictionConfig) -> None:
        super().__init__()
        self._policy_name, self._config = policy_name, config
        self._scorer = get_eviction_scorer(policy_name, config)

    def forward(self, feature: JaggedTensor, device: torch.device) -> tuple[Tensor, int]:
        """The score of each id, and the one below which ids may be evicted."""
        return self._scorer.gen_score(feature, device), self._scorer.gen_threshold()


class HashZchOptEvictionModule(nn.Module):
    """Eviction of the oldest, which needs no scores.

    Args:
        policy_name: of it.
    """

    def __init__(self, policy_name: HashZchEvictionPolicyName) -> None:
        super().__init__()
        self._policy_name = policy_name

    def forward(self, feature: JaggedTensor, device: torch.device) -> tuple[None, int]:
        """No scores, and no threshold."""
        return None, -1


def get_eviction_module(policy_name: HashZchEvictionPolicyName, config: HashZchEvictionConfig | None) -> nn.Module:
    """The module of a policy.

    Raises:
        OptionError: a policy by time without a configuration.
    """
    if config is None:
        if policy_name == HashZchEvictionPolicyName.LRU_EVICTION:
            return HashZchOptEvictionModule(policy_name)
        raise OptionError(f"{policy_name.value} needs a configuration that says for how long ids stay; got none.")
    if policy_name == HashZchEvictionPolicyName.LRU_EVICTION and config.single_ttl is None:
        return HashZchOptEvictionModule(policy_name)
    return HashZchThresholdEvictionModule(policy_name, config)


class HashZchEvictionModule(nn.Module):
    """What decides about eviction, on a device.

    Args:
        policy_name: how.
        device: of scores.
        config: for how long ids stay.
    """

    def __init__(
        self,
        policy_name: HashZchEvictionPolicyName,
        device: torch.device,
        config: HashZchEvictionConfig | None,
    ) -> None:
        super().__init__()
        self._policy_name, self._device = policy_name, device
        self._eviction_module = get_eviction_module(policy_name, config)

    def forward(self, feature: JaggedTensor) -> tuple[Tensor | None, int]:
        """The score of each id or None, and the score below which ids may be evicted."""
        found: tuple[Tensor | None, int] = self._eviction_module(feature, self._device)
        return found
