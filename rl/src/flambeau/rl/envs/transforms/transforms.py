"""All transforms, and what those who write transforms need."""

from __future__ import annotations

from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.environment import AutoResetEnv, TransformedEnv
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite as _apply_to_composite
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite_inv as _apply_to_composite_inv
from flambeau.rl.envs.transforms._base.transform import ObservationTransform, Transform
from flambeau.rl.envs.transforms._base.transform import _CallableTransform as _CallableTransform

__all__ = ["AutoResetEnv", "Compose", "ObservationTransform", "Transform", "TransformedEnv"]
