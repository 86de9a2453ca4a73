"""Training on several machines that agree only now and then."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.optim.keyed import KeyedOptimizer, Parameter, call_if_there, set_up_hooks

__all__ = [
    "SEMISYNC_GLOBAL_STEP_COUNTER_KEY",
    "SEMISYNC_LOCAL_STEP_COUNTER_KEY",
    "SEMI_SYNC_GLOBAL_OPTIM_KEY",
    "SEMI_SYNC_GLOBAL_STATE_KEY",
    "SEMI_SYNC_LOCAL_OPTIM_KEY",
    "SEMI_SYNC_LOCAL_STATE_KEY",
    "SemisyncOptimizer",
]

SEMI_SYNC_GLOBAL_OPTIM_KEY = "semi_sync_global_optim"
SEMI_SYNC_LOCAL_OPTIM_KEY = "semi_sync_local_optim"
SEMI_SYNC_GLOBAL_STATE_KEY = "semi_sync_global_"
SEMI_SYNC_LOCAL_STATE_KEY = "semi_sync_local_"
SEMISYNC_GLOBAL_STEP_COUNTER_KEY = "__semisync_global_step_counter__"
SEMISYNC_LOCAL_STEP_COUNTER_KEY = "__semisync_local_step_counter__"
_REMEMBERED_KEY = "__semisync_global_param__"


class SemisyncOptimizer(KeyedOptimizer):
    """Steps of one optimizer on each machine by itself, and from time to time one of another for all (DiLoCo).

    The global step takes what the local ones changed since the last one, averaged over all machines, for a gradient
    (Douillard et al. 2023, arXiv:2311.08105, Algorithm 1). An optimizer that has a method
    `global_step(local_steps, closure)` of its own does that itself.

    Args:
        global_params: what both optimizers train, or groups of it, or pairs with names.
        optimizer: makes the local steps.
        global_optimizer: makes the global ones.
        num_local_steps: from one global step to the next, 1 or more.
        semi_sync_worker_shard_group: the processes that agree; the default group where not given.
        offload_global_model: whether what parameters were at the last global step is kept on the host.
        non_blocking: whether copies to and from the host may go on while other things are computed.

    Raises:
        OptionError: fewer than one local step.
    """

    def __init__(
        self,
        global_params: Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
        optimizer: KeyedOptimizer,
        global_optimizer: KeyedOptimizer,
        num_local_steps: int = 16,
        semi_sync_worker_shard_group: dist.ProcessGroup | None = None,
        offload_global_model: bool = False,
        non_blocking: bool = False,
    ) -> None:
        if num_local_steps < 1:
            raise OptionError(f"num_local_steps is {num_local_steps}, expected 1 or more.")
        set_up_hooks(self)
        self.defaults = {"_save_param_groups": False}
        self._optimizer, self._global_optimizer = optimizer, global_optimizer
        self._worker_model_params = list(_parameters(global_params))
        self._num_local_steps = num_local_steps
        self._local_step_counter = torch.tensor(0, dtype=torch.int64)
        self._global_step_counter = torch.tensor(0, dtype=torch.int64)
        self._worker_shard_group = semi_sync_worker_shard_group
        self._offload_global_model, self._non_blocking = offload_global_model, non_blocking
        self._remembered: list[Tensor] | None = None

    def __repr__(self) -> str:
        return (
            f"{SEMI_SYNC_LOCAL_OPTIM_KEY}: {self._optimizer!r}, "
            f"{SEMI_SYNC_GLOBAL_OPTIM_KEY}: {self._global_optimizer!r}"
        )

    @property
    def param_groups(self) -> Collection[Mapping[str, Any]]:  # type: ignore[override]
        """Those of the local optimizer, then those of the global one."""
        return [*self._optimizer.param_groups, *self._global_optimizer.param_groups]

    @property
    def params(self) -> Mapping[str, Parameter]:  # type: ignore[override]
        """Those of both, and the two counters."""
        return {
            **self._optimizer.params,
            **self._global_optimizer.params,
            SEMISYNC_GLOBAL_STEP_COUNTER_KEY: self._global_step_counter,
            SEMISYNC_LOCAL_STEP_COUNTER_KEY: self._local_step_counter,
        }

    @property
    def state(self) -> Mapping[Any, Any]:  # type: ignore[override]
        """What both keep of each parameter, with a prefix that says which; after a global step the counters, too."""
        found: dict[Any, Any] = {}
        for prefix, optimizer in self._parts():
            for param, kept in optimizer.state.items():
                found.setdefault(param, {}).update({f"{prefix}{name}": value for name, value in kept.items()})
        for param, before in zip(self._worker_model_params, self._remembered or (), strict=False):
            if param in self._global_optimizer.state:
                found[param][_REMEMBERED_KEY] = before
        for param in self._global_optimizer.state:
            found[param][SEMISYNC_GLOBAL_STEP_COUNTER_KEY] = self._global_step_counter
            found[param][SEMISYNC_LOCAL_STEP_COUNTER_KEY] = self._local_step_counter
        return found

    def _parts(self) -> tuple[tuple[str, KeyedOptimizer], ...]:
        return (SEMI_SYNC_LOCAL_STATE_KEY, self._optimizer), (SEMI_SYNC_GLOBAL_STATE_KEY, self._global_optimizer)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make a local step, and the global one if it is time."""
        if self._remembered is None and not self._steps_by_itself():
            self._remembered = [self._copy(param) for param in self._worker_model_params]
        self._optimizer.step(closure)
        self._local_step_counter.add_(1)
        if int(self._local_step_counter) % self._num_local_steps == 0:
            self._global_step(closure)
            self._global_step_counter.add_(1)

    def _steps_by_itself(self) -> bool:
        return hasattr(getattr(self._global_optimizer, "_optimizer", None), "global_step")

    def _global_step(self, closure: Any) -> None:
        if self._steps_by_itself():
            self._global_optimizer._optimizer.global_step(self._local_step_counter, closure)  # type: ignore[attr-defined]
            return
        assert self._remembered is not None
        gradients = []
        for param, before in zip(self._worker_model_params, self._remembered, strict=True):
            start = before.to(param.device, non_blocking=self._non_blocking)
            gradients.append(param.grad)
            param.grad = self._averaged(start - param)
            param.copy_(start)
        self._global_optimizer.step()
        for param, gradient, before in zip(self._worker_model_params, gradients, self._remembered, strict=True):
            param.grad = gradient
            before.copy_(param, non_blocking=self._non_blocking)

    def _averaged(self, change: Tensor) -> Tensor:
        if dist.is_available() and dist.is_initialized():
            size = dist.get_world_size(self._worker_shard_group)
            if size > 1:
                dist.all_reduce(change, group=self._worker_shard_group)
                change /= size
        return change

    def _copy(self, param: Tensor) -> Tensor:
        kept = param.detach().clone()
        return kept.to("cpu", non_blocking=self._non_blocking) if self._offload_global_model else kept

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients.

        Args:
            set_to_none: None instead of 0.
        """
        for _, optimizer in self._parts():
            optimizer.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the states of both over, and the counters.

        Args:
            state_dict: as `state_dict` gives it. Where it is from after a global step and there was none here yet, one
                is made with gradients of 0 so that there is a state to load into.

        Raises:
            ValueError: as of `KeyedOptimizer.load_state_dict`.
        """
        given = state_dict["state"]
        merged = {name: dict(kept) for name, kept in given.items()}
        if any(key.startswith(SEMI_SYNC_GLOBAL_STATE_KEY) for kept in given.values() for key in kept):
            self._ready_for_global_state()
        names = {param: name for name, param in self._optimizer.params.items()}
        remembered = [merged.get(names.get(one, ""), {}).get(_REMEMBERED_KEY) for one in self._worker_model_params]
        for kept in merged.values():
            kept.pop(_REMEMBERED_KEY, None)
            self._global_step_counter.copy_(kept.pop(SEMISYNC_GLOBAL_STEP_COUNTER_KEY, self._global_step_counter))
            self._local_step_counter.copy_(kept.pop(SEMISYNC_LOCAL_STEP_COUNTER_KEY, self._local_step_counter))
        groups = list(state_dict.get("param_groups", []))
        for prefix, optimizer in self._parts():
            states = {
                name: {key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)}
                for name, kept in merged.items()
            }
            count = len(optimizer.param_groups)
            mine, groups = groups[:count], groups[count:]
            only = {name: kept for name, kept in states.items() if kept}
            optimizer.load_state_dict({"state": only, "param_groups": mine})
        # Where the state does not say: what parameters are at the next step.
        known = [self._copy(one) for one in remembered if one is not None]
        self._remembered = known if len(known) == len(remembered) else None
        self.post_load_state_dict()

    def _ready_for_global_state(self) -> None:
        if self._global_optimizer.state:
            return
        values = [param.detach().clone() for param in self._worker_model_params]
        gradients = [param.grad for param in self._worker_model_params]
        self._global_optimizer.init_state()
        for param, value, gradient in zip(self._worker_model_params, values, gradients, strict=True):
            param.copy_(value)
            param.grad = gradient

    def post_load_state_dict(self) -> None:
        """Tell both."""
        for _, optimizer in self._parts():
            optimizer.post_load_state_dict()

    def save_param_groups(self, save: bool) -> None:
        """Whether `state_dict` has the settings of groups, and `load_state_dict` wants them."""
        self.defaults["_save_param_groups"] = save
        for _, optimizer in self._parts():
            optimizer.save_param_groups(save)

    def set_optimizer_step(self, step: int) -> None:
        """Have those that can count steps from here."""
        for _, optimizer in self._parts():
            call_if_there(optimizer, "set_optimizer_step", step)

    def update_hyper_parameters(self, params_dict: dict[str, Any]) -> None:
        """Have those that can take other settings."""
        for _, optimizer in self._parts():
            call_if_there(optimizer, "update_hyper_parameters", params_dict)


def _parameters(given: Iterable[Any]) -> Iterable[Tensor]:
    for one in given:
        if isinstance(one, dict):
            yield from one["params"]
        else:
            yield one[1] if isinstance(one, tuple) else one
