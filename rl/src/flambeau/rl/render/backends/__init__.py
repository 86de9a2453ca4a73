"""Where frames are from."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.render.backends.base import RenderBackend as RenderBackend
    from flambeau.rl.render.backends.env import EnvRenderBackend as EnvRenderBackend
    from flambeau.rl.render.backends.mujoco import MujocoStateReader as MujocoStateReader
    from flambeau.rl.render.backends.null import NullRenderBackend as NullRenderBackend
    from flambeau.rl.render.backends.pixels import TensorDictPixelsBackend as TensorDictPixelsBackend

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "base": ("RenderBackend",),
        "env": ("EnvRenderBackend",),
        "mujoco": ("MujocoStateReader",),
        "null": ("NullRenderBackend",),
        "pixels": ("TensorDictPixelsBackend",),
    },
)
