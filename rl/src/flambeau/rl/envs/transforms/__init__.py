"""Transforms of what environments and replay buffers take and give."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.transforms._base.compose import Compose as Compose
    from flambeau.rl.envs.transforms._base.environment import AutoResetEnv as AutoResetEnv
    from flambeau.rl.envs.transforms._base.environment import TransformedEnv as TransformedEnv
    from flambeau.rl.envs.transforms._base.transform import ObservationTransform as ObservationTransform
    from flambeau.rl.envs.transforms._base.transform import Transform as Transform

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_base.compose": ("Compose",),
        "_base.environment": ("AutoResetEnv", "TransformedEnv"),
        "_base.transform": ("ObservationTransform", "Transform"),
    },
    submodules=("transforms",),
)
