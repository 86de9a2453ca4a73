"""Weights for workers of vLLM, by a group of `torch.distributed`."""

from __future__ import annotations

import importlib
import socket
from typing import Any

import torch
from torch import Size

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors.llm.weight_update.vllm_v2 import Metadata, _weights, vLLMUpdaterV2
from flambeau.rl.collectors.weight_update import WeightUpdaterBase

__all__ = ["vLLMUpdater", "vLLMUpdaterMeta"]


class vLLMUpdaterMeta(type(WeightUpdaterBase)):  # type: ignore[misc]  # upstream's name
    """Makes a `vLLMUpdaterV2` where `v2=True` asks for it."""

    def __call__(cls, *args: Any, v2: bool = False, **kwargs: Any) -> Any:
        """An updater of the one kind or the other."""
        return vLLMUpdaterV2(*args, **kwargs) if v2 else super().__call__(*args, **kwargs)


class vLLMUpdater(WeightUpdaterBase, metaclass=vLLMUpdaterMeta):  # upstream's name
    """Broadcasts weights to the workers of a model of vLLM, in this process or in an actor of Ray.

    This process has the rank 0 in a group with the workers. The model's `collective_rpc` lets them join it, by
    `init_weight_update_group`, and take each weight, by `update_weight`; a worker class with these methods is given to
    vLLM as `worker_extension_cls`.

    Args:
        master_address: of this process; default: localhost.
        master_port: a free port; default: any.
        model_metadata: name -> dtype and shape of the weights; default: of the policy's, at the first use.
        vllm_tp_size: over how many devices vLLM has each weight; default: 1.

    Raises:
        ImportError: vLLM is not installed, when it is used.
    """

    def __init__(
        self,
        master_address: str | None = None,
        master_port: int | None = None,
        model_metadata: Metadata | None = None,
        vllm_tp_size: int | None = None,
    ) -> None:
        super().__init__()
        self._address, self._port = master_address, master_port
        self.model_metadata = model_metadata
        self.vllm_tp_size = 1 if vllm_tp_size is None else vllm_tp_size
        self.initialized_group: Any = None

    @property
    def master_address(self) -> str:
        """Where the group meets."""
        return "localhost" if self._address is None else self._address

    @property
    def master_port(self) -> int:
        """A port there."""
        if self._port is None:
            with socket.socket() as free:
                free.bind(("", 0))
                self._port = int(free.getsockname()[1])
        return self._port

    @classmethod
    def get_model_metadata(cls, model: Any) -> dict[str, tuple[torch.dtype, Size]]:
        """Name -> dtype and shape of a model's weights.

        Args:
            model: a policy of a language model.
        """
        return vLLMUpdaterV2.get_model_metadata(model)

    def init(self, model_metadata: Metadata) -> None:
        """Say which weights will come, and join the group.

        Args:
            model_metadata: name -> dtype and shape.
        """
        self.model_metadata = model_metadata
        self.maybe_init_group()

    def _engine(self) -> Any:
        if self.collector is None:
            raise RuntimeError("A vLLMUpdater brings weights to the model of a collector: give it to one.")
        return self.collector.get_policy_model()

    def maybe_init_group(self) -> None:
        """Join the group of the workers, unless that is done.

        Raises:
            RuntimeError: there is no collector.
            ImportError: vLLM is not installed.
        """
        if self.initialized_group is not None:
            return
        engine = self._engine()
        try:
            utils = importlib.import_module("vllm.distributed.utils")
            communicator = importlib.import_module("vllm.distributed.device_communicators.pynccl").PyNcclCommunicator
        except ImportError as error:
            raise ImportError(
                "vLLMUpdater brings weights to vLLM, which is not installed; pip install vllm."
            ) from error
        size = self.vllm_tp_size + 1
        joined = _remote_call(
            engine, "init_weight_update_group", (self.master_address, self.master_port, 1, size), False
        )
        group = utils.StatelessProcessGroup.create(
            host=self.master_address, port=self.master_port, rank=0, world_size=size
        )
        self.initialized_group = communicator(group, device=torch.device("cuda:0"))
        _wait(joined)

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        if self.model_metadata is None:
            self.model_metadata = {name: (value.dtype, value.shape) for name, value in _weights(server_weights)}
        self.maybe_init_group()
        engine, weights = self._engine(), dict(_weights(server_weights))
        missing = sorted(set(self.model_metadata) - set(weights))
        if missing:
            raise ValueError(f"The weights {missing[:5]} are missing, of those that were announced.")
        for name, (dtype, shape) in self.model_metadata.items():
            taken = _remote_call(engine, "update_weight", (name, dtype, shape), False)
            self.initialized_group.broadcast(weights[name].to(torch.device("cuda:0"), dtype), src=0)
            _wait(taken)
        _wait(_remote_call(engine, "reset_prefix_cache", (), True))

    def _get_server_weights(self) -> TensorDictBase:
        raise ValueError("vLLMUpdater finds no weights by itself; give a model, or weights.")

    def all_worker_ids(self) -> list[int]:
        """One: the model."""
        return [0]

    def register_collector(self, collector: Any) -> None:
        """Serve a collector, whose version of the policy counts on with each update.

        Args:
            collector: it.
        """
        super().register_collector(collector)
        self.register_post_hook(self.increment_version)


def _remote_call(engine: Any, method: str, args: tuple[Any, ...], of_engine: bool) -> Any:
    """Call a method of the engine, or of all of its workers; in an actor of Ray the call is begun."""
    name, given = (method, args) if of_engine else ("collective_rpc", (method,))
    options: dict[str, Any] = {} if of_engine else {"args": args}
    called = getattr(engine, name)
    return called.remote(*given, **options) if hasattr(called, "remote") else called(*given, **options)


def _wait(call: Any) -> None:
    if type(call).__name__ == "ObjectRef":
        import ray

        ray.get(call)
