"""Tables of kernels in smaller elements while nobody looks them up, so that others can have the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import dequantize_embs, quantize_embs
from flambeau.rec.modules.embedding_configs import data_type_to_sparse_type
from flambeau.rec.types import DataType

__all__ = ["EmbeddingQuantizationUtils"]

_KINDS = (DataType.FP32, DataType.FP16, DataType.BF16, DataType.INT8, DataType.INT4, DataType.INT2)
_MEMORIES = ("weights_host", "weights_dev", "weights_uvm")


@dataclass
class _Packed:
    """Of one kernel: its tables, how large its memories were, and what refuses look-ups meanwhile."""

    kind: SparseType
    tables: list[tuple[Tensor, Tensor | None]]
    sizes: dict[str, int]
    refusing: Any


class EmbeddingQuantizationUtils:
    """Puts the tables of a model's fused kernels into smaller elements, and back.

    Meanwhile their own memory is free, and look-ups are refused. What comes back is rounded to the smaller elements.
    """

    def __init__(self) -> None:
        self._packed: dict[nn.Module, _Packed] = {}

    @torch.no_grad()
    def quantize_embedding_modules(
        self, module: nn.Module, converted_dtype: DataType, use_cpu_turnaround_optimization: bool = False
    ) -> None:
        """Put tables into smaller elements, and free their memory.

        Args:
            module: a model; the fused kernels below it whose tables are in memory are changed.
            converted_dtype: FP32, FP16, BF16, INT8, INT4 or INT2.
            use_cpu_turnaround_optimization: whether the smaller tables are kept by the host.

        Raises:
            ValueError: other elements, or tables that were put into smaller ones before.
        """
        if converted_dtype not in _KINDS:
            raise OptionError(f"converted_dtype is {converted_dtype}, expected FP32, FP16, BF16, INT8, INT4 or INT2.")
        kind = data_type_to_sparse_type(converted_dtype)
        for kernel in _kernels(module):
            if kernel in self._packed:
                raise OptionError(
                    f"tables are in elements of {self._packed[kernel].kind} already; call `recreate_embedding_modules` "
                    "first."
                )
            # Of elements that a table has already it gives the table's own memory, which is let go of below.
            tables = [quantize_embs(table.clone(), kind) for table in kernel.split_embedding_weights()]
            if use_cpu_turnaround_optimization:
                tables = [(codes.cpu(), None if more is None else more.cpu()) for codes, more in tables]
            sizes = {}
            for name in _MEMORIES:
                storage = getattr(kernel, name).untyped_storage()
                sizes[name] = storage.nbytes()
                storage.resize_(0)
            self._packed[kernel] = _Packed(kind, tables, sizes, kernel.register_forward_pre_hook(_refuse))

    @torch.no_grad()
    def recreate_embedding_modules(self, module: nn.Module, use_cpu_turnaround_optimization: bool = False) -> None:
        """Give tables their memory and their elements back.

        Args:
            module: a model whose tables `quantize_embedding_modules` put into smaller elements; others are left alone.
            use_cpu_turnaround_optimization: whether numbers are made by the host.
        """
        for kernel in _kernels(module):
            packed = self._packed.pop(kernel, None)
            if packed is None:
                continue
            for name, size in packed.sizes.items():
                getattr(kernel, name).untyped_storage().resize_(size)
            for table, (codes, more) in zip(kernel.split_embedding_weights(), packed.tables, strict=True):
                if not use_cpu_turnaround_optimization:
                    codes, more = codes.to(table.device), None if more is None else more.to(table.device)
                numbers = dequantize_embs(codes, more, packed.kind, use_cpu=not codes.is_cuda)
                table.copy_(numbers[:, : table.shape[1]])
            packed.refusing.remove()


def _kernels(module: nn.Module) -> list[Any]:
    """Fused kernels below a module, each once; those of sharded collections are none of their children."""
    found: dict[nn.Module, None] = {}
    for below in module.modules():
        for root in (below, *(getattr(below, "_lookups", None) or ())):
            found |= dict.fromkeys(
                below for below in root.modules() if isinstance(below, SplitTableBatchedEmbeddingBagsCodegen)
            )
    return list(found)


def _refuse(*_: Any) -> None:
    raise OptionError(
        "tables are in smaller elements and have no memory of their own; call `recreate_embedding_modules` first."
    )
