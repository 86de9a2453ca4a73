"""Memory that is set aside before tables are placed."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from enum import Enum
from typing import Self

from torch import nn

from flambeau.rec.distributed.planner.constants import BIGINT_DTYPE, POOLING_FACTOR
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    Storage,
    StorageReservation,
    Topology,
)
from flambeau.rec.distributed.planner.utils import gb_to_bytes, sharder_name, storage_repr_in_gb
from flambeau.rec.distributed.types import ModuleSharder, get_tensor_size_bytes
from flambeau.rec.errors import OptionError

__all__ = [
    "BIGINT_DTYPE",
    "POOLING_FACTOR",
    "FixedAbsoluteStorageReservation",
    "FixedPercentageStorageReservation",
    "HeuristicalStorageReservation",
    "InferenceStorageReservation",
    "StorageReservationType",
]

# How many times the ids of a batch are in memory at a time, in training and in inference.
_TRAINING_INPUTS = 20
_INFERENCE_INPUTS = 1

Sharders = list[ModuleSharder[nn.Module]]
Constraints = dict[str, ParameterConstraints] | None


class StorageReservationType(Enum):
    """Ways to set memory aside."""

    HEURISTIC = "heuristic"
    FIXED_PERCENTAGE = "fixed_percentage"
    FIXED_ABSOLUTE = "fixed_absolute"


class _Remembering(StorageReservation):
    """Remembers what it gave."""

    _last_reserved_topology: Topology | None = None

    @property
    def last_reserved_topology(self) -> Topology | None:
        """What the last call of `reserve` gave, as it was then."""
        return self._last_reserved_topology


class FixedPercentageStorageReservation(_Remembering):
    """Sets a share of the devices' memory aside.

    Args:
        percentage: the share, 0 to 1.

    Raises:
        OptionError: it is none.
    """

    def __init__(self, percentage: float) -> None:
        self._percentage = _share(percentage)
        self._kjt_storage: Storage | None = None

    def reserve(
        self,
        topology: Topology,
        batch_size: int,
        module: nn.Module,
        sharders: Sharders,
        constraints: Constraints = None,
    ) -> Topology:
        """The devices with what is left of their memory; see `StorageReservation.reserve`."""
        reserved = copy.deepcopy(topology)
        _reserve_share(reserved, self._percentage)
        self._kjt_storage = _inputs(topology, batch_size, module, sharders, constraints, _TRAINING_INPUTS)
        self._last_reserved_topology = copy.deepcopy(reserved)
        return reserved


class FixedAbsoluteStorageReservation(FixedPercentageStorageReservation):
    """Sets so many bytes of each device's memory aside, at most all of it.

    Args:
        hbm_reserved_bytes: how many, 0 or more.

    Raises:
        OptionError: it is less.
    """

    def __init__(self, hbm_reserved_bytes: int) -> None:
        if hbm_reserved_bytes < 0:
            raise OptionError(f"hbm_reserved_bytes is {hbm_reserved_bytes}, but must be 0 or more.")
        super().__init__(percentage=0.0)
        self._hbm_reserved_bytes = hbm_reserved_bytes

    @classmethod
    def from_gb(cls, hbm_reserved_gb: float) -> Self:
        """The same in GiB."""
        return cls(gb_to_bytes(hbm_reserved_gb))

    def reserve(
        self,
        topology: Topology,
        batch_size: int,
        module: nn.Module,
        sharders: Sharders,
        constraints: Constraints = None,
    ) -> Topology:
        """The devices with what is left of their memory; see `StorageReservation.reserve`."""
        reserved = super().reserve(topology, batch_size, module, sharders, constraints)
        for device in reserved.devices:
            device.storage.hbm = max(device.storage.hbm - self._hbm_reserved_bytes, 0)
        self._last_reserved_topology = copy.deepcopy(reserved)
        return reserved


class HeuristicalStorageReservation(_Remembering):
    """Sets aside a share of the devices' memory, what dense parameters take in training, and 20 batches of ids.

    Args:
        percentage: the share, 0 to 1.
        parameter_multiplier: bytes in training for each byte of a dense parameter: itself, its gradient, its copies in
            optimizers and buckets.
        dense_tensor_estimate: bytes for dense parameters, where they are known better.

    Raises:
        OptionError: the share is none.
    """

    def __init__(
        self, percentage: float, parameter_multiplier: float = 6.0, dense_tensor_estimate: int | None = None
    ) -> None:
        self._percentage = _share(percentage)
        self._parameter_multiplier = parameter_multiplier
        self._dense_tensor_estimate = dense_tensor_estimate
        self._dense_storage: Storage | None = None
        self._kjt_storage: Storage | None = None

    def reserve(
        self,
        topology: Topology,
        batch_size: int,
        module: nn.Module,
        sharders: Sharders,
        constraints: Constraints = None,
    ) -> Topology:
        """The devices with what is left of their memory; see `StorageReservation.reserve`.

        Raises:
            PlannerError: less than nothing is left of a device's memory.
        """
        reserved = copy.deepcopy(topology)
        _reserve_share(reserved, self._percentage)
        self._dense_storage = _dense(
            topology, module, sharders, self._parameter_multiplier, self._dense_tensor_estimate
        )
        self._kjt_storage = _inputs(topology, batch_size, module, sharders, constraints, _TRAINING_INPUTS)
        _subtract(reserved, self._dense_storage + self._kjt_storage)
        self._last_reserved_topology = copy.deepcopy(reserved)
        lacking = min((device.storage for device in reserved.devices), key=lambda storage: storage.hbm, default=None)
        if lacking is not None and lacking.hbm < 0:
            raise PlannerError(
                f"Nothing is left of a device's memory for embedding tables: of "
                f"{storage_repr_in_gb(topology.devices[0].storage)}, {self._percentage:.0%} are reserved, dense "
                f"parameters take {storage_repr_in_gb(self._dense_storage)} and ids of batches "
                f"{storage_repr_in_gb(self._kjt_storage)}, which leaves {storage_repr_in_gb(lacking)}.\n"
                f"  1) Reduce the batch size of {batch_size} examples for each process.\n"
                f"  2) Reserve less than {self._percentage:.0%}.\n"
                f"  3) If dense parameters are counted too high, such as for a model that another wrapper shards, give "
                "dense_tensor_estimate, or use FixedPercentageStorageReservation.\n"
                "  4) Plan for devices with more memory.",
                PlannerErrorType.INSUFFICIENT_STORAGE,
            )
        return reserved


class InferenceStorageReservation(_Remembering):
    """Sets aside a share of the devices' memory, dense parameters, and one batch of ids.

    Args:
        percentage: the share, 0 to 1.
        dense_tensor_estimate: bytes for dense parameters, where they are known better.

    Raises:
        OptionError: the share is none.
    """

    def __init__(self, percentage: float, dense_tensor_estimate: int | None = None) -> None:
        self._percentage = _share(percentage)
        self._dense_tensor_estimate = dense_tensor_estimate
        self._dense_storage: Storage | None = None
        self._kjt_storage: Storage | None = None

    def reserve(
        self,
        topology: Topology,
        batch_size: int,
        module: nn.Module,
        sharders: Sharders,
        constraints: Constraints = None,
    ) -> Topology:
        """The devices with what is left of their memory; see `StorageReservation.reserve`."""
        reserved = copy.deepcopy(topology)
        _reserve_share(reserved, self._percentage)
        self._dense_storage = _dense(topology, module, sharders, 1, self._dense_tensor_estimate)
        self._kjt_storage = _inputs(topology, batch_size, module, sharders, constraints, _INFERENCE_INPUTS)
        _subtract(reserved, self._dense_storage + self._kjt_storage)
        self._last_reserved_topology = copy.deepcopy(reserved)
        return reserved


def _share(percentage: float) -> float:
    if not 0 <= percentage <= 1:
        raise OptionError(f"percentage is {percentage}, but must be a share from 0 to 1.")
    return percentage


def _reserve_share(topology: Topology, percentage: float) -> None:
    for device in topology.devices:
        device.storage.hbm = int((1 - percentage) * device.storage.hbm)


def _subtract(topology: Topology, storage: Storage) -> None:
    for device in topology.devices:
        device.storage -= storage


def _on_device(topology: Topology, size: int) -> Storage:
    """So many bytes of the memory that a device computes with."""
    return Storage(0, size) if topology.compute_device == "cpu" else Storage(size, 0)


def _dense(
    topology: Topology, module: nn.Module, sharders: Sharders, multiplier: float, estimate: int | None
) -> Storage:
    """What is not sharded: parameters so many times, buffers once."""
    if estimate:
        return _on_device(topology, estimate)
    size = _module_size(module, multiplier)
    for part, _ in _shardable(module, sharders):
        size -= _module_size(part, multiplier)
    return _on_device(topology, size)


def _module_size(module: nn.Module, multiplier: float) -> int:
    parameters = sum(map(get_tensor_size_bytes, module.parameters()))
    return round(multiplier * parameters + sum(map(get_tensor_size_bytes, module.buffers())))


def _inputs(
    topology: Topology,
    batch_size: int,
    module: nn.Module,
    sharders: Sharders,
    constraints: Constraints,
    times: int,
) -> Storage:
    """The ids of a batch so many times."""
    ids = 0.0
    for part, sharder in _shardable(module, sharders):
        for name in sharder.shardable_parameters(part):
            constraint = (constraints or {}).get(name)
            lengths = constraint.pooling_factors if constraint is not None else [POOLING_FACTOR]
            sizes = (constraint.batch_sizes if constraint is not None else None) or [batch_size] * len(lengths)
            ids += sum(length * size for length, size in zip(lengths, sizes, strict=False))
    return _on_device(topology, math.ceil(ids * BIGINT_DTYPE) * times)


def _shardable(module: nn.Module, sharders: Sharders) -> Iterator[tuple[nn.Module, ModuleSharder[nn.Module]]]:
    """Modules that are sharded, with their sharders."""
    by_class = {sharder_name(sharder.module_type): sharder for sharder in sharders}
    waiting = [module]
    while waiting:
        part = waiting.pop(0)
        sharder = by_class.get(sharder_name(type(part)))
        if sharder is None:
            waiting.extend(part.children())
        else:
            yield part, sharder
