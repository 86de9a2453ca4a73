"""Numbers that the planner reckons with: sizes in bytes, bandwidths in bytes a millisecond."""

from __future__ import annotations

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel

__all__ = [
    "BATCHED_COPY_PERF_FACTOR",
    "BATCH_SIZE",
    "BIGINT_DTYPE",
    "BWD_COMPUTE_MULTIPLIER",
    "CROSS_NODE_BANDWIDTH",
    "DDR_CAP",
    "DDR_MEM_BW",
    "DEFAULT_PERF_ESTIMATOR",
    "DP_ELEMENTWISE_KERNELS_PERF_FACTOR",
    "FULL_BLOCK_EMB_DIM",
    "HALF_BLOCK_PENALTY",
    "HBM_CAP",
    "HBM_MEM_BW",
    "HBM_TO_DDR_MEM_BW",
    "HUNDRED_GB",
    "INTRA_NODE_BANDWIDTH",
    "KV_CACHING_RATIO",
    "MAX_SIZE",
    "MIN_CW_DIM",
    "NUM_POOLINGS",
    "POOLING_FACTOR",
    "QUARTER_BLOCK_PENALTY",
    "SSD_CAP",
    "SSD_MEM_BW",
    "UVM_CACHING_RATIO",
    "WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER",
    "WEIGHTED_KERNEL_MULTIPLIER",
    "kernel_bw_lookup",
]

_GIB = 1024**3

MAX_SIZE: int = 2**63 - 1

# What one device has, and its host for it.
HBM_CAP: int = 32 * _GIB
DDR_CAP: int = 128 * _GIB
SSD_CAP: int = 2048 * _GIB
HUNDRED_GB: int = 100 * _GIB

# Links of a host's devices to each other, and of hosts.
INTRA_NODE_BANDWIDTH: float = 600 * _GIB / 1000
CROSS_NODE_BANDWIDTH: float = 12.5 * _GIB / 1000

# Memory, and the link between a device and its host.
HBM_MEM_BW: float = 897 * _GIB / 1000
DDR_MEM_BW: float = 51 * _GIB / 1000
SSD_MEM_BW: float = 100 * 1024**2 / 1000
HBM_TO_DDR_MEM_BW: float = 32 * _GIB / 1000

# Rows of a cache as a share of a table's, where nobody says.
UVM_CACHING_RATIO: float = 0.2
KV_CACHING_RATIO: float = 0.2

# Inputs, where nobody says: examples for each process, ids in a bag, bags of an example, bytes of an id.
BATCH_SIZE: int = 512
POOLING_FACTOR: float = 1.0
NUM_POOLINGS: float = 1.0
BIGINT_DTYPE: int = 8

# Columns that the smallest shard of a table split by columns has.
MIN_CW_DIM: int = 128

# A kernel's block computes 128 columns; with fewer it is used badly.
FULL_BLOCK_EMB_DIM: int = 128
HALF_BLOCK_PENALTY: float = 1.15
QUARTER_BLOCK_PENALTY: float = 1.75

# Time of kernels relative to others.
BATCHED_COPY_PERF_FACTOR: float = 2.455
BWD_COMPUTE_MULTIPLIER: float = 2
WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER: float = 1
WEIGHTED_KERNEL_MULTIPLIER: float = 1.1
DP_ELEMENTWISE_KERNELS_PERF_FACTOR: float = 9.22

DEFAULT_PERF_ESTIMATOR: str = "default_estimator"


def kernel_bw_lookup(
    compute_device: str,
    compute_kernel: str,
    hbm_mem_bw: float,
    ddr_mem_bw: float,
    hbm_to_ddr_mem_bw: float,
    caching_ratio: float | None = None,
    prefetch_pipeline: bool = False,
    ssd_mem_bw: float = SSD_MEM_BW,
) -> float | None:
    """How fast a kernel reads and writes rows, in bytes a millisecond.

    Args:
        compute_device: "cpu", "cuda" or "mtia".
        compute_kernel: a value of `EmbeddingComputeKernel`.
        hbm_mem_bw: bandwidth of the device's memory, as are the next ones in bytes a millisecond.
        ddr_mem_bw: of the host's memory.
        hbm_to_ddr_mem_bw: of the link between the two.
        caching_ratio: rows of the cache as a share of the table's, for kernels with one; 0.2 by default.
        prefetch_pipeline: whether rows are in the cache before they are asked for, so that its speed counts alone.
        ssd_mem_bw: of the solid-state drive.

    Returns:
        The bandwidth, None for a kernel that the device has not.
    """
    kernel = EmbeddingComputeKernel
    if compute_device not in {"cpu", "cuda", "mtia"}:
        return None
    memory = ddr_mem_bw if compute_device == "cpu" else hbm_mem_bw
    if compute_kernel == kernel.DENSE.value:
        return 0.5 * memory
    if compute_kernel in {kernel.FUSED.value, kernel.QUANT.value}:
        return memory
    if compute_device != "cuda":
        return None
    if prefetch_pipeline and compute_kernel == kernel.FUSED_UVM_CACHING.value:
        return memory
    ratio = UVM_CACHING_RATIO if caching_ratio is None else caching_ratio
    cached = (ratio * hbm_mem_bw + (1 - ratio) * hbm_to_ddr_mem_bw) / 10
    return {
        kernel.FUSED_UVM.value: hbm_to_ddr_mem_bw / 10,
        kernel.QUANT_UVM.value: hbm_to_ddr_mem_bw / 10,
        kernel.FUSED_UVM_CACHING.value: cached,
        kernel.QUANT_UVM_CACHING.value: cached,
        kernel.KEY_VALUE.value: ssd_mem_bw,
        kernel.SSD_VIRTUAL_TABLE.value: hbm_to_ddr_mem_bw,
        kernel.DRAM_VIRTUAL_TABLE.value: hbm_to_ddr_mem_bw,
        kernel.DRAM_SSD_VIRTUAL_TABLE.value: hbm_to_ddr_mem_bw,
        kernel.FUSED_TRITON.value: memory,
    }.get(compute_kernel)
