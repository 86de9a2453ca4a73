"""What a plan gives each device to hold and to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flambeau.rec.distributed.planner._shard_storages import batch_bytes
from flambeau.rec.distributed.planner.constants import BIGINT_DTYPE
from flambeau.rec.distributed.planner.perf_models import add_to_devices
from flambeau.rec.distributed.planner.types import (
    CriticalPathEstimate,
    ParameterConstraints,
    Perf,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.planner.utils import get_num_poolings

__all__ = ["STAGES", "DeviceLoads", "imbalance"]

STAGES = ("fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute", "input_dist_comms")
"""Stages of a step, as `Perf` names them."""


class DeviceLoads:
    """What a plan gives each device to hold and to do.

    Args:
        plan: one option for each table, on devices.
        topology: the devices.
        constraints: what users know, by table.

    Attributes:
        hbm: (devices,), bytes of device memory.
        ddr: (devices,), bytes of the host's memory.
        stages: name of a stage -> (devices,), milliseconds.
        total: (devices,), milliseconds of all stages but that of ids.
        inputs: (devices,), bytes of ids of a batch.
        outputs: (devices,), bytes of what they become.
        shards: of each device, how many shards of each sharding type.
    """

    def __init__(
        self,
        plan: Sequence[ShardingOption],
        topology: Topology,
        constraints: dict[str, ParameterConstraints] | None = None,
    ) -> None:
        devices = topology.world_size
        self.hbm = np.zeros(devices, dtype=np.int64)
        self.ddr = np.zeros(devices, dtype=np.int64)
        self.inputs, self.outputs = np.zeros(devices), np.zeros(devices)
        self.stages: dict[str, npt.NDArray[np.float64]] = {stage: np.zeros(devices) for stage in STAGES}
        counts: dict[str, npt.NDArray[np.int64]] = {}
        for option in plan:
            runs = option.cost_runs()
            add_to_devices(self.hbm, option, [run.storage.hbm for run in runs])
            add_to_devices(self.ddr, option, [run.storage.ddr for run in runs])
            for stage, times in self.stages.items():
                add_to_devices(times, option, [getattr(run.perf, stage) for run in runs])
            of_type = counts.setdefault(option.sharding_type, np.zeros(devices, dtype=np.int64))
            add_to_devices(of_type, option, [1] * len(runs))
            self._add_batches(option, topology, constraints)
        self.total = _total(self.stages)
        self.shards = [
            Counter({kind: int(of_type[rank]) for kind, of_type in counts.items() if of_type[rank]})
            for rank in range(devices)
        ]

    def _add_batches(
        self, option: ShardingOption, topology: Topology, constraints: dict[str, ParameterConstraints] | None
    ) -> None:
        constraint = (constraints or {}).get(option.name)
        batch_sizes = (constraint.batch_sizes if constraint is not None else None) or (
            [option.batch_size] * option.num_inputs
        )
        sizes = option.run_sizes()
        inputs, outputs = batch_bytes(
            option.sharding_type,
            option.tensor.shape[1],
            sizes,
            batch_sizes,
            topology.world_size,
            topology.intra_group_size,
            option.input_lengths,
            get_num_poolings(constraints, option),
            option.is_pooled,
            BIGINT_DTYPE,
            option.tensor.element_size(),
        )
        add_to_devices(self.inputs, option, inputs)
        add_to_devices(self.outputs, option, outputs)

    def perf(self, rank: int) -> Perf:
        """Milliseconds of a device."""
        return Perf(**{stage: float(times[rank]) for stage, times in self.stages.items()})

    def critical_path(self) -> CriticalPathEstimate:
        """Milliseconds of a step in which devices wait for each other after each stage."""
        longest = {stage: float(times.max()) for stage, times in self.stages.items()}
        return CriticalPathEstimate(
            comms_estimate=longest["fwd_comms"] + longest["bwd_comms"],
            comp_estimate=longest["fwd_compute"] + longest["bwd_compute"] + longest["prefetch_compute"],
        )


def _total(stages: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return (
        stages["fwd_compute"]
        + stages["bwd_compute"]
        + stages["fwd_comms"]
        + stages["bwd_comms"]
        + stages["prefetch_compute"]
    )


def imbalance(loads: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> dict[str, float]:
    """How far loads are from being equal: distances of their shares p from the uniform distribution q = 1/n.

    Args:
        loads: (n,), 0 or more.

    Returns:
        0 where all are equal, or there is nothing to do:

        - "total variation": max |p - q|
        - "total distance": sum |p - q|
        - "chi divergence": sum (p - q)^2 / q
        - "KL divergence": sum p ln(p / q)
    """
    total = float(loads.sum())
    uniform = 1 / max(len(loads), 1)
    shares = loads / total if total else np.full(len(loads), uniform)
    distances = np.abs(shares - uniform)
    busy = shares[shares > 0]
    return {
        "total variation": float(distances.max(initial=0.0)),
        "total distance": float(distances.sum()),
        "chi divergence": float((distances**2 / uniform).sum()),
        "KL divergence": float((busy * np.log(busy / uniform)).sum()),
    }
