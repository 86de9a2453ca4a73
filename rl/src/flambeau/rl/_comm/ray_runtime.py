"""Ray as long as somebody needs it, and whether its actors live."""

from __future__ import annotations

import threading
from typing import Any

from flambeau.rl._remote import imported_ray, merge_ray_runtime_env


class _RayRuntimeLease:
    """Keeps Ray running. Where the first lease of this process started it, the end of the last one ends it."""

    _guard = threading.Lock()
    _leases = 0
    _is_ours = False

    def __init__(self) -> None:
        self._is_held = True

    @classmethod
    def acquire(cls, ray_init_config: dict[str, Any] | None = None) -> _RayRuntimeLease:
        """A lease; Ray is started where it does not run.

        Args:
            ray_init_config: arguments of `ray.init`.

        Raises:
            ImportError: Ray is not installed.
        """
        ray = imported_ray()
        with cls._guard:
            if not ray.is_initialized():
                defaults = {"include_dashboard": False, "log_to_driver": False}
                ray.init(**(defaults | merge_ray_runtime_env(ray_init_config)))
                cls._is_ours, cls._leases = True, 0
            cls._leases += 1
        return cls()

    def release(self) -> None:
        """Give the lease back; further calls do nothing."""
        ray = imported_ray()
        with self._guard:
            if not self._is_held:
                return
            self._is_held = False
            cls = type(self)
            cls._leases -= 1
            if cls._leases <= 0 and cls._is_ours:
                cls._is_ours = False
                if ray.is_initialized():
                    ray.shutdown()


class _RayActorLiveness:
    """Whether an actor lives, as `threading.Event.is_set` would tell. It can be sent to other actors.

    Args:
        actor: the actor.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def is_set(self) -> bool:
        """Whether it lives; one that is busy does."""
        ray = imported_ray()
        try:
            asked = self._actor.__ray_ready__.remote()
            done, _ = ray.wait([asked], timeout=0.05)
            if done:
                ray.get(asked)
        except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError):
            return False
        return True

    def set(self) -> None:
        """Nothing: it lives or not, whatever others say."""

    def clear(self) -> None:
        """Nothing: it lives or not, whatever others say."""


def _set_ray_client_liveness(client: Any, liveness: _RayActorLiveness) -> Any:
    """Let a client look whether an actor lives while it waits; the client itself."""
    client._peer_alive = liveness
    return client
