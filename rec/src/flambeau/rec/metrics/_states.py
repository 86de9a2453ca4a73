"""Metrics as modules with states: what of torchmetrics' `Metric` recommendation metrics need, without torchmetrics.

States are plain attributes. They are moved with the module, reset to their defaults, saved if they are persistent, and
reduced over ranks before a value is computed. Names and meanings are those of torchmetrics, of whose `Metric` these are
virtual subclasses as soon as torchmetrics is loaded, in any version from 1.0 on.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.metrics._errors import SyncError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Metric", "Reduction", "State", "all_gather_uneven", "distributed_available"]

State = Tensor | list[Tensor]
"""One tensor, or tensors that are collected."""

Reduction = Callable[[Any], Any] | None
"""From the states of all ranks, stacked or as a list where they are lists, to their state; None keeps them apart."""

Method = TypeVar("Method", bound=Callable[..., Any])


def distributed_available() -> bool:
    """Whether there are other ranks to synchronize with."""
    return dist.is_available() and dist.is_initialized()


def _sum(states: Tensor) -> Tensor:
    return states.sum(0)


def _mean(states: Tensor) -> Tensor:
    return states.mean(0)


def _max(states: Tensor) -> Tensor:
    return states.amax(0)


def _min(states: Tensor) -> Tensor:
    return states.amin(0)


def _cat(states: Tensor | Sequence[Tensor]) -> Tensor:
    parts = [part if part.ndim else part[None] for part in states]
    return torch.cat(parts) if parts else torch.empty(0)


_REDUCTIONS: dict[str, Reduction] = {"sum": _sum, "mean": _mean, "max": _max, "min": _min, "cat": _cat}


class Metric(nn.Module, ABC):
    """A value computed from states that batches update.

    Subclasses add states, and define `update` and `compute`; of a call to `update` the number is kept, and the result
    of
    `compute` until the next one.

    Args:
        process_group: the ranks to synchronize with; all by default.
        sync_on_compute: reduce the states over ranks before a value is computed.
        compute_with_cache: keep the value until the next update.
        dist_sync_fn: gathers a tensor from all ranks, `dist_sync_fn(tensor, group=group) -> list of tensors`, in
            place of
            torch.distributed.
        distributed_available_fn: whether there is anything to synchronize with.
        dist_sync_on_step: `forward` synchronizes.
        compute_on_cpu: states that are lists move to the CPU after each update.
    """

    is_differentiable: bool | None = None
    higher_is_better: bool | None = None
    full_state_update: bool | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update" in vars(cls):
            cls.update = _counted(cls.update)  # type: ignore[method-assign]
        if "compute" in vars(cls):
            cls.compute = _kept(cls.compute)  # type: ignore[method-assign]

    def __init__(
        self,
        *,
        process_group: dist.ProcessGroup | None = None,
        sync_on_compute: bool = True,
        compute_with_cache: bool = True,
        dist_sync_fn: Callable[..., list[Tensor]] | None = None,
        distributed_available_fn: Callable[[], bool] | None = None,
        dist_sync_on_step: bool = False,
        compute_on_cpu: bool = False,
    ) -> None:
        super().__init__()
        _register_with_torchmetrics()
        self.process_group = process_group
        self.sync_on_compute = sync_on_compute
        self.compute_with_cache = compute_with_cache
        self.dist_sync_fn = dist_sync_fn
        self.distributed_available_fn = distributed_available_fn or distributed_available
        self.dist_sync_on_step = dist_sync_on_step
        self.compute_on_cpu = compute_on_cpu
        self._defaults: dict[str, State] = {}
        self._persistent: dict[str, bool] = {}
        self._reductions: dict[str, Reduction] = {}
        self._cache: dict[str, State] | None = None
        self._computed: Any = None
        self._is_synced = False
        self._to_sync = sync_on_compute
        self._should_unsync = True
        self._update_count = 0
        self._updating = False

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take a batch into the states."""

    @abstractmethod
    def compute(self) -> Any:
        """The value of the states, synchronized over ranks meanwhile."""

    def add_state(
        self,
        name: str,
        default: State,
        dist_reduce_fx: str | Callable[[Any], Any] | None = None,
        persistent: bool = False,
    ) -> None:
        """Add a state, an attribute of this name.

        Args:
            name: of the attribute.
            default: what it is before the first update: a tensor, or an empty list.
            dist_reduce_fx: how the states of all ranks become one: "sum", "mean", "max", "min", "cat", a function of
                them, or None.
            persistent: it belongs to the `state_dict`.

        Raises:
            ValueError: the default is something else, or there is no such reduction.
        """
        if not isinstance(default, Tensor) and default != []:
            raise OptionError(f"The default of state {name!r} is {default!r}; give a tensor or an empty list.")
        if dist_reduce_fx is not None and not callable(dist_reduce_fx) and dist_reduce_fx not in _REDUCTIONS:
            known = ", ".join(_REDUCTIONS)
            raise OptionError(
                f"dist_reduce_fx of state {name!r} is {dist_reduce_fx!r}; expected a function, None or one of {known}."
            )
        if isinstance(default, Tensor):
            default = default.contiguous()
        setattr(self, name, _copied(default))
        self._defaults[name] = _copied(default)
        self._persistent[name] = persistent
        self._reductions[name] = _REDUCTIONS[dist_reduce_fx] if isinstance(dist_reduce_fx, str) else dist_reduce_fx

    @property
    def metric_state(self) -> dict[str, State]:
        """The states by name."""
        return {name: getattr(self, name) for name in self._defaults}

    @property
    def update_count(self) -> int:
        """Updates since the start or the last reset."""
        return self._update_count

    @property
    def update_called(self) -> bool:
        """Whether there was any."""
        return self._update_count > 0

    @property
    def _update_called(self) -> bool:
        return self._update_count > 0

    @property
    def _update_signature(self) -> inspect.Signature:
        return inspect.signature(self.update)

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """Those arguments that `update` takes; collections of torchmetrics ask."""
        parameters = self._update_signature.parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return kwargs
        return {name: value for name, value in kwargs.items() if any(one.name == name for one in parameters)}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Take a batch into the states, and give the value of this batch alone."""
        self.update(*args, **kwargs)
        states, count = self.metric_state, self._update_count
        self.reset()
        synchronized, self._to_sync = self._to_sync, self.dist_sync_on_step
        try:
            self.update(*args, **kwargs)
            value = self.compute()
        finally:
            self._to_sync = synchronized
            self._set_states(states)
            self._update_count, self._computed = count, None
        return value

    def reset(self) -> None:
        """Set every state to its default."""
        self._update_count, self._computed, self._cache, self._is_synced = 0, None, None, False
        for name, default in self._defaults.items():
            current = getattr(self, name)
            fresh = _copied(default)
            if isinstance(fresh, Tensor) and isinstance(current, Tensor):
                fresh = fresh.to(current.device)
            setattr(self, name, fresh)

    def sync(
        self,
        dist_sync_fn: Callable[..., list[Tensor]] | None = None,
        process_group: dist.ProcessGroup | None = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Replace the states by those of all ranks together, until `unsync`.

        Args:
            dist_sync_fn: in place of the one given at construction.
            process_group: likewise.
            should_sync: do it at all.
            distributed_available: whether there is anything to synchronize with.

        Raises:
            SyncError: they are synchronized already.
        """
        if self._is_synced and should_sync:
            raise SyncError("The metric has already been synced; call unsync() before it is synced again.")
        if not should_sync or not (distributed_available or self.distributed_available_fn)():
            return
        self._cache = {name: _copied(state) for name, state in self.metric_state.items()}
        self._sync_dist(dist_sync_fn or self.dist_sync_fn, process_group or self.process_group)
        self._is_synced, self._computed = True, None

    def unsync(self, should_unsync: bool = True) -> None:
        """Take back the states of this rank.

        Raises:
            SyncError: they are not synchronized.
        """
        if not should_unsync:
            return
        if not self._is_synced or self._cache is None:
            raise SyncError("The metric has already been un-synced; call sync() first.")
        self._set_states(self._cache)
        self._cache, self._is_synced, self._computed = None, False, None

    @contextlib.contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., list[Tensor]] | None = None,
        process_group: dist.ProcessGroup | None = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> Iterator[None]:
        """Synchronized inside, unless they are outside already, in which case they stay so."""
        already = self._is_synced
        self.sync(dist_sync_fn, process_group, should_sync and not already, distributed_available)
        try:
            yield
        finally:
            self.unsync(should_unsync and self._is_synced and not already)

    def persistent(self, mode: bool = False) -> None:
        """Put all states into the `state_dict`, or none."""
        self._persistent = dict.fromkeys(self._persistent, mode)

    def state_dict(  # type: ignore[override]
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters, buffers, and copies of the persistent states."""
        found = cast("dict[str, Any]", super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars))  # type: ignore[type-var]
        for name, state in self.metric_state.items():
            if self._persistent[name]:
                found[prefix + name] = state if keep_vars else _copied(state)
        return found

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        mine = {name: prefix + name for name in self._defaults if prefix + name in state_dict}
        self._set_states({name: _copied(state_dict[key]) for name, key in mine.items()})
        if mine:
            # A state that was loaded is that of earlier updates.
            self._computed, self._update_count = None, max(self._update_count, 1)
        rest = {key: value for key, value in state_dict.items() if key not in mine.values()}
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

        # A state keeps its dtype, as sums need theirs; only its device changes.
        def moved(state: State) -> State:
            if isinstance(state, list):
                return [cast("Tensor", moved(part)) for part in state]
            return state.to(fn(state.new_empty(0)).device)

        self._set_states({name: moved(state) for name, state in self.metric_state.items()})
        self._defaults = {name: moved(state) for name, state in self._defaults.items()}
        if self._cache is not None:
            self._cache = {name: moved(state) for name, state in self._cache.items()}
        self._computed = None
        return self

    def _set_states(self, states: Mapping[str, State]) -> None:
        for name, state in states.items():
            setattr(self, name, state)

    def _sync_dist(
        self, dist_sync_fn: Callable[..., list[Tensor]] | None = None, process_group: dist.ProcessGroup | None = None
    ) -> None:
        """Reduce every state over ranks; sums go through the wire together."""
        states = self.metric_state
        sums: dict[torch.dtype, list[str]] = {}
        if dist_sync_fn is None:
            for name, state in states.items():
                if isinstance(state, Tensor) and self._reductions[name] is _sum:
                    sums.setdefault(state.dtype, []).append(name)
        for names in sums.values():
            parts = [cast("Tensor", states.pop(name)) for name in names]
            joined = torch.cat([part.reshape(-1) for part in parts])
            dist.all_reduce(joined, group=process_group)
            pieces = joined.split([part.numel() for part in parts])
            for name, part, piece in zip(names, parts, pieces, strict=True):
                setattr(self, name, piece.reshape(part.shape).clone())
        if states:
            self._gather(states, dist_sync_fn, process_group)

    def _gather(
        self,
        states: Mapping[str, State],
        dist_sync_fn: Callable[..., list[Tensor]] | None,
        group: dist.ProcessGroup | None,
    ) -> None:
        for name, state in states.items():
            reduction = self._reductions[name]
            if isinstance(state, list):
                parts = self._gather_list(state, reduction, dist_sync_fn, group)
                setattr(self, name, parts if reduction is None else reduction(parts) if parts else [])
            else:
                every = dist_sync_fn(state, group=group) if dist_sync_fn else all_gather_uneven(state, group)
                alike = all(one.shape == every[0].shape for one in every)
                stacked: Any = torch.stack(every) if alike and reduction is not _cat else every
                setattr(self, name, stacked if reduction is None else reduction(stacked))

    def _gather_list(
        self,
        state: list[Tensor],
        reduction: Reduction,
        dist_sync_fn: Callable[..., list[Tensor]] | None,
        group: dist.ProcessGroup | None,
    ) -> list[Tensor]:
        if dist_sync_fn is not None:
            gathered = [dist_sync_fn(part, group=group) for part in state]
            return [part for every in gathered for part in every]
        if len(state) > 1 and reduction is _cat:
            state = [_cat(state)]
        # Ranks may hold different numbers of tensors, also none.
        counts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(counts, [(tuple(part.shape), part.dtype) for part in state], group=group)
        like = next((kinds[0][1] for kinds in counts if kinds), None)
        found: list[list[Tensor]] = [[] for _ in counts]
        for at in range(max(map(len, counts))):
            mine = state[at] if at < len(state) else torch.empty(0, dtype=like, device=_device_of(self))
            shapes = [kinds[at][0] if at < len(kinds) else None for kinds in counts]
            every = all_gather_uneven(mine, group, [shape or (0,) for shape in shapes])
            for rank, shape in enumerate(shapes):
                if shape is not None:
                    found[rank].append(every[rank])
        return [part for parts in found for part in parts]

    def __hash__(self) -> int:
        return id(self)


def all_gather_uneven(
    value: Tensor, group: dist.ProcessGroup | None = None, shapes: Sequence[tuple[int, ...]] | None = None
) -> list[Tensor]:
    """The tensors of all ranks, whose shapes may differ.

    Args:
        value: of this rank; of the same dtype on all.
        group: the ranks.
        shapes: of all of them, if they are known.
    """
    if shapes is None:
        gathered: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(gathered, tuple(value.shape), group=group)
        shapes = gathered
    sizes = [torch.Size(shape).numel() for shape in shapes]
    padded = value.new_zeros(max(sizes))
    padded[: value.numel()] = value.detach().reshape(-1)
    every = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(every, padded, group=group)
    return [one[:size].reshape(shape) for one, size, shape in zip(every, sizes, shapes, strict=True)]


def _device_of(metric: Metric) -> torch.device:
    for state in (*metric.metric_state.values(), *metric._defaults.values()):
        if isinstance(state, Tensor):
            return state.device
        if state:
            return state[0].device
    return torch.device("cpu")


def _copied(state: State) -> State:
    return state.detach().clone() if isinstance(state, Tensor) else [part.detach().clone() for part in state]


def _counted(update: Method) -> Method:
    """`update` without gradients, counted once however often classes call those above them."""

    @functools.wraps(update)
    def wrapper(self: Metric, *args: Any, **kwargs: Any) -> None:
        if self._updating:
            update(self, *args, **kwargs)
            return
        self._computed, self._updating = None, True
        self._update_count += 1
        try:
            with torch.no_grad():
                update(self, *args, **kwargs)
        finally:
            self._updating = False
        if self.compute_on_cpu:
            for name, state in self.metric_state.items():
                if isinstance(state, list):
                    setattr(self, name, [part.cpu() for part in state])

    return cast("Method", wrapper)


def _kept(compute: Method) -> Method:
    """`compute` on synchronized states, its result kept until the next update."""

    @functools.wraps(compute)
    def wrapper(self: Metric, *args: Any, **kwargs: Any) -> Any:
        if not self.update_called:
            warnings.warn(
                f"{type(self).__name__}.compute() was called before update(), so its value is that of no examples.",
                UserWarning,
                stacklevel=2,
            )
        if self._computed is not None:
            return self._computed
        with self.sync_context(self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync):
            value = compute(self, *args, **kwargs)
        # Leaving the context forgets what was kept.
        if self.compute_with_cache:
            self._computed = value
        return value

    return cast("Method", wrapper)


def _register_with_torchmetrics() -> None:
    """Be a `torchmetrics.Metric` for whoever asks; torchmetrics itself is never imported here."""
    theirs = getattr(sys.modules.get("torchmetrics"), "Metric", None)
    if theirs is not None and not issubclass(Metric, theirs):
        theirs.register(Metric)
