"""Engines of vLLM that answer a batch at a time: in this process, or in an actor of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.llm.backends.vllm.base import RLvLLMEngine, imported_vllm
from flambeau.rl.modules.llm.backends.vllm.vllm_plugin import enable_fp32_overrides
from flambeau.rl.modules.llm.backends.vllm.vllm_utils import get_open_port
from flambeau.rl.modules.llm.backends.vllm.weight_sender import WeightSender

try:
    from vllm import LLM
    from vllm.worker.worker import Worker
except ImportError:  # names of types, which are not constructed without vLLM

    class LLM:  # type: ignore[no-redef]
        """vLLM's engine, where vLLM is not installed."""

    class Worker:  # type: ignore[no-redef]
        """vLLM's worker, where vLLM is not installed."""


__all__ = ["LLM", "LocalLLMWrapper", "RayLLMWorker", "Worker", "get_open_port", "make_vllm_worker"]

_EXTENSION = "flambeau.rl.modules.llm.backends.vllm.worker_extension.WeightReceiver"
_CHUNK = 2**28  # bytes of weights that go with one call


class LocalLLMWrapper(RLvLLMEngine):
    """An engine in this process. Weights go to its workers with the calls, without a process group.

    Args:
        llm_instance: a `vllm.LLM`, made with `worker_extension_cls` as `make_vllm_worker` does it.
        tensor_parallel_size: its workers.
        model_name: of the model.
    """

    def __init__(self, llm_instance: Any, tensor_parallel_size: int, model_name: str) -> None:
        self.llm_instance, self.model_name = llm_instance, model_name
        self._tp_size = tensor_parallel_size
        self._port: int | None = None

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As `vllm.LLM.generate`."""
        return self.llm_instance.generate(*args, **kwargs)

    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""
        return self._tp_size

    def get_model_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The dtypes and shapes of the first worker's weights by their names."""
        return self.llm_instance.collective_rpc("weight_metadata")[0]  # type: ignore[no-any-return]

    def get_master_address(self) -> str:
        """This host."""
        return "localhost"

    def get_master_port(self) -> int:
        """A free port, the same at each call."""
        if self._port is None:
            self._port = get_open_port()
        return self._port

    def init_weight_update_group(self) -> None:
        """Nothing: there is no group."""

    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Replace weights, and forget what was computed with the former ones.

        Args:
            weights: names and tensors.
        """
        chunk: list[tuple[str, Tensor]] = []
        size = 0
        for name, weight in weights:
            chunk.append((name, weight.detach()))
            size += weight.numel() * weight.element_size()
            if size >= _CHUNK:
                self.llm_instance.collective_rpc("load_weights_from", args=(chunk,))
                chunk, size = [], 0
        if chunk:
            self.llm_instance.collective_rpc("load_weights_from", args=(chunk,))
        self.reset_prefix_cache()

    def reset_prefix_cache(self) -> None:
        """Forget what was computed of prompts."""
        self.llm_instance.reset_prefix_cache()


class RayLLMWorker(RLvLLMEngine):
    """An engine in an actor of Ray.

    Args:
        ray_actor: has `generate`, `collective_rpc` and `reset_prefix_cache` of `vllm.LLM`.
        tensor_parallel_size: its workers.
        model_name: of the model.
        enable_prefix_caching: whether it keeps what it computed of prompts.
    """

    def __init__(
        self, ray_actor: Any, tensor_parallel_size: int, model_name: str, enable_prefix_caching: bool = True
    ) -> None:
        import ray

        self.ray_actor, self.model_name = ray_actor, model_name
        self.enable_prefix_caching = enable_prefix_caching
        self._ray, self._tp_size = ray, tensor_parallel_size
        self._sender = WeightSender([self._start], ray.get, tensor_parallel_size)

    def _start(self, name: str, args: tuple[Any, ...]) -> Any:
        return self.ray_actor.collective_rpc.remote(name, args=args)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As `vllm.LLM.generate`."""
        return self._ray.get(self.ray_actor.generate.remote(*args, **kwargs))

    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""
        return self._tp_size

    def get_model_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The dtypes and shapes of the first worker's weights by their names."""
        return self._ray.get(self._start("weight_metadata", ()))[0]  # type: ignore[no-any-return]

    def get_master_address(self) -> str:
        """The trainer's host."""
        return self._sender.address

    def get_master_port(self) -> int:
        """The trainer's port."""
        return self._sender.port

    def init_weight_update_group(self) -> None:
        """Join the process group with all workers."""
        self._sender.join()

    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Broadcast weights, and forget what was computed with the former ones.

        Args:
            weights: names and tensors, on the GPU of the group.
        """
        self._sender.send(weights)
        self.reset_prefix_cache()

    def reset_prefix_cache(self) -> None:
        """Forget what was computed of prompts."""
        if self.enable_prefix_caching:
            self._ray.get(self.ray_actor.reset_prefix_cache.remote())


class _Hosted:
    """What runs in the actor: a `vllm.LLM`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.llm = imported_vllm().LLM(**options)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        return self.llm.generate(*args, **kwargs)

    def collective_rpc(self, name: str, args: tuple[Any, ...] = ()) -> Any:
        return self.llm.collective_rpc(name, args=args)

    def reset_prefix_cache(self) -> None:
        self.llm.reset_prefix_cache()


def make_vllm_worker(
    *, model_name: str, devices: Sequence[torch.device | int] | None = None, num_devices: int | None = None,
    make_ray_worker: bool = True, enforce_eager: bool = False, enable_fp32_output: bool = False, **kwargs: Any,
) -> RayLLMWorker | LocalLLMWrapper:  # fmt: skip
    """Start an engine.

    Args:
        model_name: the model's name or folder.
        devices: GPUs, by their numbers.
        num_devices: how many, instead; one by default.
        make_ray_worker: start it in an actor of Ray.
        enforce_eager: compile nothing.
        enable_fp32_output: compute logits in float32.
        **kwargs: of `vllm.LLM`.

    Raises:
        ImportError: vLLM is not installed, or Ray where it is needed.
        ValueError: both `devices` and `num_devices`.
    """
    if devices is not None and num_devices is not None:
        raise ValueError("devices says which GPUs, num_devices how many; give one of them.")
    imported_vllm()
    if enable_fp32_output:
        enable_fp32_overrides()
    count = len(devices) if devices is not None else num_devices or 1
    options = {
        "model": model_name, "tensor_parallel_size": count, "enforce_eager": enforce_eager,
        "worker_extension_cls": _EXTENSION, **kwargs,
    }  # fmt: skip
    if not make_ray_worker:
        return LocalLLMWrapper(imported_vllm().LLM(**options), count, model_name)
    import ray

    if not ray.is_initialized():
        ray.init()
    actor = ray.remote(_Hosted).options(num_gpus=count).remote(options)
    return RayLLMWorker(actor, count, model_name, bool(options.get("enable_prefix_caching", True)))
