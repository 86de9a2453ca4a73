"""Environments made of models, to plan and to imagine with."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.model_based.common import ModelBasedEnvBase as ModelBasedEnvBase
    from flambeau.rl.envs.model_based.dreamer import DreamerDecoder as DreamerDecoder
    from flambeau.rl.envs.model_based.dreamer import DreamerEnv as DreamerEnv
    from flambeau.rl.envs.model_based.imagined import ImaginedEnv as ImaginedEnv
    from flambeau.rl.envs.model_based.world_model_env import WorldModelEnv as WorldModelEnv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "common": ("ModelBasedEnvBase",),
        "dreamer": ("DreamerDecoder", "DreamerEnv"),
        "imagined": ("ImaginedEnv",),
        "world_model_env": ("WorldModelEnv",),
    },
)
