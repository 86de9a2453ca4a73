"""Transports by their names, for each place where a policy can be."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._comm.backends import chosen_transport
from flambeau.rl.modules.inference_server._transport import InferenceTransport

_FITTING: dict[str, tuple[str, ...]] = {
    "thread": ("thread", "direct", "distributed"),
    "process": ("process", "shared_memory", "process_slot", "distributed"),
    "ray": ("ray", "distributed"),
}
"""By where the policy is; the first is "auto"."""

_WITH_LAYOUT = ("shared_memory", "process_slot", "distributed")


def _inference_transport_kind(transport: InferenceTransport | str, service_backend: str) -> str:
    """The name of a transport; of "auto", the one that it stands for."""
    if not isinstance(transport, str):
        return transport.kind
    return _FITTING[service_backend][0] if transport == "auto" else transport


def _validate_inference_transport_selection(transport: InferenceTransport | str, service_backend: str) -> None:
    """Compare a transport with where the policy is.

    Raises:
        ValueError: it does not fit.
    """
    if isinstance(transport, str) and transport != "auto" and transport not in _FITTING[service_backend]:
        raise ValueError(
            f"transport={transport!r} reaches no {service_backend}; with service_backend={service_backend!r} there are "
            f"{', '.join(_FITTING[service_backend])}."
        )


def _make_inference_transport(
    transport: InferenceTransport | str,
    *,
    service_backend: str,
    transport_options: dict[str, Any] | None = None,
    request_spec: TensorDictBase | None = None,
    response_spec: TensorDictBase | None = None,
    num_clients: int | None = None,
    context: Any = None,
) -> InferenceTransport:
    """A transport of a name; one that is given is taken as it is.

    Args:
        transport: the transport, or its name.
        service_backend: where the policy is.
        transport_options: arguments of the transport.
        request_spec: what a request is like.
        response_spec: what an answer is like.
        num_clients: how many clients there are.
        context: of multiprocessing.

    Raises:
        ValueError: it does not fit, or an argument is missing that it needs.
    """
    if not isinstance(transport, str):
        return transport
    if transport == "auto":
        transport = chosen_transport(None)
    _validate_inference_transport_selection(transport, service_backend)
    kind = _inference_transport_kind(transport, service_backend)
    options = dict(transport_options or {})
    if kind in _WITH_LAYOUT and (request_spec is None or response_spec is None):
        raise ValueError(f"transport={kind!r} needs request_spec= and response_spec=, the layouts of what it carries.")
    if kind == "thread":
        from flambeau.rl.modules.inference_server._threading import ThreadingTransport

        return ThreadingTransport(**options)
    if kind == "direct":
        from flambeau.rl.modules.inference_server._slot import SlotTransport

        made = SlotTransport(num_clients or 1, **options)
        made.kind = "direct"
        return made
    if kind == "ray":
        from flambeau.rl.modules.inference_server._ray import RayTransport

        return RayTransport(**options)
    if kind == "process":
        from flambeau.rl.modules.inference_server._mp import MPTransport

        return MPTransport(context, **options)
    if kind == "distributed":
        from flambeau.rl.modules.inference_server._distributed import _DistributedInferenceTransport

        return _DistributedInferenceTransport(request_spec, response_spec, **options)
    options.setdefault("num_slots", num_clients or 1)
    options.setdefault("ctx", context)
    if kind == "shared_memory":
        from flambeau.rl.modules.inference_server._shared_memory import SharedMemoryTransport

        return SharedMemoryTransport(request_spec, response_spec, **options)
    from flambeau.rl.modules.inference_server._process_slot import ProcessSlotTransport

    return ProcessSlotTransport(request_spec, response_spec, **options)
