"""What a service is, and what finds services by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

__all__ = ["Service", "ServiceBase"]

ClientT = TypeVar("ClientT", covariant=True)


@runtime_checkable
class Service(Protocol, Generic[ClientT]):
    """What runs and is used by others: who has it starts and ends it, others get clients, which can do neither."""

    def start(self) -> Self:
        """Start it; the service itself."""
        ...

    def shutdown(self, timeout: float | None = None) -> None:
        """End it, and what it holds.

        Args:
            timeout: seconds to wait for it.
        """
        ...

    def client(self) -> ClientT:
        """What uses the service, can be sent to other processes, and cannot end it."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        ...


class ServiceBase(ABC):
    """Finds services by name: `services[name]`, from every process."""

    @abstractmethod
    def register(self, name: str, service_factory: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a service, and let everybody find it.

        Args:
            name: its name.
            service_factory: its class, or what makes it.
            args: of the class.
            kwargs: of the class, and of what it runs in.

        Raises:
            ValueError: there is one of that name.
        """

    @abstractmethod
    def get(self, name: str) -> Any:
        """A service.

        Raises:
            KeyError: there is none of that name.
        """

    def get_client(self, name: str) -> Any:
        """The client of a running `Service` that was registered.

        Raises:
            NotImplementedError: this registry knows no clients.
        """
        raise NotImplementedError(f"{type(self).__name__} finds services, and knows no clients of them.")

    @abstractmethod
    def __contains__(self, name: str) -> bool: ...

    @abstractmethod
    def list(self) -> list[str]:
        """The names of all services."""

    @abstractmethod
    def reset(self) -> None:
        """End all services that were made here, and forget the others."""

    def __getitem__(self, name: str) -> Any:
        """A service, see `get`."""
        return self.get(name)

    def __setitem__(self, name: str, service_factory: Any) -> None:
        """Make a service, see `register`."""
        self.register(name, service_factory)
