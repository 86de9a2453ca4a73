"""Inference servers whose policies are not in this process."""

from __future__ import annotations

from typing import Any

from flambeau.rl.modules.inference_server._factory import _make_inference_transport


def made_elsewhere(
    backend: str, model: Any = None, transport: Any = "auto", *, policy_factory: Any = None, **arguments: Any
) -> Any:
    """A server by where its policy is.

    Args:
        backend: "process" or "ray".
        model: must be None: a policy is made where it is.
        transport: what carries requests, or its name.
        policy_factory: makes the policy.
        arguments: others of `InferenceServer`.

    Raises:
        ValueError: there is no such backend, or the policy is given itself.
    """
    if backend not in ("process", "ray"):
        raise ValueError(f"service_backend is {backend!r}, expected 'thread', 'process' or 'ray'.")
    if model is not None or policy_factory is None:
        raise ValueError(f"service_backend={backend!r} makes the policy elsewhere: give policy_factory=, and no model.")
    arguments.pop("service_backend", None)
    if arguments.pop("shutdown_event", None) is not None:
        raise ValueError(f"shutdown_event= is for threads; a server with service_backend={backend!r} has shutdown().")
    options = dict(arguments.pop("service_backend_options", None) or {})
    response_spec = arguments.pop("response_spec", None)
    chosen = {
        "transport_options": arguments.pop("transport_options", None),
        "request_spec": arguments.get("request_spec"),
        "response_spec": response_spec,
        "num_clients": arguments.pop("num_clients", None),
    }
    if backend == "process":
        from flambeau.rl.modules.inference_server._process_server import ProcessInferenceServer

        context = options.get("mp_context")
        if isinstance(context, str) or context is None:
            import torch.multiprocessing as mp

            options["mp_context"] = context = mp.get_context(context or "spawn")
        made = _make_inference_transport(transport, service_backend="process", context=context, **chosen)
        return ProcessInferenceServer(policy_factory=policy_factory, transport=made, **options, **arguments)
    from flambeau.rl.modules.inference_server._ray_server import RayInferenceServer

    return RayInferenceServer(policy_factory=policy_factory, transport=transport, chosen=chosen, **options, **arguments)
