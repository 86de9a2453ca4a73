"""Which formats embeddings and their gradients are sent in, and the codecs for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import Enum, unique

import torch

from flambeau.rec.distributed.types import CommOp, QuantizedCommCodecs
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.quantize_comm import QuantizedCommCodec
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.triton.common import RoundingMode

__all__ = [
    "CommType",
    "QCommsConfig",
    "comm_type_to_sparse_type",
    "get_qcomm_codecs",
    "get_qcomm_codecs_registry",
]

logger = logging.getLogger("flambeau.rec.quantize")


@unique
class CommType(Enum):
    """Formats that numbers are sent in."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    MX4 = "mx4"

    def __str__(self) -> str:
        return self.value


_SPARSE_TYPES = {kind: SparseType(kind.value) for kind in CommType}


def comm_type_to_sparse_type(comm_type: CommType) -> SparseType:
    """The element type of a format."""
    return _SPARSE_TYPES[comm_type]


@dataclass
class QCommsConfig:
    """How embeddings are sent forward, and their gradients backward.

    Args:
        forward_precision: the format of embeddings.
        backward_precision: the format of gradients.
        forward_loss_scale: a factor for embeddings while they are FP16 or BF16.
        backward_loss_scale: the same for gradients.
        fp8_quantize_dim: embeddings' numbers that share a scale, where they are FP8.
        fp8_quantize_dim_bwd: gradients'; `fp8_quantize_dim` by default.
        fp8_bwd_uses_143: whether gradients have a significand of three bits instead of two.
        fp8_output_dtype: the older name of `output_dtype`.
        mx4_quantize_dim: embeddings' numbers that share a power of two, where they are MX4; 32 by default.
        mx4_quantize_dim_bwd: gradients'; `mx4_quantize_dim` by default.
        mx4_rounding_mode: of the power of two.
        output_dtype: what scaled FP8 and MX4 are decoded to; FP32 by default.
    """

    forward_precision: CommType = CommType.FP32
    backward_precision: CommType = CommType.FP32
    forward_loss_scale: float | None = None
    backward_loss_scale: float | None = None
    fp8_quantize_dim: int | None = None
    fp8_quantize_dim_bwd: int | None = None
    fp8_bwd_uses_143: bool | None = False
    fp8_output_dtype: SparseType | None = None
    mx4_quantize_dim: int | None = None
    mx4_quantize_dim_bwd: int | None = None
    mx4_rounding_mode: RoundingMode | None = None
    output_dtype: SparseType | None = None

    def __post_init__(self) -> None:
        fp8, mx4 = (self.backward_precision is kind for kind in (CommType.FP8, CommType.MX4))
        self.fp8_quantize_dim_bwd = (self.fp8_quantize_dim_bwd or self.fp8_quantize_dim) if fp8 else None
        if mx4:
            self.mx4_quantize_dim_bwd = self.mx4_quantize_dim_bwd or self.mx4_quantize_dim
        elif self.forward_precision is not CommType.MX4:
            self.mx4_quantize_dim_bwd = None


def _codec(config: QCommsConfig, *, forward: bool) -> QuantizedCommCodec:
    precision = config.forward_precision if forward else config.backward_precision
    row_dim = {
        CommType.FP8: config.fp8_quantize_dim if forward else config.fp8_quantize_dim_bwd,
        CommType.MX4: config.mx4_quantize_dim if forward else config.mx4_quantize_dim_bwd,
    }.get(precision)
    return QuantizedCommCodec(
        comm_type_to_sparse_type(precision),
        config.forward_loss_scale if forward else config.backward_loss_scale,
        row_dim,
        is_fwd=forward or bool(config.fp8_bwd_uses_143),
        rounding_mode=config.mx4_rounding_mode if precision is CommType.MX4 else None,
        output_dtype=config.fp8_output_dtype if config.output_dtype is None else config.output_dtype,
    )


def get_qcomm_codecs(qcomms_config: QCommsConfig | None) -> QuantizedCommCodecs:
    """Codecs of one exchange.

    Args:
        qcomms_config: the formats; None sends tensors as they are.

    Returns:
        Codecs for what is sent forward and backward.
    """
    codecs = QuantizedCommCodecs()
    if qcomms_config is not None:
        codecs.forward = _codec(qcomms_config, forward=True)  # type: ignore[assignment]
        codecs.backward = _codec(qcomms_config, forward=False)  # type: ignore[assignment]
    return codecs


def get_qcomm_codecs_registry(
    qcomms_config: QCommsConfig, comm_ops: list[CommOp] | None = None, device: torch.device | None = None
) -> dict[str, QuantizedCommCodecs] | None:
    """Codecs of several exchanges.

    Args:
        qcomms_config: the formats.
        comm_ops: the exchanges; all where None.
        device: what sends. On the CPU float16 takes the place of bfloat16, which gloo does not send.

    Returns:
        Codecs by the name of the exchange; None where all is sent as float32.

    Raises:
        OptionError: something else than exchanges.
    """
    if qcomms_config.forward_precision is CommType.FP32 and qcomms_config.backward_precision is CommType.FP32:
        return None
    chosen: list[object] = [*(CommOp if comm_ops is None else comm_ops)]
    if strangers := [one for one in chosen if not isinstance(one, CommOp)]:
        raise OptionError(f"comm_ops has {strangers}, expected members of CommOp.")
    if device is not None and device.type == "cpu":
        for name in ("forward_precision", "backward_precision"):
            if getattr(qcomms_config, name) is CommType.BF16:
                logger.warning("%s is BF16, which is sent as FP16 between CPUs.", name)
                qcomms_config = replace(qcomms_config, **{name: CommType.FP16})  # type: ignore[arg-type]
    return {one.name: get_qcomm_codecs(qcomms_config) for one in chosen if isinstance(one, CommOp)}
