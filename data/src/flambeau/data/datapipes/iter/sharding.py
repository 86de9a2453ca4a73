"""Pipes by which workers and ranks each get their part of the samples."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeVar

from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe

T_co = TypeVar("T_co", covariant=True)


class SHARDING_PRIORITIES(IntEnum):
    """Who applied a sharding; lower values cut first. DEFAULT stands alone."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[T_co]):
    """Keeps every n-th sample, once someone has said which (functional name: `sharding_filter`).

    Data loaders call `apply_sharding`; until then every sample passes. All shards together give each sample exactly
    once, provided that they see the same samples in the same order: shuffle before, not after.

    Args:
        source_datapipe: source.
        sharding_group_filter: take part only in shardings of this group, such as `SHARDING_PRIORITIES.DISTRIBUTED`.

    Attributes:
        groups: group -> (number of shards, index), as applied.
        num_of_instances, instance_id: all groups together.
    """

    state_fields = ("_position", "_sharding")

    def __init__(
        self, source_datapipe: IterDataPipe[T_co], sharding_group_filter: SHARDING_PRIORITIES | None = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances = 1
        self.instance_id = 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Keep only the samples whose number modulo `num_of_instances` is `instance_id`.

        Groups multiply: among 2 ranks with 3 workers each, worker w of rank r keeps number 3 r + w modulo 6.

        Args:
            num_of_instances: shards of this group.
            instance_id: which of them this is.
            sharding_group: who applies it; the same group again replaces what it applied before.

        Raises:
            ValueError: `instance_id` is not below `num_of_instances`.
            RuntimeError: DEFAULT and another group were both applied.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"shard {instance_id} of {num_of_instances} does not exist; instance_id is counted from 0."
            )
        if self.sharding_group_filter is not None and sharding_group != self.sharding_group_filter:
            return
        if self.groups and (sharding_group == SHARDING_PRIORITIES.DEFAULT) != (
            SHARDING_PRIORITIES.DEFAULT in self.groups
        ):
            raise RuntimeError(
                "sharding without a group and sharding by groups cannot be combined: this pipe has "
                f"{[SHARDING_PRIORITIES(group).name for group in self.groups]}, and now "
                f"{SHARDING_PRIORITIES(sharding_group).name} was asked for. Give every sharding a group."
            )
        self.groups[int(sharding_group)] = (num_of_instances, instance_id)
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            count, index = self.groups[group]
            self.instance_id += self.num_of_instances * index
            self.num_of_instances *= count

    def reset(self) -> None:
        """Go back to the beginning."""
        self._position = 0
        self._sharding: list[int] | None = None

    def __iter__(self) -> Iterator[T_co]:
        count, index = self.num_of_instances, self.instance_id
        self._check_resumed(count, index)
        self._sharding = [count, index]
        position = self._position
        for item in self.source_datapipe:
            position += 1
            if (position - 1) % count == index:
                self._position = position
                yield item

    def _check_resumed(self, count: int, index: int) -> None:
        before = self._sharding
        if before is not None and before[0] != 1 and before != [count, index]:
            raise RuntimeError(
                f"this state is of shard {before[1]} of {before[0]}, and the pipe is now shard {index} of "
                f"{count}: samples "
                "would be lost or repeated. Resume with as many workers and ranks, or through "
                "DataLoader2, whose state can "
                "be continued by any number of them."
            )

    def __len__(self) -> int:
        total = len(self.source_datapipe)  # type: ignore[arg-type]
        return total // self.num_of_instances + (self.instance_id < total % self.num_of_instances)


@functional_datapipe("sharding_round_robin_dispatch")
class ShardingRoundRobinDispatcherIterDataPipe(IterDataPipe[T_co]):
    """Marks a part of a pipeline that must exist once (functional name: `sharding_round_robin_dispatch`).

    `MultiProcessingReadingService` runs everything before this pipe in one process, which hands samples to the workers
    in turn. Without it the pipe does nothing.

    Args:
        source_datapipe: the end of the part.
        sharding_group_filter: `SHARDING_PRIORITIES.MULTIPROCESSING`, the one group that dispatches.
    """

    state_fields = ()

    def __init__(
        self, source_datapipe: IterDataPipe[T_co], sharding_group_filter: SHARDING_PRIORITIES | None = None
    ) -> None:
        if sharding_group_filter != SHARDING_PRIORITIES.MULTIPROCESSING:
            raise NotImplementedError(
                f"sharding_round_robin_dispatch works for SHARDING_PRIORITIES.MULTIPROCESSING, got "
                f"{sharding_group_filter!r}."
            )
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter

    def __iter__(self) -> Iterator[T_co]:
        yield from self.source_datapipe

    def __len__(self) -> int:
        return len(self.source_datapipe)  # type: ignore[arg-type]


def is_sharding(pipe: Any) -> bool:
    """Whether a pipe takes part in sharding."""
    return callable(getattr(type(pipe), "apply_sharding", None))
