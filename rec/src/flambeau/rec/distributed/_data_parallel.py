"""Wrappers of models, and what averages gradients of the parameters that every process has."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flambeau.rec.distributed.types import ShardedModule, ShardingEnv
from flambeau.rec.distributed.utils import append_prefix
from flambeau.rec.errors import OptionError

if TYPE_CHECKING:
    from flambeau.rec.distributed._model_parallel import DistributedModelParallel

__all__ = [
    "DataParallelWrapper",
    "DefaultDataParallelWrapper",
    "get_module",
    "get_unwrapped_module",
    "with_own_buffers",
]


def get_module(module: nn.Module) -> nn.Module:
    """The module in wrappers of data parallelism and compilation."""
    while True:
        inside = getattr(module, "_dmp_wrapped_module", None)
        if inside is None:
            inside = module.module if isinstance(module, DistributedDataParallel) else None
        if inside is None:
            return module
        module = inside


def get_unwrapped_module(module: nn.Module) -> nn.Module:
    """The module in all wrappers that have it as `module`, or as `_orig_mod`."""
    while True:
        inside = getattr(module, "_dmp_wrapped_module", None)
        if inside is None:
            inside = (
                module.module if isinstance(module, DistributedDataParallel) else getattr(module, "_orig_mod", None)
            )
        if inside is None:
            return module
        module = inside


# ----- parameters that every process has ------------------------------------------------------------------------------


class DataParallelWrapper(abc.ABC):
    """Has gradients of parameters that every process has averaged."""

    @abc.abstractmethod
    def wrap(self, dmp: DistributedModelParallel, env: ShardingEnv, device: torch.device) -> None:
        """Wrap the model in `dmp`, once its tables are spread.

        Args:
            dmp: the model.
            env: the processes.
            device: of this one.
        """


class DefaultDataParallelWrapper(DataParallelWrapper):
    """Wraps models in `torch.nn.parallel.DistributedDataParallel`.

    Args:
        bucket_cap_mb: of gradients that are averaged together.
        static_graph: whether the same parameters take part in each step.
        find_unused_parameters: whether some do not take part in some steps.
        allreduce_comm_precision: "fp16" or "bf16": gradients are sent as such.
        params_to_ignore: further parameters to leave alone.
        ddp_kwargs: further options.
    """

    def __init__(
        self,
        bucket_cap_mb: int = 25,
        static_graph: bool = True,
        find_unused_parameters: bool = False,
        allreduce_comm_precision: str | None = None,
        params_to_ignore: list[str] | None = None,
        ddp_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if allreduce_comm_precision not in (None, "fp16", "bf16"):
            raise OptionError(f"allreduce_comm_precision is {allreduce_comm_precision!r}; expected 'fp16' or 'bf16'.")
        self._bucket_cap_mb, self._static_graph = bucket_cap_mb, static_graph
        self._find_unused_parameters = find_unused_parameters
        self._precision, self._params_to_ignore = allreduce_comm_precision, list(params_to_ignore or [])
        self._ddp_kwargs = dict(ddp_kwargs or {})

    def wrap(self, dmp: DistributedModelParallel, env: ShardingEnv, device: torch.device) -> None:
        """Wrap the model in `dmp`; one without parameters to average is left as it is."""
        inside = dmp._dmp_wrapped_module
        pg = env.process_group
        if isinstance(inside, DistributedDataParallel) or pg is None:
            raise OptionError("the model is wrapped already." if pg is not None else "there is no process group.")
        sharded = set(_sharded_names(inside)) | set(self._params_to_ignore)
        if not any(param.requires_grad and name not in sharded for name, param in inside.named_parameters()):
            return
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(inside, list(sharded))
        dmp._dmp_wrapped_module = with_own_buffers(
            inside.to(device),
            device_ids=[device] if device.type == "cuda" else None,
            process_group=pg,
            gradient_as_bucket_view=True,
            static_graph=self._static_graph,
            find_unused_parameters=self._find_unused_parameters,
            bucket_cap_mb=self._bucket_cap_mb,
            **self._ddp_kwargs,
        )
        if self._precision is not None:
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            hook = default_hooks.fp16_compress_hook if self._precision == "fp16" else default_hooks.bf16_compress_hook
            dmp._dmp_wrapped_module.register_comm_hook(None, hook)


def with_own_buffers(module: nn.Module, **options: Any) -> DistributedDataParallel:
    """A module whose gradients are averaged, and whose buffers are each process's own from the beginning.

    Args:
        module: on its device.
        options: of `DistributedDataParallel`, without `broadcast_buffers`.
    """
    with warnings.catch_warnings():
        # torch 2.13 gives this option up for another, which would send the first process's buffers to begin with.
        warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
        return DistributedDataParallel(module, broadcast_buffers=False, **options)


def _sharded_names(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """Names of parameters, and of buffers beside them, that are not the same on all processes."""
    if isinstance(module, ShardedModule):
        yield from module.sharded_parameter_names(prefix)
        for name, _ in module.named_buffers():
            yield append_prefix(prefix, name)
        return
    for name, child in module.named_children():
        yield from _sharded_names(child, append_prefix(prefix, name))
