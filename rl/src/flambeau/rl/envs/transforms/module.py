"""Modules as transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch

from flambeau.rl.data.tensor_specs import TensorSpec
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing
from flambeau.rl.envs.transforms.ray_service import RayTransform, _RayServiceMetaClass

__all__ = ["ModuleTransform", "RayModuleTransform"]

SpecChange = TensorSpec | Callable[[TensorSpec], TensorSpec] | None


class ModuleTransform(Transform, metaclass=_RayServiceMetaClass):
    """What a module of tensordicts makes of what an environment or a buffer gives, or takes.

    Args:
        module: the module.
        module_factory: makes it, instead of `module`.
        no_grad: without gradients.
        inverse: of what goes in, rather than of what comes out.
        device: where the module is; data are moved there, and back.
        use_ray_service: make a `RayModuleTransform`, whose module is in an actor of Ray.
        actor_name: of the actor.
        num_gpus: what the actor takes.
        num_cpus: what the actor takes.
        observation_spec_transform: the specs of observations with what the module writes; or a function that makes them
            from those without.
        action_spec_transform: likewise, of actions.
        reward_spec_transform: likewise, of rewards.
        done_spec_transform: likewise, of ends.
        state_spec_transform: likewise, of the state.

    Raises:
        ValueError: neither or both of `module` and `module_factory`.
    """

    def __init__(
        self,
        *,
        module: Any = None,
        module_factory: Callable[[], Any] | None = None,
        no_grad: bool = False,
        inverse: bool = False,
        device: Any = None,
        use_ray_service: bool = False,
        actor_name: str | None = None,
        num_gpus: int | None = None,
        num_cpus: int | None = None,
        observation_spec_transform: SpecChange = None,
        action_spec_transform: SpecChange = None,
        reward_spec_transform: SpecChange = None,
        done_spec_transform: SpecChange = None,
        state_spec_transform: SpecChange = None,
    ) -> None:
        if (module is None) == (module_factory is None):
            raise ValueError("ModuleTransform needs either a module, or a module_factory that makes one.")
        super().__init__()
        self.module = module_factory() if module is None else module  # type: ignore[misc]
        self.no_grad = no_grad
        self.inverse = inverse
        self._device = None if device is None else torch.device(device)
        if self._device is not None:
            self.module = self.module.to(self._device)
        self.observation_spec_transform = observation_spec_transform
        self.action_spec_transform = action_spec_transform
        self.reward_spec_transform = reward_spec_transform
        self.done_spec_transform = done_spec_transform
        self.state_spec_transform = state_spec_transform

    # Keys are the module's.

    def _module_keys(self, name: str, inverse: bool) -> list[NestedKey]:
        module = self._modules.get("module")
        return list(getattr(module, name, [])) if module is not None and self.inverse == inverse else []

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys that the module reads."""
        return self._module_keys("in_keys", False)

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self._check_unset(value)

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys that the module writes."""
        return self._module_keys("out_keys", False)

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self._check_unset(value)

    @property
    def in_keys_inv(self) -> list[NestedKey]:
        """Keys that the module reads, on the way in."""
        return self._module_keys("in_keys", True)

    @in_keys_inv.setter
    def in_keys_inv(self, value: Any) -> None:
        self._check_unset(value)

    @property
    def out_keys_inv(self) -> list[NestedKey]:
        """Keys that the module writes, on the way in."""
        return self._module_keys("out_keys", True)

    @out_keys_inv.setter
    def out_keys_inv(self, value: Any) -> None:
        self._check_unset(value)

    @staticmethod
    def _check_unset(value: Any) -> None:
        if value is not None:
            raise RuntimeError("The keys of a ModuleTransform are its module's, and cannot be set.")

    # Data

    def _run(self, tensordict: Any) -> Any:
        device = tensordict.device
        moved = tensordict if self._device is None else tensordict.to(self._device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.no_grad):
            out = self.module(moved)
        if self._device is None or device == self._device:
            return out
        return out.clear_device_() if device is None else out.to(device)

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict if self.inverse else self._run(next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Data as they come out.

        Args:
            tensordict: what the module takes.
        """
        return self._call(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return self._run(tensordict) if self.inverse else tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    # Specs

    def transform_output_spec(self, output_spec: Any) -> Any:
        """The specs with what the module writes.

        Args:
            output_spec: a composite.

        Raises:
            KeyError: the module writes an entry that no spec tells of.
        """
        output_spec = super().transform_output_spec(output_spec)
        known = {key for group in output_spec.values() for key in group.keys(True)}
        unknown = [key for key in self.out_keys if key not in known]
        if unknown:
            raise KeyError(
                f"The module writes {unknown}, of which no spec tells: give observation_spec_transform, or that of the "
                "group they belong to."
            )
        return output_spec

    @staticmethod
    def _changed(spec: Any, change: Any) -> Any:
        if change is None:
            return spec
        return change if isinstance(change, TensorSpec) else change(spec)

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """As `observation_spec_transform` says.

        Args:
            observation_spec: a composite.
        """
        return self._changed(observation_spec, self.observation_spec_transform)  # type: ignore[no-any-return]

    def transform_action_spec(self, action_spec: TensorSpec) -> TensorSpec:
        """As `action_spec_transform` says.

        Args:
            action_spec: a composite.
        """
        return self._changed(action_spec, self.action_spec_transform)  # type: ignore[no-any-return]

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """As `reward_spec_transform` says.

        Args:
            reward_spec: a composite.
        """
        return self._changed(reward_spec, self.reward_spec_transform)  # type: ignore[no-any-return]

    def transform_done_spec(self, done_spec: TensorSpec) -> TensorSpec:
        """As `done_spec_transform` says.

        Args:
            done_spec: a composite.
        """
        return self._changed(done_spec, self.done_spec_transform)  # type: ignore[no-any-return]

    def transform_state_spec(self, state_spec: TensorSpec) -> TensorSpec:
        """As `state_spec_transform` says.

        Args:
            state_spec: a composite.
        """
        return self._changed(state_spec, self.state_spec_transform)  # type: ignore[no-any-return]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the module, and say where it is from now on."""
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None and self._device is not None:  # type: ignore[redundant-expr]
            self._device = torch.device(device)
        return super().to(*args, **kwargs)


class RayModuleTransform(RayTransform):
    """A `ModuleTransform` in an actor of Ray.

    Args:
        weight_sync_scheme: brings new weights to the module, such as `RayModuleTransformScheme`.
        kwargs: of `RayTransform` and `ModuleTransform`.
    """

    def __init__(self, *, weight_sync_scheme: Any = None, **kwargs: Any) -> None:
        self._scheme = None
        super().__init__(**kwargs)
        self._scheme = weight_sync_scheme
        if weight_sync_scheme is not None and not weight_sync_scheme.initialized_on_sender:
            weight_sync_scheme.init_on_sender(
                model_id="module", model=kwargs.get("module"), num_workers=1, remote_actors=[self._actor]
            )

    def _create_actor(self, **kwargs: Any) -> Any:
        return self._hosted(ModuleTransform, **kwargs)

    @property
    def weight_sync_scheme(self) -> Any:
        """What brings new weights; None for nothing."""
        return self._scheme

    @property
    def in_keys(self) -> Any:
        """Keys that the module reads."""
        return self._read("in_keys") if self._ready else []

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        ModuleTransform._check_unset(value)

    @property
    def out_keys(self) -> Any:
        """Keys that the module writes."""
        return self._read("out_keys") if self._ready else []

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        ModuleTransform._check_unset(value)

    def update_weights(self, *args: Any, **kwargs: Any) -> None:
        """Write new weights into the module.

        Args:
            args: a state_dict, or a tensordict of weights.
            kwargs: the same, as `state_dict` or `params`.

        Raises:
            TypeError: there is none, or more than one.
        """
        given = [*args, *kwargs.values()]
        if len(given) != 1 or set(kwargs) - {"state_dict", "params"}:
            raise TypeError("update_weights takes one state_dict, or one tensordict params.")
        self._ray.get(self._actor.deliver.remote("module", given[0]))


ModuleTransform._RayServiceClass = RayModuleTransform
