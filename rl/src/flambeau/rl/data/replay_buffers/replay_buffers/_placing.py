"""Where a buffer is: in this process, or in an actor."""

from __future__ import annotations

from typing import Any

from flambeau.rl._comm.backends import chosen_service, chosen_transport


class Placed(type):
    """Lets `ReplayBuffer(..., service_backend="ray")` make a buffer in an actor."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if getattr(cls, "_is_remote", False):
            return super().__call__(*args, **kwargs)
        backend = chosen_service(kwargs.get("service_backend"), "direct")
        if backend == "direct":
            _check_direct(kwargs)
            return super().__call__(*args, **kwargs)
        if backend != "ray":
            raise ValueError(f"service_backend is {backend!r}; replay buffers are 'direct' or on 'ray'.")
        from flambeau.rl.data.replay_buffers.ray_buffer import RayReplayBuffer

        kwargs.pop("service_backend", None)
        options = dict(kwargs.pop("service_backend_options", None) or {})
        transport = chosen_transport(kwargs.pop("transport", None))
        kind: Any = cls
        carried: Any = transport
        return RayReplayBuffer(*args, replay_buffer_cls=kind, transport=carried, **options, **kwargs)


def _check_direct(kwargs: dict[str, Any]) -> None:
    """Compare what is said of a transport with a buffer in this process.

    Raises:
        ValueError: it needs one elsewhere.
    """
    if kwargs.get("transport", "auto") not in ("auto", "direct"):
        raise ValueError(
            f"transport={kwargs['transport']!r} reaches no buffer of this process; give service_backend='ray'."
        )
    for name in ("service_backend_options", "transport_options"):
        if kwargs.get(name):
            raise ValueError(f"{name} is for buffers that are elsewhere; give service_backend='ray'.")
