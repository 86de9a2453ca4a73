"""Which ids keep their rows when a table has fewer rows than there are ids: eviction policies and filters."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "DistanceLFU_EvictionPolicy",
    "LFU_EvictionPolicy",
    "LRU_EvictionPolicy",
    "MCHEvictionPolicy",
    "MCHEvictionPolicyMetadataInfo",
    "average_threshold_filter",
    "dynamic_threshold_filter",
    "probabilistic_threshold_filter",
]

Filter = Callable[[Tensor], tuple[Tensor, float | Tensor]]
_NEVER = torch.iinfo(torch.int64).max


def dynamic_threshold_filter(id_counts: Tensor, threshold_skew_multiplier: float = 10.0) -> tuple[Tensor, Tensor]:
    """Ids that came some times more often than the mean.

    Args:
        id_counts: (n,): how often each id came.
        threshold_skew_multiplier: how many times.

    Returns:
        (n,) bool, and the count from which on it holds.
    """
    threshold = id_counts.sum() / id_counts.numel() * threshold_skew_multiplier
    return id_counts > threshold, threshold


def average_threshold_filter(id_counts: Tensor) -> tuple[Tensor, Tensor]:
    """Ids that came more often than the mean.

    Args:
        id_counts: (n,): how often each id came.

    Returns:
        (n,) bool, and the mean.
    """
    threshold = id_counts.float().mean()
    return id_counts > threshold, threshold


def probabilistic_threshold_filter(id_counts: Tensor, per_id_probability: float = 0.01) -> tuple[Tensor, Tensor]:
    """Ids by chance, the more likely the more often they came.

    Args:
        id_counts: (n,): how often each id came.
        per_id_probability: with which a single occurrence counts.

    Returns:
        (n,) bool, and the random numbers that decided.
    """
    chosen = 1 - torch.pow(1 - per_id_probability, id_counts)
    drawn = torch.rand(id_counts.size(), device=id_counts.device)
    return drawn < chosen, drawn


class MCHEvictionPolicyMetadataInfo(NamedTuple):
    """A number that a policy keeps.

    Args:
        metadata_name: its name.
        is_mch_metadata: whether it is kept of each row.
        is_history_metadata: whether it is kept of each id that came since the last eviction.
    """

    metadata_name: str
    is_mch_metadata: bool
    is_history_metadata: bool


class MCHEvictionPolicy(abc.ABC):
    """Ranks ids that have rows and ids that came lately; the first ones have rows afterwards.

    Args:
        metadata_info: what it keeps.
        threshold_filtering_func: which ids take part at all, by how often they came.
    """

    def __init__(
        self, metadata_info: list[MCHEvictionPolicyMetadataInfo], threshold_filtering_func: Filter | None = None
    ) -> None:
        self._metadata_info = metadata_info
        self._threshold_filtering_func = threshold_filtering_func

    @property
    @abc.abstractmethod
    def metadata_info(self) -> list[MCHEvictionPolicyMetadataInfo]:
        """What it keeps."""

    def record_history_metadata(
        self, current_iter: int, incoming_ids: Tensor, history_metadata: dict[str, Tensor]
    ) -> None:
        """Note what is kept of ids as they come.

        Args:
            current_iter: the number of the batch.
            incoming_ids: (n,).
            history_metadata: (n,) each, written to.
        """
        if "last_access_iter" in history_metadata:
            history_metadata["last_access_iter"].fill_(current_iter)

    def coalesce_history_metadata(
        self,
        current_iter: int,
        history_metadata: dict[str, Tensor],
        unique_ids_counts: Tensor,
        unique_inverse_mapping: Tensor,
        additional_ids: Tensor | None = None,
        threshold_mask: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """What is kept of each id, from what was noted whenever it came.

        Args:
            current_iter: the number of the batch.
            history_metadata: (occurrences,) each.
            unique_ids_counts: (ids,): how often each came.
            unique_inverse_mapping: (occurrences, and those of `additional_ids`): which id each is.
            additional_ids: ids that came without being noted, in this batch.
            threshold_mask: (ids,): which take part; all where not given.

        Returns:
            (ids that take part,) each.
        """
        found = {}
        if "last_access_iter" in history_metadata:
            noted = history_metadata["last_access_iter"]
            if additional_ids is not None:
                noted = torch.cat([noted, torch.full_like(additional_ids, current_iter)])
            latest = torch.zeros_like(unique_ids_counts).scatter_reduce(
                0, unique_inverse_mapping, noted, reduce="amax", include_self=False
            )
            found["last_access_iter"] = latest if threshold_mask is None else latest[threshold_mask]
        return found

    def update_metadata_and_generate_eviction_scores(
        self,
        current_iter: int,
        mch_size: int,
        coalesced_history_argsort_mapping: Tensor,
        coalesced_history_sorted_unique_ids_counts: Tensor,
        coalesced_history_mch_matching_elements_mask: Tensor,
        coalesced_history_mch_matching_indices: Tensor,
        mch_metadata: dict[str, Tensor],
        coalesced_history_metadata: dict[str, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Rank ids, and give those that are first what belongs to rows.

        Args:
            current_iter: the number of the batch.
            mch_size: rows; the last one is nobody's.
            coalesced_history_argsort_mapping: (ids,): the ids that came in the order of how often.
            coalesced_history_sorted_unique_ids_counts: (ids,), in that order: how often each came.
            coalesced_history_mch_matching_elements_mask: (ids,), in that order: whether it has a row.
            coalesced_history_mch_matching_indices: which rows those have.
            mch_metadata: (mch_size,) each, changed.
            coalesced_history_metadata: (ids,) each, in the order of the ids.

        Returns:
            Rows that change hands, and the places, among ids without rows, of those that get them.
        """
        matching = coalesced_history_mch_matching_elements_mask
        counts = coalesced_history_sorted_unique_ids_counts
        came = {name: value[coalesced_history_argsort_mapping] for name, value in coalesced_history_metadata.items()}
        came["counts"] = counts
        rows = {name: value[:mch_size] for name, value in mch_metadata.items()}
        if "counts" in rows:
            rows["counts"][coalesced_history_mch_matching_indices] += counts[matching]
            rows["counts"][mch_size - 1] = _NEVER
        if "last_access_iter" in rows:
            rows["last_access_iter"][coalesced_history_mch_matching_indices] = came["last_access_iter"][matching]
            rows["last_access_iter"][mch_size - 1] = current_iter
        new = {name: came[name][~matching] for name in rows}
        scores = self._scores(current_iter, {name: torch.cat([rows[name], new[name]]) for name in rows})
        # Stable: of equals, those that have rows come first, then those that came more often.
        order = torch.argsort(scores, descending=True, stable=True)
        first, rest = order[:mch_size], order[mch_size:]
        evicted, chosen = rest[rest < mch_size], first[first >= mch_size] - mch_size
        for name, value in rows.items():
            value[evicted] = new[name][chosen]
        return evicted, chosen

    @abc.abstractmethod
    def _scores(self, current_iter: int, metadata: dict[str, Tensor]) -> Tensor:
        """The higher, the sooner an id has a row."""


_COUNTS = MCHEvictionPolicyMetadataInfo("counts", is_mch_metadata=True, is_history_metadata=False)
_LAST = MCHEvictionPolicyMetadataInfo("last_access_iter", is_mch_metadata=True, is_history_metadata=True)


class LFU_EvictionPolicy(MCHEvictionPolicy):
    """Ids that came most often have rows.

    Args:
        threshold_filtering_func: which ids take part at all, by how often they came.
    """

    def __init__(self, threshold_filtering_func: Filter | None = None) -> None:
        super().__init__([_COUNTS], threshold_filtering_func)

    @property
    def metadata_info(self) -> list[MCHEvictionPolicyMetadataInfo]:
        """How often each id came."""
        return self._metadata_info

    def _scores(self, current_iter: int, metadata: dict[str, Tensor]) -> Tensor:
        return metadata["counts"]


class LRU_EvictionPolicy(MCHEvictionPolicy):
    """Ids that came last have rows.

    Args:
        decay_exponent: kept for programs that give it: it changes no order.
        threshold_filtering_func: which ids take part at all, by how often they came.
    """

    def __init__(self, decay_exponent: float = 1.0, threshold_filtering_func: Filter | None = None) -> None:
        super().__init__([_LAST], threshold_filtering_func)
        self._decay_exponent = decay_exponent

    @property
    def metadata_info(self) -> list[MCHEvictionPolicyMetadataInfo]:
        """When each id came last."""
        return self._metadata_info

    def _scores(self, current_iter: int, metadata: dict[str, Tensor]) -> Tensor:
        return metadata["last_access_iter"]


class DistanceLFU_EvictionPolicy(MCHEvictionPolicy):
    """Ids that came often and lately have rows: by count / (batches since the last time + 1) ** decay_exponent.

    Args:
        decay_exponent: how much it counts when an id came last.
        threshold_filtering_func: which ids take part at all, by how often they came.
    """

    def __init__(self, decay_exponent: float = 1.0, threshold_filtering_func: Filter | None = None) -> None:
        super().__init__([_COUNTS, _LAST], threshold_filtering_func)
        self._decay_exponent = decay_exponent

    @property
    def metadata_info(self) -> list[MCHEvictionPolicyMetadataInfo]:
        """How often, and when each id came last."""
        return self._metadata_info

    def _scores(self, current_iter: int, metadata: dict[str, Tensor]) -> Tensor:
        since = (current_iter - metadata["last_access_iter"] + 1).double()
        return metadata["counts"] / since.pow(self._decay_exponent)
