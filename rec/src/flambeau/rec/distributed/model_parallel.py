"""Models whose tables of embeddings are spread over processes, and whose other parameters every process has."""

from __future__ import annotations

from flambeau.rec.distributed._data_parallel import (
    DataParallelWrapper,
    DefaultDataParallelWrapper,
    get_module,
    get_unwrapped_module,
)
from flambeau.rec.distributed._hybrid_eval import HybridEvalDMP
from flambeau.rec.distributed._model_parallel import DistributedModelParallel, get_default_sharders
from flambeau.rec.distributed._two_dimensional import DMPCollection

__all__ = [
    "DMPCollection",
    "DataParallelWrapper",
    "DefaultDataParallelWrapper",
    "DistributedModelParallel",
    "HybridEvalDMP",
    "get_default_sharders",
    "get_module",
    "get_unwrapped_module",
]
