"""Layers that explore."""

from __future__ import annotations

from flambeau.rl.modules.models._consistent_dropout import ConsistentDropout as ConsistentDropout
from flambeau.rl.modules.models._consistent_dropout import ConsistentDropoutModule as ConsistentDropoutModule
from flambeau.rl.modules.models._gsde import LazygSDEModule as LazygSDEModule
from flambeau.rl.modules.models._gsde import gSDEModule as gSDEModule
from flambeau.rl.modules.models._noisy import NoisyLazyLinear as NoisyLazyLinear
from flambeau.rl.modules.models._noisy import NoisyLinear as NoisyLinear
from flambeau.rl.modules.models._noisy import reset_noise as reset_noise

__all__ = [
    "ConsistentDropout",
    "ConsistentDropoutModule",
    "LazygSDEModule",
    "NoisyLazyLinear",
    "NoisyLinear",
    "gSDEModule",
    "reset_noise",
]
