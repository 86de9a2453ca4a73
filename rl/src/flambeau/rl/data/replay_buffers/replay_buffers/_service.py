"""A buffer in this process is a service that needs nobody to start it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flambeau.rl._remote import as_remote


class DirectService:
    """What a replay buffer has in common with those that are elsewhere."""

    _storage: Any
    _waiting: deque[Future[Any]]
    _pool: ThreadPoolExecutor | None
    _updates: ThreadPoolExecutor | None = None
    _last_update: Future[Any] | None = None
    _is_shut_down = False

    @classmethod
    def as_remote(cls, remote_config: dict[str, Any] | None = None) -> Any:
        """A class of Ray's actors of this class, see `as_remote` of `ray_buffer`.

        Args:
            remote_config: what an actor takes; default: one core and 2 GB.

        Raises:
            ImportError: Ray is not installed.
        """
        return as_remote(cls, remote_config)

    @property
    def initialized(self) -> bool:
        """Whether its parts are made."""
        return True

    def start(self) -> Any:
        """The buffer itself, which needs no start."""
        return self

    @property
    def is_alive(self) -> bool:
        """Whether it was not shut down."""
        return not self._is_shut_down

    @property
    def service_backend(self) -> str:
        """Where it is: "direct", in this process."""
        return "direct"

    def client(self) -> Any:
        """What writes and samples: the buffer itself."""
        return self

    def synchronize(self) -> None:
        """Wait for batches that are prefetched and for updates that were submitted; what they raised is raised here."""
        for future in [*self._waiting]:
            future.result()
        if self._last_update is not None:
            self._last_update.result()

    def shutdown(self, timeout: float | None = None) -> None:
        """Wait for batches that are prefetched and for updates that were submitted, and end their threads.

        Args:
            timeout: kept for the signature that all services share.

        Raises:
            Exception: what one of them raised, after all have ended.
        """
        self._is_shut_down = True
        try:
            self.synchronize()
        finally:
            for pool in (self._pool, self._updates):
                if pool is not None:
                    pool.shutdown(wait=True)
            self._pool = self._updates = None

    def stats(self) -> dict[str, int | float | bool]:
        """How many items there are, were written and fit, and how many batches wait."""
        size = len(self)  # type: ignore[arg-type]
        facts: dict[str, int | float | bool] = {
            "size": size,
            "write_count": int(self.write_count),  # type: ignore[attr-defined]
            "prefetch_queue_size": len(self._waiting),
            "initialized": True,
        }
        capacity = getattr(self._storage, "max_size", None)
        if capacity is not None:
            facts |= {"capacity": int(capacity), "utilization": size / int(capacity) if capacity else 0.0}
        return facts
