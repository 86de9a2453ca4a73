"""Engines of vLLM that take requests at any time, in several actors of Ray."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.modules.llm.backends.vllm.base import RLvLLMEngine, imported_vllm
from flambeau.rl.modules.llm.backends.vllm.load_balancer import LoadBalancer, Strategy
from flambeau.rl.modules.llm.backends.vllm.vllm_plugin import enable_fp32_overrides
from flambeau.rl.modules.llm.backends.vllm.weight_sender import WeightSender

__all__ = ["AsyncVLLM", "LoadBalancer", "make_async_vllm_engine"]

_EXTENSION = "flambeau.rl.modules.llm.backends.vllm.worker_extension.WeightReceiver"


class _Hosted:
    """What runs in an actor: an `AsyncLLMEngine`, which batches requests that come while others run."""

    def __init__(self, engine_args: Any) -> None:
        from vllm import AsyncLLMEngine

        self.engine = AsyncLLMEngine.from_engine_args(engine_args)
        self._unfinished = 0

    async def ready(self) -> bool:
        """Whether the model is loaded: once this answers."""
        return True

    async def generate(self, prompt: Any, sampling_params: Any, lora_request: Any = None) -> Any:
        """The last output of one request."""
        self._unfinished += 1
        found = None
        try:
            options = {} if lora_request is None else {"lora_request": lora_request}
            async for output in self.engine.generate(prompt, sampling_params, uuid.uuid4().hex, **options):
                found = output
        finally:
            self._unfinished -= 1
        return found

    async def collective_rpc(
        self, method: str, timeout: float | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What a method of the workers gives."""
        return await self.engine.collective_rpc(method, timeout, args, kwargs)

    async def reset_prefix_cache(self) -> None:
        """Forget what was computed of prompts."""
        await self.engine.reset_prefix_cache()

    async def get_num_unfinished_requests(self) -> int:
        """How many requests run or wait."""
        return self._unfinished

    async def get_cache_usage(self) -> float:
        """The share of the cache that is used, from vLLM's own counter."""
        from prometheus_client import REGISTRY

        for metric in REGISTRY.collect():
            if metric.name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"):
                return max((float(sample.value) for sample in metric.samples), default=0.0)
        return 0.0


class AsyncVLLM(RLvLLMEngine):
    """Several replicas of an engine, each in an actor of Ray; weights reach all of them.

    Args:
        engine_args: a `vllm.AsyncEngineArgs`.
        num_replicas: how many.
        actor_class: instead of the one here; has its methods.
        enable_prefix_caching: keep what is computed of prompts; by default as `engine_args` says.

    `launch` and `from_pretrained` start the actors.
    """

    def __init__(
        self,
        engine_args: Any,
        num_replicas: int = 1,
        actor_class: Any = None,
        enable_prefix_caching: bool | None = None,
    ) -> None:
        if num_replicas < 1:
            raise ValueError(f"num_replicas is {num_replicas}, expected 1 or more.")
        if enable_prefix_caching is not None:
            engine_args.enable_prefix_caching = enable_prefix_caching
        if getattr(engine_args, "worker_extension_cls", None) in (None, ""):
            engine_args.worker_extension_cls = _EXTENSION
        self.engine_args, self.num_replicas = engine_args, num_replicas
        self.actor_class = actor_class or _Hosted
        self.actors: list[Any] = []
        self._balancer: LoadBalancer | None = None
        self._sender: WeightSender | None = None
        self._ray: Any = None

    def _launch(self) -> AsyncVLLM:
        import ray

        self._ray = ray
        if not ray.is_initialized():
            ray.init()
        gpus = self._workers()
        kind = ray.remote(self.actor_class)
        self.actors = [kind.options(num_gpus=gpus).remote(self.engine_args) for _ in range(self.num_replicas)]
        ray.get([actor.ready.remote() for actor in self.actors])
        self._sender = WeightSender([self._starter(actor) for actor in self.actors], ray.get, self._workers())
        return self

    def _starter(self, actor: Any) -> Any:
        return lambda name, args: actor.collective_rpc.remote(name, None, args)

    def _workers(self) -> int:
        return self.get_tp_size() * int(getattr(self.engine_args, "pipeline_parallel_size", 1) or 1)

    @classmethod
    def launch(cls, engine_args: Any, num_replicas: int = 1) -> AsyncVLLM:
        """Start replicas.

        Args:
            engine_args: a `vllm.AsyncEngineArgs`.
            num_replicas: how many.
        """
        return cls(engine_args, num_replicas)._launch()

    @classmethod
    def from_pretrained(
        cls, model_name: str, num_devices: int | None = None, num_replicas: int = 1, verbose: bool = True,
        compile: bool = True, enable_fp32_output: bool = False, **kwargs: Any,
    ) -> AsyncVLLM:  # fmt: skip
        """Start replicas of a model.

        Args:
            model_name: its name or folder.
            num_devices: GPUs of a replica; one by default.
            num_replicas: how many replicas.
            verbose: log what requests do.
            compile: let vLLM compile the model.
            enable_fp32_output: compute logits in float32.
            **kwargs: of `vllm.AsyncEngineArgs`.
        """
        return make_async_vllm_engine(
            model_name=model_name, num_devices=num_devices, num_replicas=num_replicas, verbose=verbose, compile=compile,
            enable_fp32_output=enable_fp32_output, **kwargs,
        )  # fmt: skip

    def _started(self) -> list[Any]:
        if not self.actors:
            raise RuntimeError("the engine has no actors; AsyncVLLM.launch or from_pretrained starts them.")
        return self.actors

    # --- Requests

    def generate(
        self, prompts: Any = None, sampling_params: Any = None, *,
        prompt_token_ids: list[int] | list[list[int]] | None = None, use_tqdm: bool = True, lora_request: Any = None,
        prompt_adapter_request: Any = None, guided_options_request: Any = None, timeout_seconds: float | None = None,
        actor_index: int | None = None,
    ) -> Any:  # fmt: skip
        """Answer prompts, each by the replica that is chosen for it.

        Args:
            prompts: one or a list: text, or dictionaries with "prompt_token_ids".
            sampling_params: a `vllm.SamplingParams`.
            prompt_token_ids: tokens of one prompt or of several, instead.
            use_tqdm: kept from vLLM.
            lora_request: of vLLM.
            prompt_adapter_request: kept from vLLM, which dropped it.
            guided_options_request: kept from vLLM, which has it in `sampling_params`.
            timeout_seconds: how long to wait.
            actor_index: the replica.

        Returns:
            A `vllm.RequestOutput`, or a list of them in the order of the prompts.

        Raises:
            RuntimeError: the engine was not started.
            ray.exceptions.GetTimeoutError: it took longer.
        """
        actors = self._started()
        many, requests = _requests(prompts, prompt_token_ids)
        pending = []
        for request in requests:
            chosen = self._choose(request) if actor_index is None else actor_index
            pending.append(actors[chosen].generate.remote(request, sampling_params, lora_request))
        found = self._ray.get(pending, timeout=timeout_seconds)
        return found if many else found[0]

    def _choose(self, request: Any) -> int:
        if len(self.actors) == 1:
            return 0
        if self._balancer is None:
            self._balancer = self.create_load_balancer()
        prompt = request.get("prompt_token_ids") if isinstance(request, dict) else request
        return self._balancer.select_actor(prompt)

    def create_load_balancer(
        self, strategy: Strategy | Sequence[Strategy] | None = None, **kwargs: Any
    ) -> LoadBalancer:
        """Choose replicas by other strategies from now on.

        Args:
            strategy: see `LoadBalancer`.
            **kwargs: see `LoadBalancer`.
        """
        self._started()
        self._balancer = LoadBalancer(self, strategy, **kwargs)
        return self._balancer

    def get_random_actor_index(self) -> int:
        """The number of some replica."""
        return random.randrange(len(self._started()))

    def get_num_unfinished_requests(self, actor_index: int | None = None) -> int | list[int]:
        """How many requests run or wait, of one replica or of each."""
        return self._asked("get_num_unfinished_requests", actor_index)  # type: ignore[no-any-return]

    def get_cache_usage(self, actor_index: int | None = None) -> float | list[float]:
        """The share of the cache that is used, of one replica or of each."""
        return self._asked("get_cache_usage", actor_index)  # type: ignore[no-any-return]

    def _asked(self, name: str, at: int | None) -> Any:
        actors = self._started()
        if at is not None:
            return self._ray.get(getattr(actors[at], name).remote())
        return self._ray.get([getattr(actor, name).remote() for actor in actors])

    def collective_rpc(
        self,
        method: str,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> list[Any]:
        """What a method gives in all workers of all replicas."""
        pending = [actor.collective_rpc.remote(method, timeout, args, kwargs) for actor in self._started()]
        return [result for results in self._ray.get(pending) for result in results]

    # --- Weights

    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""
        return int(getattr(self.engine_args, "tensor_parallel_size", 1) or 1)

    def get_model_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The dtypes and shapes of the first worker's weights by their names."""
        return self.collective_rpc("weight_metadata")[0]  # type: ignore[no-any-return]

    def _sending(self) -> WeightSender:
        self._started()
        assert self._sender is not None  # made with the actors
        return self._sender

    def get_master_address(self) -> str:
        """The trainer's host."""
        return self._sending().address

    def get_master_port(self) -> int:
        """The trainer's port."""
        return self._sending().port

    def init_weight_update_group(self) -> None:
        """Join the process group with all workers of all replicas."""
        self._sending().join()

    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Broadcast weights to all replicas, and forget what was computed with the former ones.

        Args:
            weights: names and tensors, on the GPU of the group.
        """
        self._sending().send(weights)
        self.reset_prefix_cache()

    def reset_prefix_cache(self) -> None:
        """Forget what was computed of prompts."""
        self._ray.get([actor.reset_prefix_cache.remote() for actor in self._started()])

    def shutdown(self) -> None:
        """End all replicas."""
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors, self._balancer, self._sender = [], None, None


def _requests(prompts: Any, token_ids: Any) -> tuple[bool, list[Any]]:
    """Whether there are several prompts, and each as vLLM takes it."""
    if (prompts is None) == (token_ids is None):
        raise ValueError("give either prompts or prompt_token_ids.")
    if token_ids is not None:
        many = bool(token_ids) and not isinstance(token_ids[0], int)
        rows = token_ids if many else [token_ids]
        return many, [{"prompt_token_ids": list(row)} for row in rows]
    many = isinstance(prompts, list | tuple)
    return many, list(prompts) if many else [prompts]


def make_async_vllm_engine(
    *, model_name: str, num_devices: int | None = None, num_replicas: int = 1, verbose: bool = True,
    compile: bool = True, enable_fp32_output: bool = False, tensor_parallel_size: int | None = None,
    data_parallel_size: int | None = None, pipeline_parallel_size: int | None = None, **kwargs: Any,
) -> AsyncVLLM:  # fmt: skip
    """Start replicas of a model; see `AsyncVLLM.from_pretrained`.

    Args:
        model_name: its name or folder.
        num_devices: GPUs of a replica, where no parallel size is given.
        num_replicas: how many replicas.
        verbose: log what requests do.
        compile: let vLLM compile the model.
        enable_fp32_output: compute logits in float32.
        tensor_parallel_size: GPUs that share a model's tensors.
        data_parallel_size: of vLLM.
        pipeline_parallel_size: of vLLM.
        **kwargs: of `vllm.AsyncEngineArgs`.

    Raises:
        ImportError: vLLM or Ray is not installed.
        ValueError: both `num_devices` and `tensor_parallel_size`.
    """
    if num_devices is not None and tensor_parallel_size is not None:
        raise ValueError("num_devices is the tensor_parallel_size; give one of them.")
    imported_vllm()
    from vllm import AsyncEngineArgs

    if enable_fp32_output:
        enable_fp32_overrides()
    sizes = {"data_parallel_size": data_parallel_size, "pipeline_parallel_size": pipeline_parallel_size}
    arguments = AsyncEngineArgs(
        model=model_name, tensor_parallel_size=tensor_parallel_size or num_devices or 1, enforce_eager=not compile,
        worker_extension_cls=_EXTENSION, disable_log_stats=not verbose,
        **{name: size for name, size in sizes.items() if size is not None}, **kwargs,
    )  # fmt: skip
    return AsyncVLLM.launch(arguments, num_replicas)
