"""The devices that there are, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.rec.distributed.planner._bandwidths import BasicCommsBandwidths, GeneralizedCommsBandwidth
from flambeau.rec.distributed.planner._costs import Perf, Storage
from flambeau.rec.distributed.planner.constants import (
    BWD_COMPUTE_MULTIPLIER,
    CROSS_NODE_BANDWIDTH,
    DDR_CAP,
    DDR_MEM_BW,
    HBM_CAP,
    HBM_MEM_BW,
    HBM_TO_DDR_MEM_BW,
    INTRA_NODE_BANDWIDTH,
    SSD_CAP,
    SSD_MEM_BW,
    WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
)
from flambeau.rec.errors import OptionError

__all__ = ["CustomTopologyData", "DeviceHardware", "Topology"]

DEVICE_TYPES = ("cpu", "cuda", "mtia")


@dataclass
class DeviceHardware:
    """A device: what room it has left, and what it is to do already.

    Args:
        rank: of its process.
        storage: free memory, in bytes.
        perf: time of a step, in milliseconds.
    """

    rank: int
    storage: Storage
    perf: Perf


class CustomTopologyData:
    """Memory of devices that have not all the same.

    Args:
        data: "hbm_cap", "ddr_cap" or "ssd_cap" -> bytes of each device, by rank.
        world_size: how many devices there are.

    Raises:
        OptionError: there is another name, or a list of another length.
    """

    supported_fields = ("ddr_cap", "hbm_cap", "ssd_cap")

    def __init__(self, data: dict[str, list[int]], world_size: int) -> None:
        if unknown := sorted(data.keys() - set(self.supported_fields)):
            raise OptionError(f"data has {unknown}, but only {list(self.supported_fields)} can differ among devices.")
        if wrong := sorted(name for name, values in data.items() if len(values) != world_size):
            raise OptionError(
                f"data[{wrong[0]!r}] has {len(data[wrong[0]])} values for {world_size} devices; give one for each."
            )
        self._data = data
        self._world_size = world_size

    def get_data(self, key: str) -> list[int]:
        """What was given by a name.

        Raises:
            OptionError: the name is none of these.
        """
        if key not in self.supported_fields:
            raise OptionError(f"key is {key!r}, but must be one of {list(self.supported_fields)}.")
        return self._data[key]

    def has_data(self, key: str) -> bool:
        """Whether something was given by a name.

        Raises:
            OptionError: the name is none of these.
        """
        if key not in self.supported_fields:
            raise OptionError(f"key is {key!r}, but must be one of {list(self.supported_fields)}.")
        return key in self._data


class Topology:
    """The devices that a model is planned for. No such devices need to be there.

    Args:
        world_size: how many there are, one for each process.
        compute_device: "cuda", "cpu" or "mtia".
        hbm_cap: bytes of each device's memory; 32 GiB by default, none on CPUs.
        ddr_cap: bytes of the host's memory for each device; 128 GiB by default.
        ssd_cap: bytes of solid-state drives for each device; 2 TiB by default.
        local_world_size: devices of a host; all by default.
        pod_size: hosts that are linked to each other like the devices of one; 1 by default.
        hbm_mem_bw: of a device's memory, bytes a millisecond like all bandwidths.
        ddr_mem_bw: of the host's memory.
        ssd_mem_bw: of a solid-state drive.
        hbm_to_ddr_mem_bw: of the link between the two memories.
        intra_host_bw: of the links inside of a host.
        inter_host_bw: of the links between hosts.
        bwd_compute_multiplier: how much longer backward takes than forward.
        custom_topology_data: memory of devices that have not all the same.
        weighted_feature_bwd_compute_multiplier: how much longer gradients of weights take than forward.
        uneven_sharding_perf_multiplier: how much longer all takes where shards are of different sizes.
        generalized_comms_bandwidths: bandwidths by kind of communication, in place of the two.
        created_by_factory: whether `TopologyFactory` makes it.

    Raises:
        OptionError: a number of devices, or the kind of device, is impossible.
    """

    def __init__(
        self,
        world_size: int,
        compute_device: str,
        hbm_cap: int | None = None,
        ddr_cap: int | None = None,
        ssd_cap: int | None = None,
        local_world_size: int | None = None,
        pod_size: int | None = None,
        hbm_mem_bw: float = HBM_MEM_BW,
        ddr_mem_bw: float = DDR_MEM_BW,
        ssd_mem_bw: float = SSD_MEM_BW,
        hbm_to_ddr_mem_bw: float = HBM_TO_DDR_MEM_BW,
        intra_host_bw: float = INTRA_NODE_BANDWIDTH,
        inter_host_bw: float = CROSS_NODE_BANDWIDTH,
        bwd_compute_multiplier: float = BWD_COMPUTE_MULTIPLIER,
        custom_topology_data: CustomTopologyData | None = None,
        weighted_feature_bwd_compute_multiplier: float = WEIGHTED_FEATURE_BWD_COMPUTE_MULTIPLIER,
        uneven_sharding_perf_multiplier: float = 1.0,
        generalized_comms_bandwidths: GeneralizedCommsBandwidth | None = None,
        created_by_factory: bool = False,
    ) -> None:
        if compute_device not in DEVICE_TYPES:
            raise OptionError(f"compute_device is {compute_device!r}, but must be one of {', '.join(DEVICE_TYPES)}.")
        self._world_size = world_size
        self._compute_device = compute_device
        self._local_world_size = local_world_size or world_size
        if pod_size is not None and not 0 < pod_size <= max(world_size, 1):
            raise OptionError(f"pod_size is {pod_size}, but must be a number of hosts, from 1 to {world_size}.")
        self._pod_size = pod_size
        self._hbm_mem_bw, self._ddr_mem_bw, self._ssd_mem_bw = hbm_mem_bw, ddr_mem_bw, ssd_mem_bw
        self._hbm_to_ddr_mem_bw = hbm_to_ddr_mem_bw
        self._comms_bandwidths = generalized_comms_bandwidths or BasicCommsBandwidths(
            inter_host_bw=inter_host_bw, intra_host_bw=intra_host_bw
        )
        self._bwd_compute_multiplier = bwd_compute_multiplier
        self._custom_topology_data = custom_topology_data
        self._weighted_feature_bwd_compute_multiplier = weighted_feature_bwd_compute_multiplier
        self._uneven_sharding_perf_multiplier = uneven_sharding_perf_multiplier
        self._created_by_factory = created_by_factory

        own = HBM_CAP if hbm_cap is None else hbm_cap
        hbm = [0 if compute_device == "cpu" else own] * world_size
        ddr = [DDR_CAP if ddr_cap is None else ddr_cap] * world_size
        ssd = [SSD_CAP if ssd_cap is None else ssd_cap] * world_size
        if custom_topology_data is not None and custom_topology_data.has_data("hbm_cap"):
            hbm = custom_topology_data.get_data("hbm_cap")
        if custom_topology_data is not None and custom_topology_data.has_data("ddr_cap"):
            ddr = custom_topology_data.get_data("ddr_cap")
        if custom_topology_data is not None and custom_topology_data.has_data("ssd_cap"):
            ssd = custom_topology_data.get_data("ssd_cap")
        self._devices = [
            DeviceHardware(rank, Storage(hbm[rank], ddr[rank], ssd[rank]), Perf(0, 0, 0, 0))
            for rank in range(world_size)
        ]

    @property
    def compute_device(self) -> str:
        """The kind of device: "cuda", "cpu" or "mtia"."""
        return self._compute_device

    @property
    def devices(self) -> list[DeviceHardware]:
        """The devices, by rank."""
        return self._devices

    @property
    def world_size(self) -> int:
        """How many there are."""
        return self._world_size

    @property
    def local_world_size(self) -> int:
        """Devices of a host."""
        return self._local_world_size

    @property
    def intra_group_size(self) -> int:
        """Devices of a host, or of all hosts of a pod."""
        return self._local_world_size * (self._pod_size or 1)

    @property
    def hbm_mem_bw(self) -> float:
        """Of a device's memory, bytes a millisecond."""
        return self._hbm_mem_bw

    @property
    def ddr_mem_bw(self) -> float:
        """Of the host's memory, bytes a millisecond."""
        return self._ddr_mem_bw

    @property
    def ssd_mem_bw(self) -> float:
        """Of a solid-state drive, bytes a millisecond."""
        return self._ssd_mem_bw

    @property
    def hbm_to_ddr_mem_bw(self) -> float:
        """Of the link between a device's memory and the host's, bytes a millisecond."""
        return self._hbm_to_ddr_mem_bw

    @property
    def intra_host_bw(self) -> float:
        """Of the links inside of a host, bytes a millisecond."""
        return self._comms_bandwidths.intra_host_bw

    @property
    def inter_host_bw(self) -> float:
        """Of the links between hosts, bytes a millisecond."""
        return self._comms_bandwidths.inter_host_bw

    @property
    def comms_bandwidths(self) -> GeneralizedCommsBandwidth:
        """Of each kind of communication."""
        return self._comms_bandwidths

    @property
    def bwd_compute_multiplier(self) -> float:
        """How much longer backward takes than forward."""
        return self._bwd_compute_multiplier

    @property
    def weighted_feature_bwd_compute_multiplier(self) -> float:
        """How much longer gradients of weights take than forward."""
        return self._weighted_feature_bwd_compute_multiplier

    @property
    def uneven_sharding_perf_multiplier(self) -> float:
        """How much longer all takes where shards are of different sizes."""
        return self._uneven_sharding_perf_multiplier

    def device_memory(self) -> list[int] | None:
        """Bytes of each device by rank, of the memory that tables go to, where devices have not all the same."""
        name = "hbm_cap" if self._compute_device == "cuda" else "ddr_cap"
        custom = self._custom_topology_data
        return custom.get_data(name) if custom is not None and custom.has_data(name) else None

    def __repr__(self) -> str:
        devices = "".join(f"\tdevice {number} {device}\n" for number, device in enumerate(self._devices))
        return (
            f"world_size={self._world_size} \ncompute_device={self._compute_device}\ndevices=\n{devices}"
            f"local_world_size={self._local_world_size} \nintra_group_size={self.intra_group_size} \n"
            f"{self._comms_bandwidths}\n"
        )

    def _hash(self) -> int:
        """A number that two topologies share if plans for the one are plans for the other."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (
            self._world_size,
            self._compute_device,
            self._local_world_size,
            self.intra_group_size,
            tuple((device.rank, device.storage) for device in self._devices),
            self._hbm_mem_bw,
            self._ddr_mem_bw,
            self._ssd_mem_bw,
            self._hbm_to_ddr_mem_bw,
            str(self._comms_bandwidths),
            self._bwd_compute_multiplier,
            self._weighted_feature_bwd_compute_multiplier,
            self._uneven_sharding_perf_multiplier,
        )
