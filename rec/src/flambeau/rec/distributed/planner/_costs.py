"""What a shard costs: memory of each kind, and time of each stage of a step."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CriticalPathEstimate", "Perf", "Storage"]


@dataclass(repr=True, eq=True, order=True)
class Storage:
    """Bytes of memory, compared by the device's first.

    Args:
        hbm: of the device.
        ddr: of the host.
        ssd: of a solid-state drive.
    """

    hbm: int
    ddr: int
    ssd: int = 0

    def __add__(self, other: Storage) -> Storage:
        return Storage(self.hbm + other.hbm, self.ddr + other.ddr, self.ssd + other.ssd)

    def __sub__(self, other: Storage) -> Storage:
        return Storage(self.hbm - other.hbm, self.ddr - other.ddr, self.ssd - other.ssd)

    def __hash__(self) -> int:
        return hash((self.hbm, self.ddr, self.ssd))

    def fits_in(self, other: Storage) -> bool:
        """Whether there is room for this in that, of each kind of memory."""
        return self.hbm <= other.hbm and self.ddr <= other.ddr and self.ssd <= other.ssd


@dataclass(repr=True, eq=True)
class Perf:
    """Milliseconds that one step takes.

    Args:
        fwd_compute: to look up.
        fwd_comms: to send what was looked up to where it belongs.
        bwd_compute: to update the rows.
        bwd_comms: to send gradients to where the rows are.
        input_dist_comms: to send ids to where the rows are; another batch is computed meanwhile.
        prefetch_compute: to fill caches.
    """

    fwd_compute: float
    fwd_comms: float
    bwd_compute: float
    bwd_comms: float
    input_dist_comms: float = 0.0
    prefetch_compute: float = 0.0

    @property
    def total(self) -> float:
        """All but `input_dist_comms`, as if caches were never filled while something else is computed."""
        return self.fwd_compute + self.bwd_compute + self.fwd_comms + self.bwd_comms + self.prefetch_compute

    def __add__(self, other: Perf) -> Perf:
        return Perf(
            self.fwd_compute + other.fwd_compute,
            self.fwd_comms + other.fwd_comms,
            self.bwd_compute + other.bwd_compute,
            self.bwd_comms + other.bwd_comms,
            self.input_dist_comms + other.input_dist_comms,
            self.prefetch_compute + other.prefetch_compute,
        )

    def __hash__(self) -> int:
        return hash(
            (
                self.fwd_compute,
                self.fwd_comms,
                self.bwd_compute,
                self.bwd_comms,
                self.input_dist_comms,
                self.prefetch_compute,
            )
        )


@dataclass
class CriticalPathEstimate:
    """Milliseconds of the stages that wait for each other, each as long as it takes on the slowest device.

    Args:
        comms_estimate: of communication.
        comp_estimate: of computing.
    """

    comms_estimate: float
    comp_estimate: float

    def total(self) -> float:
        """Both."""
        return self.comms_estimate + self.comp_estimate
