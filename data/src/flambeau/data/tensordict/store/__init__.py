"""Tensordicts on key-value servers that speak Redis's protocol: Redis, Valkey, Dragonfly, KeyDB."""

from __future__ import annotations

from flambeau.data.tensordict.store._connection import STORE_BACKENDS
from flambeau.data.tensordict.store._lazy_store import LazyStackedTensorDictStore
from flambeau.data.tensordict.store._store import TensorDictStore

__all__ = ["STORE_BACKENDS", "LazyStackedTensorDictStore", "TensorDictStore"]
