"""Services: what runs somewhere and is used from everywhere, and where it is found by its name."""

from __future__ import annotations

from typing import Any

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl._comm.backends import ServiceBackend as ServiceBackend
    from flambeau.rl.services.base import Service as Service
    from flambeau.rl.services.base import ServiceBase as ServiceBase
    from flambeau.rl.services.ray_service import RayService as RayService

_getattr, __dir__, __all__ = lazy_exports(
    __name__, {"base": ("Service", "ServiceBase"), "ray_service": ("RayService",)}
)
__all__ = ["ServiceBackend", "get_services", *__all__]


def __getattr__(name: str) -> Any:
    if name == "ServiceBackend":
        from flambeau.rl._comm.backends import ServiceBackend

        return ServiceBackend
    return _getattr(name)


def get_services(backend: str = "ray", **init_kwargs: Any) -> ServiceBase:
    """Where services are found by name, from all processes.

    Args:
        backend: "ray".
        init_kwargs: of `RayService`: `ray_init_config` and `namespace`.

    Raises:
        ValueError: there is no such backend.
        ImportError: Ray is not installed.
    """
    if backend != "ray":
        raise ValueError(f"there is no registry of services by {backend!r}; there is 'ray'.")
    from flambeau.rl.services.ray_service import RayService

    return RayService(**init_kwargs)
