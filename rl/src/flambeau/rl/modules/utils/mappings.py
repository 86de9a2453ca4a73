"""Mappings to positive numbers."""

from __future__ import annotations

from flambeau.data.tensordict.nn.utils import biased_softplus as biased_softplus
from flambeau.data.tensordict.nn.utils import expln as expln
from flambeau.data.tensordict.nn.utils import inv_softplus as inv_softplus
from flambeau.data.tensordict.nn.utils import mappings as mappings

__all__ = ["biased_softplus", "expln", "inv_softplus", "mappings"]
