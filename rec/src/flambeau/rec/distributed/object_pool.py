"""Pools of objects over several processes."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from flambeau.rec.distributed.types import Awaitable, LazyAwaitable, ShardedModule
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.object_pool import ObjectPool
from flambeau.rec.modules.tensor_pool import PoolIndexError
from flambeau.rec.streamable import Multistreamable

__all__ = ["ShardedObjectPool"]

Out = TypeVar("Out")
DistOut = TypeVar("DistOut")
ShrdCtx = TypeVar("ShrdCtx", bound=Multistreamable)


class ShardedObjectPool(ObjectPool[Out], ShardedModule[Any, DistOut, Out, ShrdCtx], Generic[Out, DistOut, ShrdCtx]):
    """An `ObjectPool` whose objects are spread over processes.

    All processes have to look up, and update, at the same time, also those that have nothing to ask for.
    """

    def __init__(self) -> None:
        super().__init__()

    @abc.abstractmethod
    def create_context(self) -> ShrdCtx:
        """What the stages of one look-up or update share."""

    # ----- looking up -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _lookup_ids_dist(self, ctx: ShrdCtx, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        """Start to send numbers to the processes that keep their objects."""

    @abc.abstractmethod
    def _lookup_local(self, ctx: ShrdCtx, ids: Tensor) -> DistOut:
        """The objects of numbers that this process keeps, counted from its first."""

    @abc.abstractmethod
    def _lookup_values_dist(self, ctx: ShrdCtx, values: DistOut) -> LazyAwaitable[Out]:
        """Start to send the objects back."""

    def input_dist(self, ctx: ShrdCtx, *input: Any, **kwargs: Any) -> Awaitable[Awaitable[Tensor]]:
        """Start to send numbers: the first wait is for how many there are, the second for them."""
        return self._lookup_ids_dist(ctx, *input, **kwargs)

    def compute(self, ctx: ShrdCtx, dist_input: Tensor) -> DistOut:
        """Look up what all processes asked this one for."""
        return self._lookup_local(ctx, dist_input)

    def output_dist(self, ctx: ShrdCtx, output: DistOut) -> LazyAwaitable[Out]:
        """Start to send the objects back."""
        return self._lookup_values_dist(ctx, output)

    def lookup(self, ids: Tensor) -> LazyAwaitable[Out]:  # type: ignore[override]
        """The objects of (n,) numbers, waited for when they are first used."""
        ctx = self.create_context()
        return self.output_dist(ctx, self.compute(ctx, self.input_dist(ctx, ids).wait().wait()))

    def forward(self, ids: Tensor) -> LazyAwaitable[Out]:
        """See `lookup`."""
        return self.lookup(ids)

    # ----- updating ---------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _update_ids_dist(self, ctx: ShrdCtx, ids: Tensor) -> Awaitable[Awaitable[Tensor]]:
        """Start to send numbers to the processes that keep their objects."""

    @abc.abstractmethod
    def _update_values_dist(self, ctx: ShrdCtx, values: Out) -> Awaitable[Any]:
        """Start to send objects after them."""

    @abc.abstractmethod
    def _update_local(self, ctx: ShrdCtx, ids: Tensor, values: Any) -> None:
        """Write objects of numbers that this process keeps, counted from its first."""

    # Upstream: of a pool, `update` is that of objects by number.
    def update(self, ids: Tensor, values: Out) -> None:  # type: ignore[override]
        """Write the objects of (n,) numbers; where one stands several times, that of the last process stays."""
        ctx = self.create_context()
        arrived = self._update_ids_dist(ctx, ids).wait().wait()
        self._update_local(ctx, arrived, self._update_values_dist(ctx, values).wait())

    # ----- what all of them check -------------------------------------------------------------------------------------

    def _check_ids(self, ids: Tensor, rank: int | None) -> None:
        """Numbers are looked at before they are sent: elsewhere, nobody would know whose they were."""
        who = "" if rank is None else f" of process {rank}"
        if ids.dim() != 1 or ids.is_floating_point() or ids.is_complex():
            raise OptionError(
                f"ids{who} has shape {tuple(ids.shape)} and dtype {ids.dtype}, expected (n,) of integers."
            )
        # An accelerator looks for itself, without being waited for.
        if ids.device.type != "cpu" or not ids.numel():
            return
        low, high = int(ids.min()), int(ids.max())
        if not 0 <= low <= high < self.pool_size:
            raise PoolIndexError(
                f"ids{who} are {low} to {high}, expected 0 to {self.pool_size - 1}: the pool has {self.pool_size} rows."
            )

    @property
    def unsharded_module_type(self) -> type[nn.Module]:
        """`ObjectPool`."""
        return ObjectPool
