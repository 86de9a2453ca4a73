"""Topologies from what is known of the job, of the machines, and of the kernels."""

from __future__ import annotations

import abc
import logging
from dataclasses import dataclass, field
from typing import Any

from flambeau.rec.distributed.planner._bandwidths import GeneralizedCommsBandwidth
from flambeau.rec.distributed.planner._topology import DEVICE_TYPES, Topology
from flambeau.rec.distributed.planner.constants import (
    BWD_COMPUTE_MULTIPLIER,
    CROSS_NODE_BANDWIDTH,
    DDR_MEM_BW,
    HBM_MEM_BW,
    HBM_TO_DDR_MEM_BW,
    INTRA_NODE_BANDWIDTH,
    SSD_MEM_BW,
    WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
)
from flambeau.rec.errors import OptionError

__all__ = ["HardwareConfig", "KernelConfig", "TopologyConfigBase", "TopologyFactory", "TrainerConfig"]


logger = logging.getLogger(__name__)


class TopologyConfigBase(abc.ABC):
    """What is known of something, with room for more in `additional_params`."""

    additional_params: dict[str, Any]

    def get_param(self, key: str, default: Any = None) -> Any:
        """One of the additional parameters, or the default."""
        return self.additional_params.get(key, default)

    def has_param(self, key: str) -> bool:
        """Whether there is an additional parameter by that name."""
        return key in self.additional_params

    @abc.abstractmethod
    def validate(self) -> None:
        """Raise ValueError for what is impossible."""


@dataclass
class TrainerConfig(TopologyConfigBase):
    """The job: how many devices, and how much of their memory it may use.

    Args:
        world_size: devices.
        local_world_size: devices of a host.
        hbm_cap_bytes: memory of each device, in place of the hardware's.
        ddr_cap_bytes: memory of the host for each device, likewise.
        ssd_cap_bytes: solid-state drives for each device, likewise.
        is_dry_run: whether a plan is made for devices that are not there, with the memory of the next two.
        dry_run_hbm_bytes: memory of each device.
        dry_run_ddr_bytes: memory of the host for each device.
        pod_size: hosts that are linked to each other like the devices of one.
        additional_params: whatever else is known.
    """

    world_size: int | None = None
    local_world_size: int | None = None
    hbm_cap_bytes: int | None = None
    ddr_cap_bytes: int | None = None
    ssd_cap_bytes: int | None = None
    is_dry_run: bool = False
    dry_run_hbm_bytes: int | None = None
    dry_run_ddr_bytes: int | None = None
    pod_size: int | None = None
    additional_params: dict[str, Any] = field(default_factory=dict)

    def validate(self) -> None:
        """Raise ValueError if there are no devices, or less than one on a host."""
        if self.world_size is None or self.world_size <= 0:
            raise OptionError(f"world_size is {self.world_size}, but must be the number of devices, 1 or more.")
        if self.local_world_size is not None and self.local_world_size <= 0:
            raise OptionError(f"local_world_size is {self.local_world_size}, but a host has 1 device or more.")


@dataclass
class HardwareConfig(TopologyConfigBase):
    """The machines: memory in bytes, bandwidths in bytes a millisecond; None where nobody knows.

    Args:
        hbm_cap_bytes: memory of each device.
        ddr_cap_bytes: memory of the host for each device.
        ssd_cap_bytes: solid-state drives for each device.
        intra_host_bw: of the links inside of a host.
        inter_host_bw: of the links between hosts.
        hbm_mem_bw: of a device's memory.
        ddr_mem_bw: of the host's memory.
        hbm_to_ddr_mem_bw: of the link between the two.
        ssd_mem_bw: of a solid-state drive.
        additional_params: whatever else is known.
    """

    hbm_cap_bytes: int | None = None
    ddr_cap_bytes: int | None = None
    ssd_cap_bytes: int | None = None
    intra_host_bw: float | None = None
    inter_host_bw: float | None = None
    hbm_mem_bw: float | None = None
    ddr_mem_bw: float | None = None
    hbm_to_ddr_mem_bw: float | None = None
    ssd_mem_bw: float | None = None
    additional_params: dict[str, Any] = field(default_factory=dict)

    def get_validation_issues(self, compute_device: str | None = None) -> list[str]:
        """What is impossible or missing, a sentence each; nothing if all is well.

        Args:
            compute_device: "cuda", "cpu" or "mtia"; whether it has memory of its own counts.
        """
        without_memory = compute_device not in {"cuda", "mtia"}
        return [
            f"{name} is {value}, but must be above 0."
            for name, value in vars(self).items()
            if name != "additional_params" and value is not None and value <= 0
            if not (name == "hbm_cap_bytes" and without_memory)
        ]

    def validate(self, compute_device: str | None = None) -> None:
        """Warn of all of `get_validation_issues`: devices without room are no error, only good for nothing."""
        for issue in self.get_validation_issues(compute_device):
            logger.warning("The hardware cannot be so: %s", issue)


@dataclass
class KernelConfig(TopologyConfigBase):
    """The kernels.

    Args:
        compute_device: "cuda", "cpu" or "mtia".
        bwd_compute_multiplier: how much longer backward takes than forward.
        weighted_feature_bwd_compute_multiplier: how much longer gradients of weights take than forward.
        uneven_sharding_perf_multiplier: how much longer all takes where shards are of different sizes.
        use_hardware_based_bandwidth: whether the hardware's bandwidths count, rather than the planner's own.
        generalized_comms_bandwidths: bandwidths by kind of communication.
        additional_params: whatever else is known.
    """

    compute_device: str = "cuda"
    bwd_compute_multiplier: float = BWD_COMPUTE_MULTIPLIER
    weighted_feature_bwd_compute_multiplier: float = WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER
    uneven_sharding_perf_multiplier: float = 1.0
    use_hardware_based_bandwidth: bool = False
    generalized_comms_bandwidths: GeneralizedCommsBandwidth | None = None
    additional_params: dict[str, Any] = field(default_factory=dict)

    def validate(self) -> None:
        """Raise ValueError if there are no such devices."""
        if self.compute_device not in DEVICE_TYPES:
            raise OptionError(
                f"compute_device is {self.compute_device!r}, but must be one of {', '.join(DEVICE_TYPES)}."
            )


class TopologyFactory:
    """Makes topologies."""

    @staticmethod
    def create_topology(
        trainer_config: TrainerConfig,
        hardware_config: HardwareConfig | None = None,
        kernel_config: KernelConfig | None = None,
    ) -> Topology:
        """The topology of a job.

        Args:
            trainer_config: the job; what it says of memory goes before what the hardware says.
            hardware_config: the machines, the planner's own numbers by default.
            kernel_config: the kernels.

        Raises:
            ValueError: something is impossible.
        """
        hardware, kernels = hardware_config or HardwareConfig(), kernel_config or KernelConfig()
        trainer_config.validate()
        hardware.validate(kernels.compute_device)
        kernels.validate()
        assert trainer_config.world_size is not None
        hbm = [trainer_config.hbm_cap_bytes, hardware.hbm_cap_bytes]
        ddr = [trainer_config.ddr_cap_bytes, hardware.ddr_cap_bytes]
        if trainer_config.is_dry_run:
            hbm.insert(0, trainer_config.dry_run_hbm_bytes)
            ddr.insert(0, trainer_config.dry_run_ddr_bytes)
        known = hardware if kernels.use_hardware_based_bandwidth else HardwareConfig()
        return Topology(
            world_size=trainer_config.world_size,
            compute_device=kernels.compute_device,
            hbm_cap=_first(hbm),
            ddr_cap=_first(ddr),
            ssd_cap=_first([trainer_config.ssd_cap_bytes, hardware.ssd_cap_bytes]),
            local_world_size=trainer_config.local_world_size,
            pod_size=trainer_config.pod_size,
            hbm_mem_bw=HBM_MEM_BW if known.hbm_mem_bw is None else known.hbm_mem_bw,
            ddr_mem_bw=DDR_MEM_BW if known.ddr_mem_bw is None else known.ddr_mem_bw,
            ssd_mem_bw=SSD_MEM_BW if known.ssd_mem_bw is None else known.ssd_mem_bw,
            hbm_to_ddr_mem_bw=HBM_TO_DDR_MEM_BW if known.hbm_to_ddr_mem_bw is None else known.hbm_to_ddr_mem_bw,
            intra_host_bw=INTRA_NODE_BANDWIDTH if known.intra_host_bw is None else known.intra_host_bw,
            inter_host_bw=CROSS_NODE_BANDWIDTH if known.inter_host_bw is None else known.inter_host_bw,
            bwd_compute_multiplier=kernels.bwd_compute_multiplier,
            weighted_feature_bwd_compute_multiplier=kernels.weighted_feature_bwd_compute_multiplier,
            uneven_sharding_perf_multiplier=kernels.uneven_sharding_perf_multiplier,
            generalized_comms_bandwidths=kernels.generalized_comms_bandwidths,
            created_by_factory=True,
        )


def _first(values: list[int | None]) -> int | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)
