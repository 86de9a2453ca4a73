"""Optimizers that know their parameters by name, so that their states outlive a change of process or of sharding."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from flambeau.core.errors import FlambeauError

__all__ = ["CombinedOptimizer", "KeyedOptimizer", "KeyedOptimizerWrapper", "OptimizerWrapper", "StateKeyError"]

Parameter = Tensor | ShardedTensor


class StateKeyError(FlambeauError, ValueError, KeyError):
    """A state that has not what an optimizer keeps; a KeyError as well, which is what upstream raises."""


Closure = Callable[[], Any]


class KeyedOptimizer(Optimizer):
    """An optimizer whose state has the names of parameters as its keys.

    Args:
        params: parameters by name.
        state: what the optimizer keeps of each parameter.
        param_groups: groups of parameters with their settings, as torch's optimizers have them.

    Raises:
        ValueError: the state knows parameters that have no name.
    """

    def __init__(
        self,
        params: Mapping[str, Parameter],
        state: Mapping[Any, Any],
        param_groups: Collection[Mapping[str, Any]],
    ) -> None:
        # Not torch's own constructor: parameters, groups and states are somebody else's.
        set_up_hooks(self)
        self.defaults: dict[str, Any] = {"_save_param_groups": False}
        self.state: Mapping[Any, Any] = state  # type: ignore[assignment]
        self.param_groups: Collection[Mapping[str, Any]] = param_groups  # type: ignore[assignment]
        self.params = params
        named = set(params.values())
        strange = sum(param not in named for param in state)
        if strange:
            raise ValueError(f"state has {strange} keys that are not among params.")

    def state_dict(self) -> dict[str, Any]:
        """The state by names of parameters, and the groups' settings where they are saved, too."""
        state = self.state
        found: dict[str, Any] = {
            "state": {name: _content(state[param]) for name, param in self.params.items() if param in state}
        }
        if self.defaults["_save_param_groups"]:
            names = {param: name for name, param in self.params.items()}
            groups = [
                {"params": sorted(names[param] for param in group["params"])}
                | {key: value for key, value in group.items() if key != "params"}
                for group in self.param_groups
            ]
            found["param_groups"] = groups
        return found

    def post_load_state_dict(self) -> None:
        """Called when a state was loaded."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state over, into the tensors that are there.

        Args:
            state_dict: as `state_dict` gives it; the names must be those of this optimizer, which was initialized:
                see `init_state`.

        Raises:
            ValueError: names of parameters, of what is kept of them, or of groups' settings are not the same.
        """
        new = state_dict["state"]
        state = self.state
        mine = {name: param for name, param in self.params.items() if param in state}
        if len(mine) != len(new):
            raise ValueError(f"state_dict has the state of {len(new)} parameters, expected {len(mine)}.")
        for name, param in mine.items():
            if name not in new:
                raise ValueError(f"state_dict has no state of the parameter {name!r}; it has {_listed(new)}.")
            state[param] = _taken_over(state[param], new[name], name)  # type: ignore[index]
        if self.defaults["_save_param_groups"]:
            self._load_param_groups(state_dict["param_groups"])
        self.post_load_state_dict()

    def _load_param_groups(self, groups: Collection[Mapping[str, Any]]) -> None:
        names = {param: name for name, param in self.params.items()}
        if len(groups) != len(self.param_groups):
            raise ValueError(f"state_dict has {len(groups)} param_groups, expected {len(self.param_groups)}.")
        given = {"/".join(sorted(group["params"])): group for group in groups}
        for group in self.param_groups:
            key = "/".join(sorted(names[param] for param in group["params"]))
            if key not in given:
                raise ValueError(f"state_dict has no group of the parameters {key!r}; it has {_listed(given)}.")
            if given[key].keys() != group.keys():
                raise ValueError(
                    f"state_dict has the settings {_listed(given[key])} of the group {key!r}, expected "
                    f"{_listed(group)}."
                )
            for name in group:
                if name != "params":
                    group[name] = given[key][name]  # type: ignore[index]

    def add_param_group(self, param_group: Any) -> None:
        """Not possible: parameters have names here.

        Raises:
            NotImplementedError: always; construct another optimizer, and join both in a `CombinedOptimizer`.
        """
        raise NotImplementedError(
            "a KeyedOptimizer takes no further group; construct another one, and join both in a CombinedOptimizer."
        )

    def init_state(self, sparse_grad_parameter_names: set[str] | None = None) -> None:
        """Make a step with gradients of 0, by which optimizers come to have a state that can be loaded into.

        Args:
            sparse_grad_parameter_names: parameters whose gradients are sparse tensors.
        """
        sparse = sparse_grad_parameter_names or set()
        for name, param in self.params.items():
            if param.requires_grad:
                gradient = torch.zeros_like(param)
                param.grad = gradient.to_sparse() if name in sparse else gradient
        self.step(closure=None)

    def save_param_groups(self, save: bool) -> None:
        """Whether `state_dict` has the settings of groups, and `load_state_dict` wants them."""
        self.defaults["_save_param_groups"] = save

    def __getstate__(self) -> dict[str, Any]:
        # Not what torch's optimizers have alone.
        return self.__dict__


_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def set_up_hooks(optimizer: Optimizer) -> None:
    """What torch's constructor does besides keeping parameters."""
    for name in _HOOKS:
        setattr(optimizer, name, OrderedDict())
    optimizer._patch_step_function()


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _content(kept: Any) -> Any:
    """What is kept, with objects that have a state of their own (such as wrapped optimizers) replaced by that state."""
    if isinstance(kept, Mapping):
        return {key: _content(value) for key, value in kept.items()}
    if hasattr(kept, "state_dict") and callable(kept.state_dict):
        return kept.state_dict()
    return kept


def _taken_over(mine: Any, new: Any, where: str) -> Any:
    """Write the new values into what is there; returns it."""
    if isinstance(mine, Mapping):
        if len(mine) != len(new):
            raise ValueError(f"state_dict has {_listed(new)} of {where!r}, expected {_listed(mine)}.")
        for key, value in mine.items():
            if key not in new:
                raise StateKeyError(f"state_dict has no {key!r} of {where!r}; it has {_listed(new)}.")
            mine[key] = _taken_over(value, new[key], f"{where}/{key}")  # type: ignore[index]
        return mine
    if isinstance(mine, ShardedTensor):
        shards, given = mine.local_shards(), new.local_shards()
        if len(shards) != len(given):
            raise ValueError(f"state_dict has {len(given)} shards of {where!r} here, expected {len(shards)}.")
        for shard, other in zip(shards, given, strict=True):
            shard.tensor.detach().copy_(other.tensor)
        return mine
    if isinstance(mine, DTensor):
        here, given = mine.to_local(), new.to_local()
        if hasattr(here, "local_shards"):
            for part, other in zip(here.local_shards(), given.local_shards(), strict=True):
                part.detach().copy_(other)
        else:
            here.detach().copy_(given.detach())
        return mine
    if isinstance(mine, Tensor):
        mine.detach().copy_(new)
        return mine
    if hasattr(mine, "load_state_dict") and callable(mine.load_state_dict):
        mine.load_state_dict(new)
        return mine
    return new


class CombinedOptimizer(KeyedOptimizer):
    """Several optimizers as one.

    Args:
        optims: optimizers, or pairs of a prefix and an optimizer: its parameters are then called
            `prefix.name`.

    Raises:
        ValueError: two parameters have one name.
    """

    def __init__(self, optims: list[KeyedOptimizer | tuple[str, KeyedOptimizer]]) -> None:
        set_up_hooks(self)
        self.defaults = {"_save_param_groups": False}
        self._optims = [one if isinstance(one, tuple) else ("", one) for one in optims]
        seen: set[str] = set()
        for prefix, optimizer in self._optims:
            for name in optimizer.params:
                full = CombinedOptimizer.prepend_opt_key(name, prefix)
                if full in seen:
                    raise ValueError(f"two optimizers have a parameter {full!r}; give them prefixes of their own.")
                seen.add(full)

    def __repr__(self) -> str:
        return ",".join(f"{prefix}: {optimizer!r}" for prefix, optimizer in self._optims)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients.

        Args:
            set_to_none: None instead of 0.
        """
        for optimizer in self._each():
            optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Let each one make a step."""
        for optimizer in self._each():
            optimizer.step(closure=closure)

    def _each(self) -> Iterator[KeyedOptimizer]:
        return (optimizer for _, optimizer in self._optims)

    @property
    def optimizers(self) -> list[tuple[str, KeyedOptimizer]]:
        """Prefixes and optimizers."""
        return self._optims

    @staticmethod
    def prepend_opt_key(name: str, opt_key: str) -> str:
        """`opt_key.name`; or one of them where the other is empty."""
        return f"{opt_key}.{name}" if name and opt_key else name or opt_key

    @property
    def param_groups(self) -> Collection[Mapping[str, Any]]:  # type: ignore[override]
        """Those of all."""
        return [group for optimizer in self._each() for group in optimizer.param_groups]

    @property
    def params(self) -> Mapping[str, Parameter]:  # type: ignore[override]
        """Those of all, with their prefixes."""
        return {
            CombinedOptimizer.prepend_opt_key(name, prefix): param
            for prefix, optimizer in self._optims
            for name, param in optimizer.params.items()
        }

    @property
    def state(self) -> Mapping[Tensor, Any]:  # type: ignore[override]
        """That of all."""
        return {param: kept for optimizer in self._each() for param, kept in optimizer.state.items()}

    def post_load_state_dict(self) -> None:
        """Tell each one."""
        for optimizer in self._each():
            optimizer.post_load_state_dict()

    def save_param_groups(self, save: bool) -> None:
        """Whether `state_dict` has the settings of groups, and `load_state_dict` wants them."""
        self.defaults["_save_param_groups"] = save
        for optimizer in self._each():
            optimizer.save_param_groups(save)

    def set_optimizer_step(self, step: int) -> None:
        """Have those that can count steps from here."""
        for optimizer in self._each():
            call_if_there(optimizer, "set_optimizer_step", step)

    def update_hyper_parameters(self, params_dict: dict[str, Any]) -> None:
        """Have those that can take other settings."""
        for optimizer in self._each():
            call_if_there(optimizer, "update_hyper_parameters", params_dict)


def call_if_there(optimizer: Optimizer, name: str, value: Any) -> None:
    """Call a method that not every optimizer has."""
    method = getattr(optimizer, name, None)
    if method is not None:
        method(value)


class KeyedOptimizerWrapper(KeyedOptimizer):
    """Any of torch's optimizers with names for its parameters.

    Args:
        params: parameters by name.
        optim_factory: makes the optimizer of a list of parameters.
        pass_params_dict: whether it is given `params` instead.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> optimizer = KeyedOptimizerWrapper(dict(layer.named_parameters()), lambda params: torch.optim.Adam(params))
        >>> optimizer.init_state()
        >>> list(optimizer.state_dict()["state"])
        ['weight', 'bias']
    """

    def __init__(
        self,
        params: Mapping[str, Parameter],
        optim_factory: Callable[[list[Parameter]], Optimizer],
        pass_params_dict: bool = False,
    ) -> None:
        given: Any = params if pass_params_dict else list(params.values())
        self._optimizer: Optimizer = optim_factory(given)
        super().__init__(params, self._optimizer.state, self._optimizer.param_groups)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients.

        Args:
            set_to_none: not used. Upstream: gradients become None in any case.
        """
        self._optimizer.zero_grad()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make a step."""
        self._optimizer.step(closure=closure)

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here, if the optimizer can."""
        call_if_there(self._optimizer, "set_optimizer_step", step)

    def update_hyper_parameters(self, params_dict: dict[str, Any]) -> None:
        """Take other settings, if the optimizer can."""
        call_if_there(self._optimizer, "update_hyper_parameters", params_dict)


class OptimizerWrapper(KeyedOptimizer):
    """An optimizer around another one, which does something beside its steps.

    Args:
        optimizer: the other one.
    """

    def __init__(self, optimizer: KeyedOptimizer) -> None:
        self._optimizer = optimizer
        self.params = optimizer.params
        self.state = optimizer.state
        self.param_groups = optimizer.param_groups
        set_up_hooks(self)
        self.defaults = {"_save_param_groups": False}

    def __repr__(self) -> str:
        return repr(self._optimizer)

    def add_param_group(self, param_group: Any) -> None:
        """See `KeyedOptimizer.add_param_group`."""
        self._optimizer.add_param_group(param_group)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state over; see `KeyedOptimizer.load_state_dict`."""
        self._optimizer.load_state_dict(state_dict)
        self.state = self._optimizer.state
        self.param_groups = self._optimizer.param_groups
        self.post_load_state_dict()

    def post_load_state_dict(self) -> None:
        """Tell the other one."""
        self._optimizer.post_load_state_dict()

    def save_param_groups(self, save: bool) -> None:
        """Whether `state_dict` has the settings of groups, and `load_state_dict` wants them."""
        self._optimizer.save_param_groups(save)

    def state_dict(self) -> dict[str, Any]:
        """That of the other one."""
        return self._optimizer.state_dict()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make a step."""
        self._optimizer.step(closure=closure)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients.

        Args:
            set_to_none: None instead of 0.
        """
        self._optimizer.zero_grad(set_to_none=set_to_none)

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here, if the optimizer can."""
        call_if_there(self._optimizer, "set_optimizer_step", step)

    def update_hyper_parameters(self, params_dict: dict[str, Any]) -> None:
        """Take other settings, if the optimizer can."""
        call_if_there(self._optimizer, "update_hyper_parameters", params_dict)
