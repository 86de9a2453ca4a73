"""What embeddings become on their way between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

__all__ = ["CommOp", "NoOpQuantizedCommCodec", "QuantizationContext", "QuantizedCommCodec", "QuantizedCommCodecs"]

QuantizationContext = TypeVar("QuantizationContext")


class CommOp(Enum):
    """Exchanges of embeddings whose content can be encoded; the keys of registries of codecs."""

    POOLED_EMBEDDINGS_ALL_TO_ALL = "pooled_embeddings_all_to_all"
    POOLED_EMBEDDINGS_REDUCE_SCATTER = "pooled_embeddings_reduce_scatter"
    SEQUENCE_EMBEDDINGS_ALL_TO_ALL = "sequence_embeddings_all_to_all"


@runtime_checkable
class QuantizedCommCodec(Protocol[QuantizationContext]):
    """Makes embeddings smaller before they are sent, and large again when they arrive."""

    def encode(self, input_tensor: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """What is sent for a tensor."""
        ...

    def decode(self, input_grad: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """The tensor for which this was sent."""
        ...

    def quantized_dtype(self) -> torch.dtype:
        """The element type of what is sent."""
        ...

    def calc_quantized_size(self, input_len: int, ctx: QuantizationContext | None = None) -> int:
        """How many elements are sent for so many."""
        ...

    def create_context(self) -> QuantizationContext | None:
        """What the calls for one exchange share, or None."""
        ...

    def padded_size(
        self, input_tensor: Tensor, dim_per_rank: list[int], my_rank: int, qcomm_ctx: QuantizationContext
    ) -> tuple[int, int]:
        """Columns of the tensor when each process's part is filled up, and how many of them were added."""
        ...


class NoOpQuantizedCommCodec(Generic[QuantizationContext]):
    """Sends tensors as they are; `quantized_dtype` is float32, though no conversion takes place."""

    def encode(self, input_tensor: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """The tensor itself."""
        return input_tensor

    def decode(self, input_grad: Tensor, ctx: QuantizationContext | None = None) -> Tensor:
        """The tensor itself."""
        return input_grad

    def quantized_dtype(self) -> torch.dtype:
        """float32."""
        return torch.float32

    def calc_quantized_size(self, input_len: int, ctx: QuantizationContext | None = None) -> int:
        """As many as there are."""
        return input_len

    def create_context(self) -> QuantizationContext | None:
        """Nothing."""
        return None

    def padded_size(
        self, input_tensor: Tensor, dim_per_rank: list[int], my_rank: int, qcomm_ctx: QuantizationContext
    ) -> tuple[int, int]:
        """Columns of the process's part, none of them added."""
        return dim_per_rank[my_rank], 0


@dataclass
class QuantizedCommCodecs:
    """Codecs of an exchange: of what is sent forward, and of its gradient."""

    forward: QuantizedCommCodec = field(default_factory=NoOpQuantizedCommCodec)  # type: ignore[type-arg]
    backward: QuantizedCommCodec = field(default_factory=NoOpQuantizedCommCodec)  # type: ignore[type-arg]
