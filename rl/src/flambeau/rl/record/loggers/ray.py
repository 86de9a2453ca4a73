"""`RayLogger`: a logger in an actor of Ray."""

from __future__ import annotations

from typing import Any, Self

from flambeau.core.errors import describe
from flambeau.rl.record.loggers._service import LoggerClient

__all__ = ["RayLogger"]


class _RayLoggerClient(LoggerClient):
    """Sends calls to a logger's actor.

    Args:
        actor: the actor.
        facts: the logger's name, folder and representation.
    """

    def __init__(self, actor: Any, facts: dict[str, str]) -> None:
        self._actor = actor
        self._facts = facts
        self.exp_name = facts["exp_name"]
        self.log_dir = facts["log_dir"]
        self.experiment = None

    def _submit(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], wait: bool = False) -> Any:
        answer = self._actor.call.remote(method, args, kwargs, wait)
        return _ray().get(answer) if wait else None

    @property
    def is_alive(self) -> bool:
        """Whether the actor answers."""
        ray = _ray()
        try:
            ray.get(self._actor.facts.remote(), timeout=5.0)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            return False
        return True

    @property
    def service_backend(self) -> str:
        """Where the logger is: "ray"."""
        return "ray"

    def __repr__(self) -> str:
        return self._facts["repr"]


class RayLogger(_RayLoggerClient):
    """Owns a logger in an actor of Ray (`pip install 'flambeau-rl[ray]'`).

    Args:
        logger_cls: the logger's class.
        args: its arguments, as `kwargs`.
        ray_actor_options: of the actor, such as {"num_cpus": 1}.
        ray_init_config: arguments of `ray.init`, where Ray does not run yet.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(
        self,
        logger_cls: type,
        *args: Any,
        ray_actor_options: dict[str, Any] | None = None,
        ray_init_config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(**(ray_init_config or {}))
        actor = ray.remote(_Actor).options(**{"num_cpus": 0} | (ray_actor_options or {}))
        made = actor.remote(logger_cls, args, kwargs)
        self._stopped = False
        super().__init__(made, ray.get(made.facts.remote()))

    def start(self) -> Self:
        """The logger, which has begun already."""
        return self

    def client(self) -> _RayLoggerClient:
        """What logs from other processes."""
        return _RayLoggerClient(self._actor, self._facts)

    @property
    def is_alive(self) -> bool:
        """Whether the actor answers."""
        return not self._stopped and super().is_alive

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is logged.

        Args:
            timeout: seconds; default: as long as it takes.

        Raises:
            RuntimeError: something could not be logged.
        """
        error = _ray().get(self._actor.settle.remote("flush"), timeout=timeout)
        if error is not None:
            raise RuntimeError(f"The logger failed: {error}")

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """Log what was sent, and end the actor.

        Args:
            timeout: seconds that it has; then it is killed.

        Raises:
            RuntimeError: something could not be logged.
        """
        if self._stopped:
            return
        self._stopped = True
        ray = _ray()
        try:
            error = ray.get(self._actor.settle.remote("shutdown"), timeout=timeout)
        finally:
            ray.kill(self._actor)
        if error is not None:
            raise RuntimeError(f"The logger failed: {error}")

    def close(self, timeout: float | None = 5.0) -> None:
        """As `shutdown`."""
        self.shutdown(timeout)


class _Actor:
    """The logger in the actor's process."""

    def __init__(self, cls: Any, args: Any, kwargs: Any) -> None:
        self.logger = cls(*args, **kwargs)
        self.failure: str | None = None

    def facts(self) -> dict[str, str]:
        return {"exp_name": self.logger.exp_name, "log_dir": str(self.logger.log_dir), "repr": repr(self.logger)}

    def call(self, method: str, args: Any, kwargs: Any, told: bool) -> Any:
        try:
            return getattr(self.logger, method)(*args, **kwargs)
        except Exception as error:
            if told:
                raise
            self.failure = self.failure or f"{method}: {describe(error)}"

    def settle(self, method: str) -> str | None:
        getattr(self.logger, method)()
        failure, self.failure = self.failure, None
        return failure


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("RayLogger needs Ray. Run: pip install 'flambeau-rl[ray]'") from error
    return ray
