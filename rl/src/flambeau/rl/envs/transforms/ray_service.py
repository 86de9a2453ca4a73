"""Transforms that work in actors of Ray, for many environments at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from flambeau.rl._comm.backends import chosen_service
from flambeau.rl._comm.ray_runtime import _RayRuntimeLease
from flambeau.rl._remote import imported_ray
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["RayTransform"]


class _RayServiceMetaClass(type(Transform)):  # type: ignore[misc]
    """Lets `Kind(..., service_backend="ray")` make the class that the attribute `_RayServiceClass` names.

    `use_ray_service=True` says the same.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        remote = getattr(cls, "_RayServiceClass", None)
        if remote is None:
            return super().__call__(*args, **kwargs)
        backend = kwargs.pop("service_backend", None)
        if kwargs.pop("use_ray_service", False):
            backend = "ray"
        if chosen_service(backend, "direct") == "ray":
            kind = remote() if not isinstance(remote, type) else remote
            return kind(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class _Hosted:
    """What runs in the actor: a transform, whose methods are called by name.

    Args:
        kind: its class.
        kwargs: its arguments.
    """

    def __init__(self, kind: type[Transform], kwargs: dict[str, Any]) -> None:
        self._transform = kind(**kwargs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What a method returns; of the transform itself, nothing."""
        found = getattr(self._transform, name)(*args, **kwargs)
        return None if found is self._transform else found

    def read(self, name: str) -> Any:
        """What an attribute is."""
        return getattr(self._transform, name)

    def write(self, name: str, value: Any) -> None:
        """Set an attribute."""
        setattr(self._transform, name, value)

    def deliver(self, model_id: str, weights: Any) -> None:
        """Write new weights into the transform's module, as weight schemes bring them."""
        module: Any = self._transform
        for part in model_id.split("."):
            module = getattr(module, part, module)
        _load(module, weights)


def _load(module: Any, weights: Any) -> None:
    from flambeau.data.tensordict import TensorDict, TensorDictBase

    if isinstance(weights, TensorDictBase):
        TensorDict.from_module(module).data.update_(weights)
    else:
        module.load_state_dict(weights)


class RayTransform(Transform):
    """A transform that works in an actor of Ray; what environment it belongs to is known here alone.

    Subclasses define `_create_actor`, which starts an actor with the methods of `_Hosted`, as `_hosted` does.

    Args:
        num_cpus: what the actor takes.
        num_gpus: what the actor takes.
        device: where data are here; default: as they come back.
        actor_name: of an actor that several share: one of this name is used where there is one.
        kwargs: given to `_create_actor`.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(
        self,
        *,
        num_cpus: int | None = None,
        num_gpus: int | None = None,
        device: Any = None,
        actor_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._num_cpus, self._num_gpus = num_cpus, num_gpus
        self._device = None if device is None else torch.device(device)
        self._actor_name = actor_name
        self._ray = imported_ray()
        self._lease: _RayRuntimeLease | None = _RayRuntimeLease.acquire()
        self._actor: Any = None
        self._actor = self._found() or self._create_actor(**kwargs)

    def _found(self) -> Any:
        """The actor of the name that was given, where there is one."""
        if self._actor_name is None:
            return None
        try:
            return self._ray.get_actor(self._actor_name)
        except ValueError:  # there is none yet
            return None

    @abstractmethod
    def _create_actor(self, **kwargs: Any) -> Any:
        """Start the actor."""

    def _hosted(self, kind: type[Transform], **kwargs: Any) -> Any:
        """An actor with a transform of a class."""
        options: dict[str, Any] = {"num_cpus": 1 if self._num_cpus is None else self._num_cpus}
        if self._num_gpus is not None:
            options["num_gpus"] = self._num_gpus
        if self._actor_name is not None:
            options |= {"name": self._actor_name, "get_if_exists": True}
        return self._ray.remote(_Hosted).options(**options).remote(kind, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_lease": None, "_ray": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._ray = imported_ray()

    # Calls

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._actor is None:
            raise RuntimeError(f"{type(self).__name__} was closed, and its actor ended.")
        found = self._ray.get(self._actor.call.remote(name, *(_sent(each) for each in args), **kwargs))
        return self if found is None and name in _GIVES_ITSELF else self._back(found, args)

    def _back(self, found: Any, args: tuple[Any, ...]) -> Any:
        """An answer, on the device that data are on here."""
        device = self._device
        if device is None:
            given = next((each.device for each in args if getattr(each, "device", None) is not None), None)
            device = given
        return found.to(device) if device is not None and hasattr(found, "to") else found

    def _read(self, name: str) -> Any:
        return self._ray.get(self._actor.read.remote(name))

    def _write(self, name: str, value: Any) -> None:
        if self._ready:
            self._ray.get(self._actor.write.remote(name, value))

    @property
    def _ready(self) -> bool:
        return self.__dict__.get("_actor") is not None

    # Data

    def forward(self, tensordict: Any = None) -> Any:
        """Data as they come out, see `Transform.forward`."""
        return self._ask("forward", tensordict)

    def _call(self, next_tensordict: Any) -> Any:
        return self._ask("_call", next_tensordict)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._ask("_step", tensordict, next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._ask("_reset", tensordict, tensordict_reset)

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        return self._ask("_reset_env_preprocess", tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return self._ask("_inv_call", tensordict)

    def inv(self, tensordict: Any = None) -> Any:
        """Data as they go in, see `Transform.inv`."""
        return self._ask("inv", tensordict)

    def init(self, tensordict: Any) -> None:
        """Begin, see `Transform.init`."""
        self._ask("init", tensordict)

    # Specs

    def transform_output_spec(self, output_spec: Any) -> Any:
        """The specs of what comes out."""
        return self._ask("transform_output_spec", output_spec)

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The specs of what goes in."""
        return self._ask("transform_input_spec", input_spec)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of observations."""
        return self._ask("transform_observation_spec", observation_spec)

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specs of rewards."""
        return self._ask("transform_reward_spec", reward_spec)

    def transform_done_spec(self, done_spec: Any) -> Any:
        """The specs of ends."""
        return self._ask("transform_done_spec", done_spec)

    def transform_action_spec(self, action_spec: Any) -> Any:
        """The specs of actions."""
        return self._ask("transform_action_spec", action_spec)

    def transform_state_spec(self, state_spec: Any) -> Any:
        """The specs of the state."""
        return self._ask("transform_state_spec", state_spec)

    def transform_env_device(self, device: Any) -> Any:
        """Where the environment's data are: where they are without the transform."""
        return device

    def transform_env_batch_size(self, batch_size: Any) -> Any:
        """The environment's batch size."""
        return self._ask("transform_env_batch_size", batch_size)

    # Here

    @property
    def device(self) -> Any:
        """Where data are here; None for as they come."""
        return self._device

    @device.setter
    def device(self, value: Any) -> None:
        self._device = None if value is None else torch.device(value)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Say where data are here from now on; the actor stays where it is."""
        found = torch._C._nn._parse_to(*args, **kwargs)[0]
        if found is not None:
            self._device = torch.device(found)
        return self

    def clone(self) -> Any:
        """A transform with the same actor, which belongs to no environment."""
        made = super().clone()
        made._actor = self._actor
        return made

    def set_container(self, container: Any) -> None:
        """Belong to an environment."""
        super().set_container(container)

    def reset_parent(self) -> None:
        """Belong to none."""
        super().reset_parent()

    @property
    def container(self) -> Any:
        """The environment that it belongs to; None for none."""
        return super().container

    @property
    def parent(self) -> Any:
        """The environment as it is before this transform; None for none."""
        return super().parent

    @property
    def base_env(self) -> Any:
        """The environment without any transforms; None for none."""
        parent = self.parent
        return None if parent is None else getattr(parent, "base_env", parent)

    def empty_cache(self) -> None:
        """Forget what was worked out of the environment."""
        super().empty_cache()
        if self._ready:
            self._ask("empty_cache")

    def dump(self, **kwargs: Any) -> None:
        """Write what was recorded, see `Transform.dump`."""
        self._ask("dump", **kwargs)

    def close(self) -> None:
        """End the actor, unless it has a name, by which others may use it."""
        actor, self._actor = self._actor, None
        if actor is not None and self._actor_name is None and self._ray.is_initialized():
            self._ray.kill(actor)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    # Attributes of the actor's transform

    @property
    def missing_tolerance(self) -> bool:
        """Whether it passes over keys that are missing."""
        return bool(self._read("missing_tolerance"))

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say whether it passes over keys that are missing."""
        if self._ready:
            self._ask("set_missing_tolerance", mode)

    @property
    def primers(self) -> Any:
        """The specs of what it adds to an environment's resets."""
        return self._read("primers")

    @primers.setter
    def primers(self, value: Any) -> None:
        self._write("primers", value)

    @property
    def in_keys(self) -> Any:
        """Keys that it reads."""
        return self._read("in_keys") if self._ready else []

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self._write("in_keys", value)

    @property
    def out_keys(self) -> Any:
        """Keys that it writes."""
        return self._read("out_keys") if self._ready else []

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self._write("out_keys", value)

    @property
    def in_keys_inv(self) -> Any:
        """Keys that it reads, on the way in."""
        return self._read("in_keys_inv") if self._ready else []

    @in_keys_inv.setter
    def in_keys_inv(self, value: Any) -> None:
        self._write("in_keys_inv", value)

    @property
    def out_keys_inv(self) -> Any:
        """Keys that it writes, on the way in."""
        return self._read("out_keys_inv") if self._ready else []

    @out_keys_inv.setter
    def out_keys_inv(self, value: Any) -> None:
        self._write("out_keys_inv", value)


_GIVES_ITSELF = frozenset({"to", "eval", "train"})


def _sent(value: Any) -> Any:
    """What is sent of data: on the CPU, where every actor has memory."""
    return value.cpu() if hasattr(value, "cpu") and hasattr(value, "device") else value
