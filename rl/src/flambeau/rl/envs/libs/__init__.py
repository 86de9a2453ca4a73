"""Environments of other libraries, which are imported when one of them is made."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.libs.gym import GymEnv as GymEnv
    from flambeau.rl.envs.libs.gym import GymWrapper as GymWrapper
    from flambeau.rl.envs.libs.gym import gym_backend as gym_backend
    from flambeau.rl.envs.libs.gym import register_gym_spec_conversion as register_gym_spec_conversion
    from flambeau.rl.envs.libs.gym import set_gym_backend as set_gym_backend

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"gym": ("GymEnv", "GymWrapper", "gym_backend", "register_gym_spec_conversion", "set_gym_backend")},
)
