"""What estimators know of hardware, and of the shard that they estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner.constants import (
    BIGINT_DTYPE,
    BWD_COMPUTE_MULTIPLIER,
    DDR_MEM_BW,
    HBM_MEM_BW,
    SSD_MEM_BW,
    UVM_CACHING_RATIO,
    WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
    WEIGHTED_KERNEL_MULTIPLIER,
    kernel_bw_lookup,
)
from flambeau.rec.distributed.planner.estimator.annotations import (
    get_bwd_coefficient,
    get_fwd_coefficient,
    get_prefetch_coefficient,
)
from flambeau.rec.distributed.planner.types import (
    GeneralizedCommsBandwidth,
    ParameterConstraints,
    Perf,
    SharderData,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.planner.utils import (
    extract_comm_data_type_size,
    get_num_poolings,
    is_prefetch_pipelined,
)
from flambeau.rec.distributed.types import ShardingType

__all__ = [
    "BIGINT_DTYPE",
    "BWD_COMPUTE_MULTIPLIER",
    "DDR_MEM_BW",
    "HBM_MEM_BW",
    "SSD_MEM_BW",
    "WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER",
    "WEIGHTED_KERNEL_MULTIPLIER",
    "EstimatorPerfCoefficients",
    "HardwarePerfConfig",
    "PerfCoefficient",
    "PerfCoefficientConfig",
    "PrefetchCoefficients",
    "ShardPerfContext",
]


@dataclass
class PerfCoefficient:
    """Factors of what a kernel reads and writes, before it is divided by the bandwidth.

    Args:
        input_read_size_multiplier: of the ids.
        lookup_size_multiplier: of the rows that are read.
        embedding_output_multiplier: of what is written.
        hash_size_multiplier: of the table's number of rows.
    """

    input_read_size_multiplier: float = 1.0
    lookup_size_multiplier: float = 1.0
    embedding_output_multiplier: float = 1.0
    hash_size_multiplier: float = 0.0


@dataclass
class PrefetchCoefficients:
    """Factors of what fetching rows into a cache takes, which give milliseconds.

    Args:
        expected_num_lookups_coefficient: of the ids.
        expected_num_unique_lookups_coefficient: of the distinct ids.
        expected_size_cache_fetches_coefficient: of the numbers in the rows that are fetched.
    """

    expected_num_lookups_coefficient: float = 0.0
    expected_num_unique_lookups_coefficient: float = 0.0
    expected_size_cache_fetches_coefficient: float = 0.0


@dataclass
class EstimatorPerfCoefficients:
    """Factors of both directions.

    Args:
        fwd: of look-ups.
        bwd: of updates; when None they take a multiple of the time of look-ups.
    """

    fwd: PerfCoefficient = field(default_factory=PerfCoefficient)
    bwd: PerfCoefficient | None = None


@dataclass
class PerfCoefficientConfig:
    """Factors by sharding type and kernel, and of both directions to each other.

    Args:
        table_wise: of whole tables; None for `default`, as are the next ones.
        row_wise: of tables split by rows.
        table_row_wise: of tables split by rows on one host, and of those split by columns first.
        data_parallel: of tables that every device has.
        column_wise: of tables split by columns, anywhere or on one host.
        by_kernel: by a pair of sharding type and kernel, which goes before the others.
        default: of all else.
        bwd_compute_multiplier: how much longer updates take than look-ups.
        weighted_kernel_multiplier: how much longer gradients of weights take than look-ups.
        weighted_feature_bwd_compute_multiplier: how much longer updates take where ids have weights.
        prefetch: of fetching rows into a cache.
    """

    table_wise: EstimatorPerfCoefficients | None = None
    row_wise: EstimatorPerfCoefficients | None = None
    table_row_wise: EstimatorPerfCoefficients | None = None
    data_parallel: EstimatorPerfCoefficients | None = None
    column_wise: EstimatorPerfCoefficients | None = None
    by_kernel: dict[tuple[str, str], EstimatorPerfCoefficients] = field(default_factory=dict)
    default: EstimatorPerfCoefficients = field(default_factory=EstimatorPerfCoefficients)
    bwd_compute_multiplier: float = BWD_COMPUTE_MULTIPLIER
    weighted_kernel_multiplier: float = WEIGHTED_KERNEL_MULTIPLIER
    weighted_feature_bwd_compute_multiplier: float = WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER
    prefetch: PrefetchCoefficients | None = None

    def get_coefficients(self, sharding_type: str, compute_kernel: str | None = None) -> EstimatorPerfCoefficients:
        """Those of a sharding type, and of a kernel if there are any."""
        if compute_kernel is not None and (sharding_type, compute_kernel) in self.by_kernel:
            return self.by_kernel[sharding_type, compute_kernel]
        return getattr(self, _LIKE.get(sharding_type, ""), None) or self.default


_LIKE = {
    ShardingType.TABLE_WISE.value: "table_wise",
    ShardingType.ROW_WISE.value: "row_wise",
    ShardingType.TABLE_ROW_WISE.value: "table_row_wise",
    ShardingType.GRID_SHARD.value: "table_row_wise",
    ShardingType.DATA_PARALLEL.value: "data_parallel",
    ShardingType.COLUMN_WISE.value: "column_wise",
    ShardingType.TABLE_COLUMN_WISE.value: "column_wise",
}


class HardwarePerfConfig:
    """A kind of hardware. To be derived from, with attributes or the decorators of `annotations`.

    Attributes:
        name: of the hardware.
        hbm_mem_bw: bandwidth of a device's memory, bytes a millisecond; where it is the default, the topology's counts,
            and so for the next two.
        ddr_mem_bw: of the host's memory.
        ssd_mem_bw: of a solid-state drive.
        device_bw: of all kernels, None for what follows from memory.
        hbm_to_ddr_mem_bw: of the link between the two memories, None for the topology's, and so for the next two.
        intra_host_bw: of links inside of a host.
        inter_host_bw: of links between hosts.
        kernel_device_bandwidths: of single kernels, by device and kernel.
    """

    name: str = "default"
    hbm_mem_bw: float = HBM_MEM_BW
    ddr_mem_bw: float = DDR_MEM_BW
    ssd_mem_bw: float = SSD_MEM_BW
    device_bw: float | None = None
    hbm_to_ddr_mem_bw: float | None = None
    intra_host_bw: float | None = None
    inter_host_bw: float | None = None
    kernel_device_bandwidths: ClassVar[dict[tuple[str, str], float]] = {}

    _coefficients: PerfCoefficientConfig | None = None
    _supported_sharding_types: frozenset[str] | None = None
    _bwd_compute_multiplier: float | None = None
    _weighted_feature_bwd_compute_multiplier: float | None = None
    _use_linear_regression_prefetch_estimate: bool = False
    _input_data_type_size: float | None = None
    _use_min_dim_for_lookup: bool | None = None
    _use_block_usage_penalty: bool | None = None
    _use_bytes_for_input_read_size: bool | None = None

    @property
    def coefficients(self) -> PerfCoefficientConfig:
        """The factors that methods marked by `annotations` give."""
        if self._coefficients is None:
            found: dict[str, Any] = {
                kind: self._annotated(kind)
                for kind in ("table_wise", "row_wise", "table_row_wise", "data_parallel", "column_wise")
            }
            self._coefficients = PerfCoefficientConfig(**found, prefetch=get_prefetch_coefficient(self))
        return self._coefficients

    @coefficients.setter
    def coefficients(self, coefficients: PerfCoefficientConfig) -> None:
        self._coefficients = coefficients

    def _annotated(self, sharding_type: str) -> EstimatorPerfCoefficients | None:
        fwd, bwd = get_fwd_coefficient(self, sharding_type), get_bwd_coefficient(self, sharding_type)
        if fwd is None and bwd is None:
            return None
        return EstimatorPerfCoefficients(fwd or PerfCoefficient(), bwd)

    def get_bwd_compute_multiplier(self, ctx_multiplier: float) -> float:
        """How much longer updates take than look-ups: what the hardware says, else the topology's `ctx_multiplier`."""
        own = self._bwd_compute_multiplier
        return ctx_multiplier if own is None else own

    def get_weighted_feature_bwd_compute_multiplier(self, ctx_multiplier: float) -> float:
        """How much longer they take where ids have weights, likewise."""
        own = self._weighted_feature_bwd_compute_multiplier
        return ctx_multiplier if own is None else own

    def get_coefficients_for_sharding(
        self, sharding_type: str, compute_kernel: str | None = None
    ) -> EstimatorPerfCoefficients:
        """Factors of a sharding type: of marked methods, else of `coefficients`."""
        return self._annotated(sharding_type) or self.coefficients.get_coefficients(sharding_type, compute_kernel)

    def is_sharding_type_supported(self, sharding_type: str) -> bool:
        """Whether a sharding type can be estimated."""
        return self._supported_sharding_types is None or sharding_type in self._supported_sharding_types

    def validate_sharding_type(self, sharding_type: str) -> None:
        """Raise ValueError if it cannot."""
        if not self.is_sharding_type_supported(sharding_type):
            known = ", ".join(sorted(self._supported_sharding_types or ()))
            raise ValueError(
                f"{type(self).__name__} cannot estimate sharding type {sharding_type!r}, but only {known}; "
                "constrain tables to these."
            )

    def post_process_perfs(
        self,
        shard_perfs: list[Perf],
        shard_sizes: list[list[int]],
        sharding_type: str,
        uneven_sharding_perf_multiplier: float = 1.0,
    ) -> list[Perf]:
        """What shards take in view of each other; to be overridden.

        Args:
            shard_perfs: what each takes by itself.
            shard_sizes: rows and columns of each.
            sharding_type: how their table is sharded.
            uneven_sharding_perf_multiplier: the topology's.

        Returns:
            As many; here what each takes by itself.
        """
        return shard_perfs

    def get_device_bw(
        self,
        compute_device: str,
        compute_kernel: str,
        hbm_mem_bw: float,
        ddr_mem_bw: float,
        ssd_mem_bw: float,
        hbm_to_ddr_mem_bw: float,
        caching_ratio: float | None = None,
        prefetch_pipeline: bool = False,
    ) -> float | None:
        """How fast a kernel reads and writes: its own bandwidth, else `device_bw`, else what follows from memory.

        Args:
            compute_device: "cuda", "cpu" or "mtia".
            compute_kernel: a value of `EmbeddingComputeKernel`.
            hbm_mem_bw: of the device's memory, bytes a millisecond like the others.
            ddr_mem_bw: of the host's memory.
            ssd_mem_bw: of a solid-state drive.
            hbm_to_ddr_mem_bw: of the link between the two memories.
            caching_ratio: rows of a cache as a share of the table's.
            prefetch_pipeline: whether rows are in the cache before they are asked for.

        Returns:
            Bytes a millisecond, None for a kernel that the device has not.
        """
        own = self.kernel_device_bandwidths.get((compute_device, compute_kernel), self.device_bw)
        if own is not None:
            return own
        return kernel_bw_lookup(
            compute_device,
            compute_kernel,
            hbm_mem_bw,
            ddr_mem_bw,
            hbm_to_ddr_mem_bw,
            caching_ratio,
            prefetch_pipeline,
            ssd_mem_bw,
        )


@dataclass
class ShardPerfContext:
    """What the time of a shard depends on.

    Args:
        sharding_type: a value of `ShardingType`.
        compute_kernel: a value of `EmbeddingComputeKernel`.
        hash_size: rows of the shard.
        emb_dim: columns of the shard.
        batch_sizes: examples of each process, for each feature.
        num_poolings: bags of an example, for each feature.
        input_lengths: ids in a bag, for each feature.
        world_size: devices.
        local_world_size: devices of a host.
        intra_group_size: devices of a pod of hosts.
        input_data_type_size: bytes of an id.
        table_data_type_size: bytes of a number in the table.
        output_data_type_size: bytes of a number that is looked up.
        fwd_a2a_comm_data_type_size: bytes of a number that an all-to-all sends forward, and so on.
        bwd_a2a_comm_data_type_size: an all-to-all, backward.
        fwd_sr_comm_data_type_size: a reduce-scatter, forward.
        bwd_sr_comm_data_type_size: an all-gather, backward.
        device_bw: bytes a millisecond that the kernel reads and writes.
        hbm_to_ddr_mem_bw: bandwidth of the link between the memories.
        intra_host_bw: of links inside of a host.
        inter_host_bw: of links between hosts.
        comms_bandwidths: of each kind of communication.
        is_inference: whether nothing is trained.
        is_weighted: whether ids have weights.
        is_pooled: whether bags are pooled.
        has_feature_processor: whether weights are learned.
        bwd_compute_multiplier: how much longer updates take than look-ups.
        weighted_feature_bwd_compute_multiplier: how much longer where ids have weights.
        use_linear_regression_prefetch_estimate: whether `PrefetchCoefficients` say how long fetching takes.
        use_batch_inputs_for_expected_cache_fetches: whether a cache misses a share of all ids, not of distinct ones.
        caching_ratio: rows of the cache as a share of the table's.
        table_name: of the table.
        hash_size_for_clamping: rows of the whole table: there are no more distinct ids.
        cache_stats_expected_lookups: distinct ids of a batch, where it is known.
        expected_miss_rate: share of look-ups that the cache lacks, where it is known.
    """

    sharding_type: str = ""
    compute_kernel: str = ""
    hash_size: int = 0
    emb_dim: int = 0
    batch_sizes: list[int] = field(default_factory=list)
    num_poolings: list[float] = field(default_factory=list)
    input_lengths: list[float] = field(default_factory=list)
    world_size: int = 1
    local_world_size: int = 1
    intra_group_size: int = 1
    input_data_type_size: float = BIGINT_DTYPE
    table_data_type_size: float = 4.0
    output_data_type_size: float = 4.0
    fwd_a2a_comm_data_type_size: float = 4.0
    bwd_a2a_comm_data_type_size: float = 4.0
    fwd_sr_comm_data_type_size: float = 4.0
    bwd_sr_comm_data_type_size: float = 4.0
    device_bw: float = HBM_MEM_BW
    hbm_to_ddr_mem_bw: float = HBM_MEM_BW
    intra_host_bw: float = 0.0
    inter_host_bw: float = 0.0
    comms_bandwidths: GeneralizedCommsBandwidth | None = None
    is_inference: bool = False
    is_weighted: bool = False
    is_pooled: bool = True
    has_feature_processor: bool = False
    bwd_compute_multiplier: float = BWD_COMPUTE_MULTIPLIER
    weighted_feature_bwd_compute_multiplier: float = WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER
    use_linear_regression_prefetch_estimate: bool = False
    use_batch_inputs_for_expected_cache_fetches: bool = False
    caching_ratio: float | None = None
    table_name: str = ""
    hash_size_for_clamping: int = 0
    cache_stats_expected_lookups: float | None = None
    expected_miss_rate: float | None = None

    @property
    def num_hosts(self) -> int:
        """How many hosts there are."""
        return max(self.world_size // self.local_world_size, 1)

    @property
    def num_twrw_groups(self) -> int:
        """How many pods of hosts there are."""
        return max(self.world_size // self.intra_group_size, 1)

    @property
    def is_uvm_caching(self) -> bool:
        """Whether the table is on the host, with a cache on the device whose misses are known."""
        return (
            self.compute_kernel == EmbeddingComputeKernel.FUSED_UVM_CACHING.value
            and self.caching_ratio is not None
            and self.cache_stats_expected_lookups is not None
        )

    @property
    def batch_inputs(self) -> float:
        """Ids of a process."""
        return sum(map(_product, self.input_lengths, self.num_poolings, self.batch_sizes))

    @property
    def batch_outputs(self) -> float:
        """Rows that they become: one for each bag that is not empty, or for each id."""
        if not self.is_pooled:
            return self.batch_inputs
        filled = (min(1.0, length) for length in self.input_lengths)
        return sum(map(_product, filled, self.num_poolings, self.batch_sizes))

    @classmethod
    def build_shard_perf_contexts(
        cls,
        config: HardwarePerfConfig,
        shard_sizes: list[list[int]],
        sharding_option: ShardingOption,
        topology: Topology,
        constraints: dict[str, ParameterConstraints] | None,
        sharder_data: SharderData,
        is_inference: bool = False,
        use_batch_inputs_for_expected_cache_fetches: bool = False,
        use_linear_regression_prefetch_estimate: bool = False,
    ) -> list[ShardPerfContext]:
        """Those of the shards of an option.

        Args:
            config: the hardware.
            shard_sizes: rows and columns of each shard.
            sharding_option: the option.
            topology: the devices.
            constraints: what users know, by table.
            sharder_data: what is known of the option's sharder.
            is_inference: whether nothing is trained.
            use_batch_inputs_for_expected_cache_fetches: see `ShardPerfContext`.
            use_linear_regression_prefetch_estimate: see `ShardPerfContext`.

        Raises:
            ValueError: the device has no such kernel.
        """
        option = sharding_option
        constraint = (constraints or {}).get(option.name)
        batch_sizes = constraint.batch_sizes if constraint is not None else None
        caching_ratio = option.cache_load_factor
        if caching_ratio is None:
            caching_ratio = sharder_data.fused_params.get("cache_load_factor")
        table_size = float(option.tensor.element_size())
        fwd_a2a, bwd_a2a, fwd_sr, bwd_sr = extract_comm_data_type_size(option, sharder_data)
        common: dict[str, Any] = {
            **_of_devices(config, topology),
            **_of_cache(option, caching_ratio),
            "sharding_type": option.sharding_type,
            "compute_kernel": option.compute_kernel,
            "batch_sizes": batch_sizes or [option.batch_size] * option.num_inputs,
            "num_poolings": get_num_poolings(constraints, option),
            "input_lengths": option.input_lengths,
            "table_data_type_size": table_size,
            "output_data_type_size": table_size,
            "fwd_a2a_comm_data_type_size": fwd_a2a,
            "bwd_a2a_comm_data_type_size": bwd_a2a,
            "fwd_sr_comm_data_type_size": fwd_sr,
            "bwd_sr_comm_data_type_size": bwd_sr,
            "device_bw": _device_bw(config, option, topology, caching_ratio, sharder_data),
            "is_inference": is_inference,
            "is_weighted": _is_weighted(option, constraint) or option.has_feature_processor,
            "is_pooled": option.is_pooled,
            "has_feature_processor": option.has_feature_processor,
            "use_linear_regression_prefetch_estimate": use_linear_regression_prefetch_estimate,
            "use_batch_inputs_for_expected_cache_fetches": use_batch_inputs_for_expected_cache_fetches,
            "table_name": option.name,
            "hash_size_for_clamping": option.tensor.shape[0],
        }
        return [cls(hash_size=rows, emb_dim=columns, **common) for rows, columns in shard_sizes]


def _of_devices(config: HardwarePerfConfig, topology: Topology) -> dict[str, Any]:
    """What depends on the devices alone."""
    id_size = config._input_data_type_size
    return {
        "world_size": topology.world_size,
        "local_world_size": topology.local_world_size,
        "intra_group_size": topology.intra_group_size,
        "input_data_type_size": BIGINT_DTYPE if id_size is None else id_size,
        "hbm_to_ddr_mem_bw": _link(config, topology),
        "intra_host_bw": topology.intra_host_bw,
        "inter_host_bw": topology.inter_host_bw,
        "comms_bandwidths": topology.comms_bandwidths,
        "bwd_compute_multiplier": topology.bwd_compute_multiplier,
        "weighted_feature_bwd_compute_multiplier": topology.weighted_feature_bwd_compute_multiplier,
    }


def _of_cache(option: ShardingOption, caching_ratio: float | None) -> dict[str, Any]:
    """How much of the table the cache has, and where it is known how much it lacks."""
    stats = option.cache_params.stats if option.cache_params is not None else None
    if stats is None or option.compute_kernel != EmbeddingComputeKernel.FUSED_UVM_CACHING.value:
        return {"caching_ratio": caching_ratio}
    ratio = UVM_CACHING_RATIO if caching_ratio is None else caching_ratio
    return {
        "caching_ratio": caching_ratio,
        "cache_stats_expected_lookups": stats.expected_lookups,
        "expected_miss_rate": stats.expected_miss_rate(ratio),
    }


def _link(config: HardwarePerfConfig, topology: Topology) -> float:
    """Bandwidth of the link between the memories."""
    return topology.hbm_to_ddr_mem_bw if config.hbm_to_ddr_mem_bw is None else config.hbm_to_ddr_mem_bw


def _device_bw(
    config: HardwarePerfConfig,
    option: ShardingOption,
    topology: Topology,
    caching_ratio: float | None,
    sharder_data: SharderData,
) -> float:
    """Bytes a millisecond that the option's kernel reads and writes.

    Raises:
        ValueError: the device has no such kernel.
    """
    found = config.get_device_bw(
        topology.compute_device,
        option.compute_kernel,
        _chosen(config.hbm_mem_bw, HBM_MEM_BW, topology.hbm_mem_bw),
        _chosen(config.ddr_mem_bw, DDR_MEM_BW, topology.ddr_mem_bw),
        _chosen(config.ssd_mem_bw, SSD_MEM_BW, topology.ssd_mem_bw),
        _link(config, topology),
        caching_ratio,
        is_prefetch_pipelined(option, sharder_data),
    )
    if found is None:
        raise ValueError(
            f"Table {option.name}: a device of kind {topology.compute_device!r} has no kernel "
            f"{option.compute_kernel!r}; constrain its compute_kernels."
        )
    return found


def _chosen(of_config: float, default: float, of_topology: float) -> float:
    """The configuration's, if it says something; else the topology's."""
    return of_topology if of_config == default else of_config


def _product(a: float, b: float, c: float) -> float:
    return a * b * c


def _is_weighted(option: ShardingOption, constraint: ParameterConstraints | None) -> bool:
    """Whether ids have weights: as the module says, else as the user does."""
    own = getattr(option.module[1], "is_weighted", None)
    if own is not None:
        return bool(own() if callable(own) else own)
    return constraint.is_weighted if constraint is not None else False
