"""An inference server in an actor of Ray."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.ray_runtime import _RayActorLiveness, _RayRuntimeLease, _set_ray_client_liveness
from flambeau.rl._remote import imported_ray
from flambeau.rl.modules.inference_server._factory import _make_inference_transport
from flambeau.rl.modules.inference_server._server import InferenceServer


class _Actor:
    """What runs in the actor: the server, in a thread of it.

    Args:
        policy_factory: makes the policy.
        transport: what carries requests; None to make one here.
        chosen: how it is made.
        arguments: others of `InferenceServer`.
    """

    def __init__(
        self, policy_factory: Callable[[], Any], transport: Any, chosen: dict[str, Any], arguments: dict[str, Any]
    ) -> None:
        if transport is None:
            transport = _make_inference_transport("distributed", service_backend="ray", **chosen)
        self._server = InferenceServer(
            transport=transport, policy_factory=policy_factory, service_backend="thread", **arguments
        )
        self._server.start()

    def client(self) -> Any:
        """What asks, where the transport is here."""
        return self._server.client()

    def stats(self, reset: bool = False) -> dict[str, float | int]:
        """As `InferenceServer.stats`."""
        return self._server.stats(reset=reset)

    def health(self) -> dict[str, Any]:
        """Whether it answers, and the version of its weights."""
        return {"server_alive": self._server.is_alive, "policy_version": self._server.policy_version}

    def update_model_weights(self, weights: TensorDictBase, mark_weight_update: bool = True) -> None:
        """Write weights into the policy."""
        self._server._served.load(weights, mark_weight_update)

    def shutdown(self) -> None:
        """End the server."""
        self._server.shutdown()


class RayInferenceServer:
    """An `InferenceServer` in an actor of Ray, which also makes the policy.

    Clients of an actor that dies get an error.

    Args:
        policy_factory: makes the policy.
        transport: what carries requests, or its name: "auto", "ray" or "distributed".
        chosen: how a transport that is named is made.
        ray_init_config: arguments of `ray.init`, where Ray does not run.
        remote_config: what the actor takes.
        arguments: others of `InferenceServer`.

    Raises:
        ImportError: Ray is not installed.
        ValueError: the transport does not fit.
    """

    def __init__(
        self,
        *,
        policy_factory: Callable[[], Any],
        transport: Any = "auto",
        chosen: dict[str, Any] | None = None,
        ray_init_config: dict[str, Any] | None = None,
        remote_config: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        self._lease: _RayRuntimeLease | None = _RayRuntimeLease.acquire(ray_init_config)
        self._ray = imported_ray()
        self._policy_factory, self._arguments, self._chosen = policy_factory, arguments, dict(chosen or {})
        self._remote_config = {"num_cpus": 1} | dict(remote_config or {})
        self._is_distributed = transport == "distributed"
        self.transport = None if self._is_distributed else _make_inference_transport(
            transport, service_backend="ray", **self._chosen
        )  # fmt: skip
        self._actor: Any = None
        self._version = int(arguments.get("policy_version", 0))

    def start(self) -> RayInferenceServer:
        """Start the actor, and wait until it has made the policy; the server itself.

        Raises:
            RuntimeError: it runs.
            ray.exceptions.RayError: the policy could not be made.
        """
        if self.is_alive:
            raise RuntimeError("the inference server is running; shut it down before it is started again.")
        # One thread waits for commands while another one carries one out.
        options = {"max_concurrency": 4} | self._remote_config
        self._actor = self._ray.remote(_Actor).options(**options).remote(
            self._policy_factory, self.transport, self._chosen, self._arguments
        )  # fmt: skip
        self._ray.get(self._actor.health.remote())
        return self

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """End the actor; Ray as well, where the server started it and nobody else needs it.

        Args:
            timeout: seconds that it has to end by itself.
        """
        actor, self._actor = self._actor, None
        if actor is not None and self._ray.is_initialized():
            with suppress(self._ray.exceptions.RayError, TimeoutError):  # it has ended, or hangs
                self._ray.get(actor.shutdown.remote(), timeout=timeout)
            self._ray.kill(actor)
        if self.transport is not None and self._ray.is_initialized():
            self.transport.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def __enter__(self) -> RayInferenceServer:
        """The server, which is started, and ends with the block."""
        return self if self.is_alive else self.start()

    def __exit__(self, *exception: object) -> None:
        """End it."""
        self.shutdown()

    @property
    def is_alive(self) -> bool:
        """Whether the actor lives."""
        return self._actor is not None and _RayActorLiveness(self._actor).is_set()

    @property
    def service_backend(self) -> str:
        """Where the policy is."""
        return "ray"

    @property
    def transport_kind(self) -> str:
        """The name of what carries requests."""
        return "distributed" if self.transport is None else self.transport.kind

    def client(self) -> Any:
        """What can ask, from any process of the cluster, and do nothing else.

        Raises:
            RuntimeError: the server does not run.
        """
        if self._actor is None:
            raise RuntimeError("clients of a server on Ray are made after it is started.")
        made = self._ray.get(self._actor.client.remote()) if self.transport is None else self.transport.client()
        return _set_ray_client_liveness(made, _RayActorLiveness(self._actor))

    def clients(self, num_clients: int) -> list[Any]:
        """As many clients, one for each who asks by itself.

        Raises:
            ValueError: num_clients < 1.
        """
        if num_clients < 1:
            raise ValueError(f"num_clients is {num_clients}, expected 1 or more.")
        return [self.client() for _ in range(num_clients)]

    def _ask(self, method: str, *args: Any) -> Any:
        if self._actor is None:
            raise RuntimeError("the inference server does not run; start it.")
        return self._ray.get(getattr(self._actor, method).remote(*args))

    @property
    def policy_version(self) -> int:
        """The version of the actor's weights; the last one known where it does not run."""
        if self._actor is not None:
            self._version = int(self._ask("health")["policy_version"])
        return self._version

    def stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """As `InferenceServer.stats`.

        Args:
            reset: begin anew afterwards.
        """
        found: dict[str, float | int] = self._ask("stats", reset)
        return found

    def health(self) -> dict[str, Any]:
        """Whether it answers, and the version of its weights."""
        found: dict[str, Any] = self._ask("health")
        return found

    def update_model_weights(self, weights: TensorDictBase, *, mark_weight_update: bool = True) -> dict[str, bool]:
        """Write weights into the actor's policy.

        Args:
            weights: as `TensorDict.from_module` gives them.
            mark_weight_update: count them as new.
        """
        self._ask("update_model_weights", weights.detach().cpu(), mark_weight_update)
        return {"updated": True}
