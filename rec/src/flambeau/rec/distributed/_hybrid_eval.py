"""Models for evaluation whose tables stay on the host while the rest goes to an accelerator."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.distributed._data_parallel import get_module
from flambeau.rec.distributed._model_parallel import DistributedModelParallel
from flambeau.rec.distributed.types import ShardedModule, ShardingType
from flambeau.rec.errors import OptionError

__all__ = ["HybridEvalDMP"]


class HybridEvalDMP(DistributedModelParallel):
    """A model that computes outputs only: tables stay where they are when `to` moves the rest.

    Args:
        module: the model.
        init_data_parallel: whether gradients of the rest are averaged.
        kwargs: further arguments of `DistributedModelParallel`.
    """

    def __init__(self, module: nn.Module, *, init_data_parallel: bool = False, **kwargs: Any) -> None:
        super().__init__(module, init_data_parallel=init_data_parallel, **kwargs)
        self.eval()

    def to(self, *args: Any, **kwargs: Any) -> HybridEvalDMP:
        """Move, or convert, all that is not in sharded modules; takes what `torch.nn.Module.to` takes."""
        parsed: Any = torch._C._nn._parse_to(*args, **kwargs)
        device, dtype, non_blocking, layout = parsed
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise OptionError(f"dtype is {dtype}; expected one of floating point.")

        def converted(tensor: Tensor) -> Tensor:
            kind = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options: dict[str, Any] = {} if layout is None or tensor.dim() not in (4, 5) else {"memory_format": layout}
            result: Tensor = tensor.to(device, kind, non_blocking, **options)
            return result

        def visit(module: nn.Module) -> None:
            if isinstance(module, ShardedModule):
                return
            for child in module.children():
                visit(child)
            module._apply(converted, recurse=False)

        visit(self)
        return self

    def share_embedding_memory(self, pg: dist.ProcessGroup) -> None:
        """Keep tables that every process has once on each host, in memory that its processes share.

        Tables on the host that are data parallel are; the content is that of the group's first process.

        Args:
            pg: the processes of this host, all of which call this.

        Raises:
            OptionError: processes have tables of different sizes.
        """
        if dist.get_world_size(pg) == 1:
            return
        for number, (storage, tensors) in enumerate(self._storages()):
            sizes: list[Any] = [None] * dist.get_world_size(pg)
            dist.all_gather_object(sizes, storage.nbytes(), group=pg)
            if len(set(sizes)) > 1:
                raise OptionError(f"memory {number} of tables has {sizes} bytes on the processes; expected one size.")
            shared = _shared(storage, pg)
            for tensor in tensors:
                moved = torch.empty(0, dtype=tensor.dtype)
                moved.set_(shared.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
                tensor.data = moved

    def _storages(self) -> list[tuple[Any, list[Tensor]]]:
        """Memory of data-parallel tables on the host, with all tensors in it."""
        found: dict[int, tuple[Any, list[Tensor]]] = {}
        for module in get_module(self).modules():
            if not isinstance(module, ShardedModule):
                continue
            for kind, lookup in zip(getattr(module, "_sharding_types", []), module._lookups, strict=False):
                if kind != ShardingType.DATA_PARALLEL.value:
                    continue
                for param in lookup.parameters():
                    if param.device.type == "cpu" and param.untyped_storage().nbytes():
                        storage = param.untyped_storage()
                        found.setdefault(storage.data_ptr(), (storage, []))[1].append(param)
            for param in module.parameters():
                place = found.get(param.untyped_storage().data_ptr())
                if place is not None and not any(param is one for one in place[1]):
                    place[1].append(param)
        return list(found.values())


def _shared(storage: Any, pg: dist.ProcessGroup) -> Tensor:
    """The memory's content in memory that processes share; that of the first one."""
    first = dist.get_rank(pg) == 0
    name = [""]
    if first:
        root = "/dev/shm" if Path("/dev/shm").is_dir() else None
        handle, name[0] = tempfile.mkstemp(prefix="flambeau_tables_", dir=root)
        os.ftruncate(handle, storage.nbytes())
        os.close(handle)
    dist.broadcast_object_list(name, group=pg, group_src=0)
    shared = torch.from_file(name[0], shared=True, size=storage.nbytes(), dtype=torch.uint8)
    if first:
        shared.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    dist.barrier(group=pg)
    if first:
        # The memory stays until the last process has let go of it.
        Path(name[0]).unlink()
    return shared
