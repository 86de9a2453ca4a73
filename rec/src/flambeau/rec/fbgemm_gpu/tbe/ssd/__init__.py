"""Embedding tables on disk."""

from __future__ import annotations

from flambeau.rec.fbgemm_gpu.tbe.ssd.common import ASSOC
from flambeau.rec.fbgemm_gpu.tbe.ssd.inference import SSDIntNBitTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.tbe.ssd.inference_serving import TurboSSDInferenceModule
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import (
    BackendType,
    EnrichmentPolicy,
    EnrichmentResponseFormat,
    EnrichmentType,
    EvictionPolicy,
    KVZCHParams,
    KVZCHTBEConfig,
)
from flambeau.rec.fbgemm_gpu.tbe.ssd.training import DramKvPerfStat, SSDTableBatchedEmbeddingBags

__all__ = [
    "ASSOC",
    "BackendType",
    "DramKvPerfStat",
    "EnrichmentPolicy",
    "EnrichmentResponseFormat",
    "EnrichmentType",
    "EvictionPolicy",
    "KVZCHParams",
    "KVZCHTBEConfig",
    "SSDIntNBitTableBatchedEmbeddingBags",
    "SSDTableBatchedEmbeddingBags",
    "TurboSSDInferenceModule",
]
