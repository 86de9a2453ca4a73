"""Weights for Ray's actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from flambeau.rl.weight_update._inbox import CallTransport, Inbox
from flambeau.rl.weight_update._mp import sync_timeout_s
from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme


@dataclass
class ConnectionInfo:
    """Where a group of processes meets.

    Args:
        master_addr: host.
        master_port: port.
        world_size: number of processes.
        stateful_model: the receiver has a module.
        prefix: of names in the store.
    """

    master_addr: str
    master_port: int
    world_size: int
    stateful_model: bool
    prefix: str

    def get(self, key: str, default: Any = None) -> Any:
        """One of these facts by name.

        Args:
            key: the name.
            default: where there is no such.
        """
        return getattr(self, key, default)


class RayTransport(CallTransport):
    """Carries weights through Ray's object store, into which they are put once for all actors.

    Args:
        remote_actor: an actor that has a method `deliver(model_id, weights)`.
        worker_idx: the actor's number.
        backend: kept for upstream's signature.
        connection_info_name: kept for upstream's signature.
        model_id: which model they are for.
        inbox: at the receiver.
    """

    def __init__(
        self,
        *,
        remote_actor: Any = None,
        worker_idx: int | None = None,
        backend: str = "gloo",
        connection_info_name: str = "connection_info",
        model_id: str | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        super().__init__(inbox)
        self.model_version: int | None = None
        self.remote_actor, self.worker_idx, self.model_id = remote_actor, worker_idx, model_id or "policy"

    def _call(self, weights: Any) -> Any:
        if self.remote_actor is None:
            return super()._call(weights)
        return self.remote_actor.deliver.remote(self.model_id, weights)

    def _finish(self, pending: Any) -> None:
        import ray

        ray.get(pending, timeout=sync_timeout_s())

    def set_process_group(self, process_group: Any, store: Any = None) -> None:
        """Kept for upstream's signature: weights go through Ray's object store.

        Args:
            process_group: is not used.
            store: is not used.
        """

    def set_model_version(self, model_version: int | None) -> None:
        """Say which version the weights have that are sent next.

        Args:
            model_version: the version; None for none.
        """
        self.model_version = model_version

    def set_model(self, model: Any) -> None:
        """Kept for upstream's signature: receivers are told which model they write into.

        Args:
            model: is not used.
        """


class RayWeightSyncScheme(WeightSyncScheme):
    """Brings weights to Ray's actors; these take them between two steps.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
        backend: kept for upstream's signature: weights go through Ray's object store.
    """

    def __init__(self, strategy: Literal["tensordict", "state_dict"] = "tensordict", backend: str = "gloo") -> None:
        super().__init__(strategy)
        self.backend = backend

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_transports": {}}

    @property
    def connection_info_name(self) -> str:
        """A name for what both sides know."""
        return f"connection_info_{self.model_id}"

    def create_transport(
        self, *, remote_actor: Any = None, worker_idx: int | None = None, remote_collector: Any = None, **kwargs: Any
    ) -> TransportBackend:
        """A transport to one actor; without one, the end of it that is there.

        Args:
            remote_actor: the actor.
            worker_idx: its number.
            remote_collector: the actor, by this name.
            kwargs: `inbox`, at the receiver; `remote_actors`, of all, at the sender.
        """
        actor = remote_actor if remote_actor is not None else remote_collector
        if actor is None and kwargs.get("remote_actors") is not None:
            actor = kwargs["remote_actors"][worker_idx]
        return RayTransport(
            remote_actor=actor, worker_idx=worker_idx, model_id=self.model_id, inbox=kwargs.get("inbox")
        )


class RayModuleTransformScheme(RayWeightSyncScheme):
    """Brings weights to a module that works as a transform in a Ray actor.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
        backend: kept for upstream's signature.
    """
