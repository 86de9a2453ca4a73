"""The classes of tensordicts that are pytree nodes, under upstream's path."""

from __future__ import annotations

from flambeau.data.tensordict._lazy import LazyStackedTensorDict
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict._views.sub import _SubTensorDict
from flambeau.data.tensordict.persistent import PersistentTensorDict

PYTREE_REGISTERED_TDS: tuple[type, ...] = (_SubTensorDict, TensorDict, PersistentTensorDict)
PYTREE_REGISTERED_LAZY_TDS: tuple[type, ...] = (LazyStackedTensorDict,)
