"""Services as named actors of Ray."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.rl._comm.ray_runtime import _RayRuntimeLease
from flambeau.rl._remote import imported_ray
from flambeau.rl.services.base import Service, ServiceBase

__all__ = ["RayService"]

_REGISTRY = "flambeau-services"
_ACTOR_OPTIONS = frozenset(
    {
        "accelerator_type", "lifetime", "max_concurrency", "max_pending_calls", "max_restarts", "max_task_retries",
        "memory", "num_cpus", "num_gpus", "object_store_memory", "placement_group", "resources", "runtime_env",
        "scheduling_strategy",
    }
)  # fmt: skip
"""Arguments of `register` that say what an actor takes, and not what it is made with."""


class _Registry:
    """The names of services, and the clients of those that are no actors."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}

    def add(self, name: str, kind: str, client: Any = None) -> bool:
        """Take a name; False where it is taken."""
        if name in self.kinds:
            return False
        self.kinds[name], self.clients[name] = kind, client
        return True

    def remove(self, name: str) -> None:
        """Give a name back."""
        self.kinds.pop(name, None)
        self.clients.pop(name, None)

    def found(self, name: str) -> tuple[str | None, Any]:
        """What a name stands for, "actor" or "client", and the client."""
        return self.kinds.get(name), self.clients.get(name)

    def names(self) -> builtins.list[str]:
        """All names, in order."""
        return sorted(self.kinds)


class RayService(ServiceBase):
    """Services as actors of a Ray cluster: what one process registers, all others find.

    Args:
        ray_init_config: arguments of `ray.init`, where Ray does not run.
        namespace: of names: those of others are not seen.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(self, ray_init_config: dict[str, Any] | None = None, namespace: str = "torchrl_services") -> None:
        self.namespace = namespace
        self._lease: _RayRuntimeLease | None = _RayRuntimeLease.acquire(ray_init_config)
        self._ray = imported_ray()
        self._registry = self._ray.remote(_Registry).options(
            name=_REGISTRY, namespace=namespace, get_if_exists=True, lifetime="detached", num_cpus=0
        ).remote()  # fmt: skip

    def _told(self, method: str, *args: Any) -> Any:
        return self._ray.get(getattr(self._registry, method).remote(*args))

    def register(self, name: str, service_factory: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an actor, or let others find the client of a service that runs.

        Args:
            name: its name.
            service_factory: its class, or a running `Service`, which stays whoever's it is.
            args: of the class.
            kwargs: of the class; and what the actor takes: `num_cpus`, `num_gpus`, `memory`, `max_concurrency`, ...

        Returns:
            The actor; of a service, its client.

        Raises:
            ValueError: there is one of that name.
            TypeError: arguments for a service that runs already.
        """
        if not isinstance(service_factory, type) and isinstance(service_factory, Service):
            if args or kwargs:
                raise TypeError("a service that runs takes no arguments; they are for classes.")
            client = service_factory.client()
            self._take(name, "client", client)
            return client
        options = {key: kwargs.pop(key) for key in list(kwargs) if key in _ACTOR_OPTIONS}
        return self._made(name, service_factory, options, args, kwargs)

    def register_with_options(
        self, name: str, service_factory: Any, actor_options: dict[str, Any], **constructor_kwargs: Any
    ) -> Any:
        """As `register`, with what the actor takes by itself.

        Args:
            name: its name.
            service_factory: its class.
            actor_options: what the actor takes.
            constructor_kwargs: of the class.
        """
        return self._made(name, service_factory, dict(actor_options), (), constructor_kwargs)

    def _made(self, name: str, kind: Any, options: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        self._take(name, "actor", None)
        try:
            actor = self._ray.remote(kind).options(
                **({"lifetime": "detached"} | options | {"name": name, "namespace": self.namespace})
            ).remote(*args, **kwargs)  # fmt: skip
            self._ray.get(actor.__ray_ready__.remote())  # one that cannot be made tells it here
        except BaseException:
            self._told("remove", name)
            raise
        return actor

    def _take(self, name: str, kind: str, client: Any) -> None:
        if not self._told("add", name, kind, client):
            raise ValueError(f"there is a service {name!r} already; get it, or use another name.")

    def get(self, name: str) -> Any:
        """An actor; of a service that runs, its client.

        Raises:
            KeyError: there is none of that name.
        """
        kind, client = self._told("found", name)
        if kind is None:
            raise KeyError(f"there is no service {name!r}; there are {self.list()}.")
        return client if kind == "client" else self._ray.get_actor(name, namespace=self.namespace)

    def get_client(self, name: str) -> Any:
        """The client of a service that runs.

        Raises:
            KeyError: there is none of that name.
            TypeError: it is an actor without a client.
        """
        kind, client = self._told("found", name)
        if kind is None:
            raise KeyError(f"there is no service {name!r}; there are {self.list()}.")
        if kind != "client":
            raise TypeError(f"{name!r} is an actor, which has no client; use get.")
        return client

    def __contains__(self, name: str) -> bool:
        return self._told("found", name)[0] is not None

    def list(self) -> builtins.list[str]:
        """The names of all services of the namespace, in order."""
        found: builtins.list[str] = self._told("names")
        return found

    def reset(self) -> None:
        """End all actors that were registered, and forget the services that run."""
        for name in self.list():
            if self._told("found", name)[0] == "actor":
                self._ray.kill(self._ray.get_actor(name, namespace=self.namespace))
            self._told("remove", name)

    def shutdown(self, raise_on_error: bool = True) -> None:
        """End Ray.

        Args:
            raise_on_error: complain where it does not run.

        Raises:
            RuntimeError: it does not run.
        """
        if not self._ray.is_initialized():
            if raise_on_error:
                raise RuntimeError("Ray does not run.")
            return
        self._ray.shutdown()
