"""Options of tables in a store of keys and values: which rows leave, what fills new ones, what the store is."""

from __future__ import annotations

import enum
from typing import NamedTuple

from flambeau.rec.errors import OptionError

__all__ = [
    "BackendType",
    "EnrichmentPolicy",
    "EnrichmentResponseFormat",
    "EnrichmentType",
    "EvictionPolicy",
    "KVZCHParams",
    "KVZCHTBEConfig",
]


class BackendType(enum.IntEnum):
    """Where rows live: on disk, in memory, on another machine, or in memory over disk."""

    SSD = 0
    DRAM = 1
    PS = 2
    DRAM_SSD = 3

    @classmethod
    def from_str(cls, key: str) -> BackendType:
        """The backend of a name.

        Args:
            key: "ssd" or "dram".

        Raises:
            ValueError: another one.
        """
        known = {"ssd": cls.SSD, "dram": cls.DRAM}
        if key not in known:
            raise OptionError(f"there is no backend {key!r}; choose one of {', '.join(known)}.")
        return known[key]


class EvictionPolicy(NamedTuple):
    """When rows of virtual tables leave, and which.

    Args:
        eviction_trigger_mode: 0 never, 1 every `eviction_step_intervals` steps, 2 when rows take more than
            `eviction_mem_threshold_gb`, 3 when it is asked for, 4 when a table has more ids than
            `training_id_eviction_trigger_count`, 5 when less memory than `eviction_free_mem_threshold_gb` is free.
        eviction_strategy: rows leave that were 0 and 4 not looked up for `ttls_in_mins`, 1 looked up less often than
            `counter_thresholds`, 2 both, 3 shorter than `l2_weight_thresholds`, 5 scored lowest, so that
            `training_id_keep_count` of each table stay.
        eviction_step_intervals: see the mode.
        eviction_mem_threshold_gb: likewise.
        counter_thresholds: of each table.
        ttls_in_mins: of each table.
        counter_decay_rates: of each table, what counts are multiplied by when rows leave.
        feature_score_counter_decay_rates: likewise scores.
        training_id_eviction_trigger_count: of each table.
        training_id_keep_count: of each table, ids that stay where rows leave by score.
        l2_weight_thresholds: of each table.
        threshold_calculation_bucket_stride: width of the bars of the histogram that scores are cut by.
        threshold_calculation_bucket_num: their number.
        interval_for_insufficient_eviction_s: seconds until the next eviction where too few rows left.
        interval_for_sufficient_eviction_s: and where enough did.
        interval_for_feature_statistics_decay_s: seconds between decays of scores.
        meta_header_lens: of each table, elements of the header of rows.
        eviction_free_mem_threshold_gb: see the mode.
        eviction_free_mem_check_interval_batch: batches between looks at the free memory.
        enable_eviction_for_feature_score_eviction_policy: of each table, whether rows leave by score.
        enable_ssd_writeback: whether rows that leave memory are kept on disk.
    """

    eviction_trigger_mode: int = 0
    eviction_strategy: int = 0
    eviction_step_intervals: int | None = None
    eviction_mem_threshold_gb: int | None = None
    counter_thresholds: list[int] | None = None
    ttls_in_mins: list[int] | None = None
    counter_decay_rates: list[float] | None = None
    feature_score_counter_decay_rates: list[float] | None = None
    training_id_eviction_trigger_count: list[int] | None = None
    training_id_keep_count: list[int] | None = None
    l2_weight_thresholds: list[float] | None = None
    threshold_calculation_bucket_stride: float | None = 0.2
    threshold_calculation_bucket_num: int | None = 1000000
    interval_for_insufficient_eviction_s: int = 600
    interval_for_sufficient_eviction_s: int = 60
    interval_for_feature_statistics_decay_s: int = 24 * 3600
    meta_header_lens: list[int] | None = None
    eviction_free_mem_threshold_gb: int | None = None
    eviction_free_mem_check_interval_batch: int | None = None
    enable_eviction_for_feature_score_eviction_policy: list[bool] | None = None
    enable_ssd_writeback: bool = False

    def validate(self) -> None:
        """Check that what mode and strategy need is given.

        Raises:
            AssertionError: it is not; also a ValueError.
        """
        if self.eviction_trigger_mode not in range(6):
            raise OptionError(f"eviction_trigger_mode is {self.eviction_trigger_mode}; expected 0 to 5.")
        if self.eviction_trigger_mode == 0:
            return
        if self.eviction_strategy not in _NEEDED_BY_STRATEGY:
            raise OptionError(f"eviction_strategy is {self.eviction_strategy}; expected 0 to 5.")
        of_tables = _NEEDED_BY_STRATEGY[self.eviction_strategy]
        for name in (*_NEEDED_BY_MODE.get(self.eviction_trigger_mode, ()), *of_tables):
            if getattr(self, name) is None:
                raise OptionError(
                    f"{name} is not given, which eviction_trigger_mode={self.eviction_trigger_mode} with "
                    f"eviction_strategy={self.eviction_strategy} needs."
                )
        if self.eviction_trigger_mode == 1 and (self.eviction_step_intervals or 0) <= 0:
            raise OptionError(f"eviction_step_intervals is {self.eviction_step_intervals}; expected 1 or more.")
        sizes = {name: len(getattr(self, name)) for name in of_tables}
        if len(set(sizes.values())) > 1:
            raise OptionError(f"the entries of each table do not agree: {sizes}; give one for each table in all.")


_NEEDED_BY_MODE = {
    1: ("eviction_step_intervals",),
    2: ("eviction_mem_threshold_gb",),
    4: ("training_id_eviction_trigger_count",),
    5: ("eviction_free_mem_threshold_gb", "eviction_free_mem_check_interval_batch"),
}
_NEEDED_BY_STRATEGY = {
    0: ("ttls_in_mins",),
    1: ("counter_thresholds", "counter_decay_rates"),
    2: ("counter_thresholds", "counter_decay_rates", "ttls_in_mins"),
    3: ("l2_weight_thresholds",),
    4: ("ttls_in_mins",),
    5: (
        "feature_score_counter_decay_rates", "training_id_eviction_trigger_count", "training_id_keep_count",
        "enable_eviction_for_feature_score_eviction_policy",
    ),
}  # fmt: skip


class EnrichmentType(enum.IntEnum):
    """Where values of rows that are new come from."""

    IGR_LASER_EMBEDDING = 0
    IGR_LASER_SID = 1
    ONEFLOW_OPENTAB_SID = 2
    ONEFLOW_FEATURE_STORE_SID = 3
    IN_MEMORY_TEST_ONLY = 4


class EnrichmentResponseFormat(enum.IntEnum):
    """How such values are written."""

    JSON = 0
    THRIFT_FLOAT = 1
    THRIFT_INT64 = 2


class EnrichmentPolicy(NamedTuple):
    """Whom new rows are asked of, and how; names and numbers mean something to the provider alone."""

    enrichment_type: EnrichmentType = EnrichmentType.IGR_LASER_EMBEDDING
    provider_name: str = ""
    client_id: str = ""
    enrichment_dim: int = 0
    response_format: EnrichmentResponseFormat = EnrichmentResponseFormat.JSON
    opentab_tier_name: str = ""
    opentab_payload_ids: str = ""
    opentab_payload_types: str = ""
    opentab_column_group_ids: str = ""
    opentab_vec_payload_indexes: str = ""
    opentab_timeout_ms: int = 5000
    opentab_batch_size: int = 100
    fs_tier: str = ""
    fs_caller_id: str = ""
    fs_timeout_ms: int = 5000
    fs_batch_size: int = 500
    fs_feature_group_id: int = 0
    fs_feature_group_name: str = ""
    fs_feature_name: str = ""
    laser_batch_size: int = 0


class KVZCHParams(NamedTuple):
    """Options of virtual tables, whose rows are made when their ids first come up.

    Args:
        bucket_offsets: of each table, the first and the last but one of the buckets here.
        bucket_sizes: of each table, ids of a bucket.
        enable_optimizer_offloading: whether what the optimizer keeps lies beside the rows.
        backend_return_whole_row: whether rows are given with header and states.
        eviction_policy: which rows leave.
        embedding_cache_mode: whether rows are written from outside, and looked up alone.
        load_ckpt_without_opt: whether checkpoints have no states.
        optimizer_type_for_st: optimizer of checkpoints that are loaded without their states.
        optimizer_state_dtypes_for_st: its states' types.
        enrichment_policy: what fills rows that are new.
        feature_score_collection_enabled: whether scores of features are collected.
    """

    bucket_offsets: list[tuple[int, int]] | None = None
    bucket_sizes: list[int] | None = None
    enable_optimizer_offloading: bool = False
    backend_return_whole_row: bool = False
    eviction_policy: EvictionPolicy = EvictionPolicy()
    embedding_cache_mode: bool = False
    load_ckpt_without_opt: bool = False
    optimizer_type_for_st: str | None = None
    optimizer_state_dtypes_for_st: frozenset[tuple[str, int]] | None = None
    enrichment_policy: EnrichmentPolicy | None = None
    feature_score_collection_enabled: bool = False

    def validate(self) -> None:
        """Check that options fit together.

        Raises:
            AssertionError: they do not; also a ValueError.
        """
        offsets, sizes = self.bucket_offsets or [], self.bucket_sizes or []
        if len(offsets) != len(sizes):
            raise OptionError(
                f"bucket_offsets is of {len(offsets)} tables and bucket_sizes of {len(sizes)}; give one each."
            )
        self.eviction_policy.validate()


class KVZCHTBEConfig(NamedTuple):
    """What plans say of virtual tables.

    Args:
        kvzch_eviction_trigger_mode: see `EvictionPolicy.eviction_trigger_mode`.
        eviction_free_mem_threshold_gb: see there.
        eviction_free_mem_check_interval_batch: see there.
        threshold_calculation_bucket_stride: see there.
        threshold_calculation_bucket_num: see there.
        load_ckpt_without_opt: see `KVZCHParams`.
        optimizer_type_for_st: see there.
        optimizer_state_dtypes_for_st: see there.
        enrichment_policy: see there.
    """

    kvzch_eviction_trigger_mode: int = 2
    eviction_free_mem_threshold_gb: int = 200
    eviction_free_mem_check_interval_batch: int = 1000
    threshold_calculation_bucket_stride: float = 0.2
    threshold_calculation_bucket_num: int | None = 1000000
    load_ckpt_without_opt: bool = False
    optimizer_type_for_st: str | None = None
    optimizer_state_dtypes_for_st: frozenset[tuple[str, int]] | None = None
    enrichment_policy: EnrichmentPolicy | None = None
