"""What all losses are: modules that hold networks' parameters, and say what they read and write."""

from __future__ import annotations

import copy as copying
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import InteractionType, TensorDictModuleBase, set_interaction_type
from flambeau.rl._utils import rl_warnings
from flambeau.rl.modules.models.utils import _reset_parameters_recursive
from flambeau.rl.objectives import utils
from flambeau.rl.objectives._functional import RANDOM_MODULES, constant_view, parameters_of, targets_of
from flambeau.rl.objectives._functional import add_random_module as add_random_module
from flambeau.rl.objectives._reductions import AUTO_LOSS_MASK_KEYS, _expand_loss_mask, _reduce
from flambeau.rl.objectives._sharding import forward_sharded, is_sharded

__all__ = ["LossModule", "add_random_module"]

_RANDOMNESS = ("error", "same", "different")
_PREFIX, _SUFFIX = "target_", "_params"


def _sampling_as_the_loss_says(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._told and not torch.compiler.is_compiling():
            self._tell_of_targets()
        with set_interaction_type(self.deterministic_sampling_mode):
            if is_sharded(self):
                return forward_sharded(self, forward, *args, **kwargs)
            return forward(self, *args, **kwargs)

    return wrapped


class LossModule(TensorDictModuleBase):  # type: ignore[misc]
    """The base of losses: a module whose `forward` reads a tensordict and gives one of losses and metrics.

    A subclass hands its networks to `convert_to_functional` and calls them with the parameters that this keeps. What is
    to be minimized is written under names that begin with "loss_" ("loss" if there is one).

    Its `_AcceptedKeys`, a dataclass, says which entries users may rename by `set_keys`, and their defaults. Inside
    of `forward` networks write what `deterministic_sampling_mode` says, unless the loss says otherwise.

    Attributes:
        default_value_estimator: which of `ValueEstimators` is used where users choose none.
        SUPPORTED_VALUE_ESTIMATORS: those that `make_value_estimator` takes.
        use_prioritized_weights: multiply errors by the entry "priority_weight": True and "auto" where there is such an
            entry, False never.
        reduction: "mean", "sum" or "none".
    """

    @dataclass
    class _AcceptedKeys:
        """Names of `set_keys` and what they stand for unless it is called."""

    SEP = "."
    default_keys: Any = _AcceptedKeys
    default_value_estimator: Any = None
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[Any, ...]] = ()
    deterministic_sampling_mode = InteractionType.DETERMINISTIC
    use_prioritized_weights: bool | str = "auto"
    reduction: str = "mean"

    _vmap_randomness: str | None = None
    _loss_mask_key: Any = "auto"
    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset()
    _all_schedulable_buffers: ClassVar[frozenset[str]] = frozenset()
    _value_estimator_default_keys: tuple[str, ...] = (
        "advantage", "value_target", "value", "reward", "done", "terminated",
    )  # fmt: skip

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _sampling_as_the_loss_says(cls.__dict__["forward"])  # type: ignore[method-assign]
        every: set[str] = set()
        for base in cls.__mro__:
            every |= base.__dict__.get("_schedulable_buffers", frozenset())
        cls._all_schedulable_buffers = frozenset(every)

    def __new__(cls, *args: Any, **kwargs: Any) -> LossModule:
        """Keys may be renamed before `Module.__init__` runs."""
        self = super().__new__(cls)
        self.__dict__.update(_tensor_keys=cls._AcceptedKeys(), _told=False, _cache={}, _links=[])
        return self  # type: ignore[no-any-return]

    def __init__(self) -> None:
        super().__init__()
        self._param_maps: dict[str, str] = {}
        self._value_estimator: Any = None
        self._has_update_associated: dict[str, bool] = {}
        self.value_type: Any = self.default_value_estimator

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The losses of a batch.

        Args:
            tensordict: with the entries `in_keys`. Only priorities are written to it.

        Returns:
            A new tensordict with the entries `out_keys`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward(tensordict).")

    def reset(self) -> None:
        """Forget what changed from call to call; here nothing."""

    @property
    def functional(self) -> bool:
        """Whether parameters were taken out of the networks."""
        return True

    # --- parameters

    def convert_to_functional(
        self, module: Any, module_name: str, expand_dim: int | None = None, create_target_params: bool = False,
        compare_against: list[nn.Parameter] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Keep a network as an attribute, its parameters as `<module_name>_params`, and those of a target.

        `target_<module_name>_params` are the same values without gradients, or copies of them that follow when told
        (`SoftUpdate`, `HardUpdate`). The network itself is no submodule.

        Args:
            module: a network, or a list of `expand_dim` of them.
            module_name: how it is called.
            expand_dim: how many networks of the kind are trained; their parameters have a further first dimension and
                start with values drawn uniformly in the range of the network's.
            create_target_params: make copies for a target.
            compare_against: parameters that another network of the loss trains. If this one has them, too, it uses
                them without training them.
            **kwargs: none.

        Raises:
            TypeError: other arguments.
            RuntimeError: a list of another length, or parameters without a shape where values are needed.
        """
        if kwargs:
            raise TypeError(f"convert_to_functional takes no argument {sorted(kwargs)[0]!r}.")
        network = module[0] if isinstance(module, (list, tuple, nn.ModuleList)) else module
        params, links = parameters_of(module, expand_dim, compare_against)
        self.__dict__[module_name] = network
        name = module_name + _SUFFIX
        setattr(self, name, params)
        self._links += [(name, key, parameter) for key, parameter in links]
        if create_target_params:
            setattr(self, _PREFIX + name, targets_of(params))
        self._has_update_associated[module_name] = not create_target_params

    def _fixed(self, name: str) -> Any:
        """Parameters of a network, without gradients to them."""
        params = getattr(self, name + _SUFFIX)
        if torch.compiler.is_compiling():
            return params.data
        if name not in self._cache:
            self._cache[name] = params.data
        return self._cache[name]

    def _networks(self) -> Iterator[nn.Module]:
        """The networks of this loss, with or without parameters of their own."""
        for name in self._has_update_associated:
            yield self.__dict__[name]
        for name, child in self._modules.items():
            if child is not None and not isinstance(child, TensorDictBase) and name != "_value_estimator":
                yield child

    def __getattr__(self, item: str) -> Any:
        if item.startswith(_PREFIX) and item.endswith(_SUFFIX):
            modules = self.__dict__.get("_modules", {})
            source = modules.get(item.removeprefix(_PREFIX))
            if item not in modules and source is not None:
                if torch.compiler.is_compiling():
                    return source.data
                cache = self._cache
                if item not in cache:
                    cache[item] = source.data
                return cache[item]
        return super().__getattr__(item)

    def _erase_cache(self) -> None:
        """Parameters may have moved: forget what was made of them, and share again what is shared."""
        self.__dict__["_cache"] = {}
        for name, key, parameter in self._links:
            params = getattr(self, name)
            now = params.get(key)
            if (now.dtype, now.device) == (parameter.dtype, parameter.device):  # else only one of them moved
                with params.unlock_():
                    params.set(key, constant_view(parameter, params.batch_size))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._erase_cache()
        return self

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As of any module; what networks share is taken from the one that trains it."""
        for name, key, _ in self._links:  # expanded memory cannot be written to
            params = getattr(self, name)
            with params.unlock_():
                params.set(key, nn.Buffer(params.get(key).clone()))
        try:
            return super().load_state_dict(state_dict, *args, **kwargs)
        finally:
            self._erase_cache()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """What is trained, by name: no parameters of targets."""
        start = len(prefix) + 1 if prefix else 0
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            place = name[start:].partition(".")[0]
            if not (place.startswith(_PREFIX) and place.endswith(_SUFFIX)):
                yield name, parameter

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """What is trained: no parameters of targets."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def get_stateful_net(self, network_name: str, copy: bool | None = None) -> Any:
        """A network that holds the parameters of this loss.

        Args:
            network_name: as it was given to `convert_to_functional`.
            copy: give another network, with the same parameters; by default where there are several sets of them.
        """
        network, params = getattr(self, network_name), getattr(self, network_name + _SUFFIX)
        if copy or (copy is None and params.batch_size):
            network = copying.deepcopy(network)
        params.to_module(network, return_swap=False)
        return network

    def from_stateful_net(self, network_name: str, stateful_net: nn.Module) -> None:
        """Take the values of a network's parameters.

        Args:
            network_name: as it was given to `convert_to_functional`.
            stateful_net: of the same structure.

        Raises:
            RuntimeError: shapes differ.
        """
        getattr(self, network_name + _SUFFIX).data.update_(TensorDict.from_module(stateful_net).data)

    def reset_parameters_recursive(self) -> None:
        """Draw new values for all parameters, of each of several networks its own, and of targets."""
        for name in self._has_update_associated:
            network = copying.deepcopy(getattr(self, name))
            for place in (name + _SUFFIX, _PREFIX + name + _SUFFIX):
                if place in self._modules:
                    self._reset_module_parameters(place, network)

    def _reset_module_parameters(self, module_name: str, module: nn.Module) -> None:
        """Draw values for the parameters that are called so, by a network that is not used otherwise."""
        kept = {key for name, key, _ in self._links if name == module_name}
        values = getattr(self, module_name).data
        for part in values.unbind(0) if values.batch_size else (values,):
            self._reset_parameters(module)
            drawn = TensorDict.from_module(module).data
            for key, leaf in part.items(True, True):
                if key not in kept:
                    leaf.copy_(drawn.get(key))

    def _reset_parameters(self, module: nn.Module) -> bool:
        return _reset_parameters_recursive(module)

    @property
    def _default_device(self) -> torch.device:
        return next((parameter.device for parameter in self.parameters()), torch.get_default_device())

    def register_coeff_buffer(
        self, name: str, value: float | Tensor | None, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        """Keep a coefficient as a buffer, so that it moves, is stored and can be scheduled with the loss.

        Args:
            name: of the attribute.
            value: a number or a tensor of one element, or None.
            device: where; that of the parameters by default.
            dtype: of a number; torch's default for it otherwise.

        Raises:
            ValueError: several numbers.
        """
        if value is None:
            self.register_buffer(name, None)
            return
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, expected one number.")
        self.register_buffer(name, torch.as_tensor(value, dtype=dtype, device=device or self._default_device))

    def _tell_of_targets(self) -> None:
        self.__dict__["_told"] = True
        if rl_warnings() and not all(self._has_update_associated.values()):
            warnings.warn(
                f"{type(self).__name__} has target parameters that nothing updates; make a SoftUpdate or a "
                "HardUpdate of the loss, unless you move them yourself. RL_WARNINGS=0 silences this.",
                stacklevel=4,
            )

    # --- keys

    @property
    def tensor_keys(self) -> Any:
        """Where everything is read and written."""
        return self._tensor_keys

    def set_keys(self, **kwargs: Any) -> None:
        """Rename what is read and written.

        Args:
            **kwargs: a name of `tensor_keys` and its key (a string, or a tuple of them); None for the default.

        Raises:
            ValueError: an unknown name.
        """
        known = [field.name for field in fields(self._AcceptedKeys)]
        for name, key in kwargs.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no key {name!r}; set_keys takes {sorted(known)}.")
            setattr(self._tensor_keys, name, getattr(self._AcceptedKeys(), name) if key is None else key)
        self._forward_value_estimator_keys(**kwargs)
        if hasattr(self, "_set_in_keys"):
            self._set_in_keys()

    def _set_deprecated_ctor_keys(self, **kwargs: Any) -> None:
        for name, key in kwargs.items():
            if key is not None:
                raise RuntimeError(f"The key {name!r} is set by set_keys({name}={key!r}), not by the constructor.")

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        """Tell the estimator of values of keys that were renamed."""
        if self._value_estimator is not None:
            self._value_estimator.set_keys(**self._estimator_keys())

    def _estimator_keys(self) -> dict[str, Any]:
        """The estimator's names and where this loss has them."""
        keys = asdict(self._tensor_keys)
        return {name: keys[name] for name in self._value_estimator_default_keys if name in keys}

    # --- values

    def _estimated_network(self) -> Any:
        """The network whose values an estimator asks for."""
        raise NotImplementedError(f"{type(self).__name__} estimates no values.")

    def make_value_estimator(self, value_type: Any = None, **hyperparams: Any) -> Self:
        """Choose how values are estimated.

        Args:
            value_type: one of `ValueEstimators`, its alias ("gae"), a class of estimators, or one that is made already.
            **hyperparams: of the estimator, such as `gamma` and `lmbda`.

        Returns:
            This loss.

        Raises:
            NotImplementedError: the loss cannot use it.
        """
        from flambeau.rl.objectives.value.advantages import ValueEstimatorBase

        if isinstance(value_type, ValueEstimatorBase):
            self._value_estimator = value_type
        elif isinstance(value_type, type):
            self._value_estimator = value_type(**{"value_network": self._estimated_network(), **hyperparams})
            self._value_estimator.set_keys(**self._estimator_keys())
        else:
            self._make_known_estimator(value_type, hyperparams)
        return self

    def _make_known_estimator(self, value_type: Any, hyperparams: dict[str, Any]) -> None:
        member = utils._coerce_value_type(self.default_value_estimator if value_type is None else value_type) if (
            value_type is not None or self.default_value_estimator is not None
        ) else None  # fmt: skip
        if member is None or not (self.SUPPORTED_VALUE_ESTIMATORS or utils._registered_value_type(member)):
            raise NotImplementedError(f"{type(self).__name__} uses no value estimator {value_type}.")
        self.value_type = member
        utils.dispatch_value_estimator(
            self,
            member,
            supported=self.SUPPORTED_VALUE_ESTIMATORS,
            tensor_keys=self._estimator_keys(),
            **{"value_network": self._estimated_network(), **hyperparams},
        )

    def _default_value_estimator(self) -> None:
        self.make_value_estimator(self.default_value_estimator)

    @property
    def value_estimator(self) -> Any:
        """How values are estimated; made by defaults where `make_value_estimator` was not called."""
        if self._value_estimator is None:
            self._default_value_estimator()
        return self._value_estimator

    # --- several networks at once

    @property
    def vmap_randomness(self) -> str:
        """What random modules do in several networks: "different" where there are some, otherwise "error"."""
        if self._vmap_randomness is None:
            kinds = tuple(RANDOM_MODULES)
            drawn = any(isinstance(module, kinds) for network in self._networks() for module in network.modules())
            self.__dict__["_vmap_randomness"] = "different" if drawn else "error"
        assert self._vmap_randomness is not None
        return self._vmap_randomness

    def set_vmap_randomness(self, value: str) -> None:
        """Choose what random modules do in several networks.

        Args:
            value: "error", "same" or "different".

        Raises:
            ValueError: another value.
        """
        if value not in _RANDOMNESS:
            raise ValueError(f"The randomness of vmap is {value!r}, expected one of {_RANDOMNESS}.")
        self.__dict__["_vmap_randomness"] = value
        self._make_vmap()

    def _make_vmap(self) -> None:
        """Make the functions that call several networks."""
        raise NotImplementedError(f"{type(self).__name__} calls no networks together.")

    # --- from errors to losses

    @property
    def loss_mask_key(self) -> Any:
        """Which steps count: "auto" (the masks that collectors and estimators leave), a key, or None for all steps."""
        return self._loss_mask_key

    @loss_mask_key.setter
    def loss_mask_key(self, key: Any) -> None:
        if not (key is None or isinstance(key, str) or (isinstance(key, tuple) and all(map(_is_name, key)))):
            raise ValueError(f"loss_mask_key is {key!r}, expected 'auto', None, or a key: a string or a tuple of them.")
        self.__dict__["_loss_mask_key"] = key

    def _loss_mask_keys(self) -> tuple[Any, ...]:
        key = self._loss_mask_key
        return () if key is None else AUTO_LOSS_MASK_KEYS if key == "auto" else (key,)

    _expand_loss_mask = staticmethod(_expand_loss_mask)

    def _loss_masks(self, tensordict: TensorDictBase) -> list[Tensor]:
        """The masks in a batch that say which steps count."""
        found = (tensordict.get(key, None) for key in self._loss_mask_keys())
        return [mask for mask in found if mask is not None]

    def _reduce_loss(
        self, loss: Tensor, tensordict: TensorDictBase | None = None, *, mask: Tensor | None = None,
        reduction: str | None = None, weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Reduce a loss over the steps that count; what does not is 0 where nothing is reduced."""
        masks = [] if mask is None else [mask]
        if tensordict is not None:
            masks += self._loss_masks(tensordict)
        return self._reduce_masked(loss, masks, reduction, weights)

    def _reduce_masked(
        self, loss: Tensor, masks: list[Tensor], reduction: str | None = None, weights: Tensor | None = None
    ) -> Tensor:
        how = self.reduction if reduction is None else reduction
        if not masks:
            return _reduce(loss, how, weights=weights)
        counted = functools.reduce(torch.logical_and, (_expand_loss_mask(each, loss) for each in masks))
        if how == "none":
            return torch.where(counted, _reduce(loss, how, weights=weights), 0)
        if how != "mean":
            return _reduce(loss, how, counted, weights)
        # A mean over no steps is 0.
        count = torch.where(counted, 1.0 if weights is None else weights, 0.0).sum()
        return _reduce(loss, "sum", counted, weights) / torch.where(count == 0, 1.0, count)

    def _maybe_get_priority_weight(self, tensordict: TensorDictBase) -> Tensor | None:
        """Weights of steps that a prioritized replay buffer left, unless the loss is not to use them."""
        if self.use_prioritized_weights is False:
            return None
        found: Tensor | None = tensordict.get(self._tensor_keys.priority_weight, None)
        return found

    def _selected(self, found: dict[str, Any]) -> dict[str, Any]:
        """What `select_out_keys` left of the results."""
        chosen = self.__dict__.get("_selection")
        return found if chosen is None else {name: value for name, value in found.items() if name in chosen}


def _is_name(part: Any) -> bool:
    return isinstance(part, str)
