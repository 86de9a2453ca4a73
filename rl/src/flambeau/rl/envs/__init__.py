"""Environments."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.batched_envs import ParallelEnv as ParallelEnv
    from flambeau.rl.envs.batched_envs import SerialEnv as SerialEnv
    from flambeau.rl.envs.common import EnvBase as EnvBase
    from flambeau.rl.envs.common import EnvMetaData as EnvMetaData
    from flambeau.rl.envs.common import make_tensordict as make_tensordict
    from flambeau.rl.envs.custom.classic_control import AcrobotEnv as AcrobotEnv
    from flambeau.rl.envs.custom.classic_control import CartPoleEnv as CartPoleEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarContinuousEnv as MountainCarContinuousEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarEnv as MountainCarEnv
    from flambeau.rl.envs.custom.pendulum import PendulumEnv as PendulumEnv
    from flambeau.rl.envs.env_creator import EnvCreator as EnvCreator
    from flambeau.rl.envs.env_creator import env_creator as env_creator
    from flambeau.rl.envs.env_creator import get_env_metadata as get_env_metadata
    from flambeau.rl.envs.gym_like import GymLikeEnv as GymLikeEnv
    from flambeau.rl.envs.gym_like import default_info_dict_reader as default_info_dict_reader
    from flambeau.rl.envs.libs.gym import GymEnv as GymEnv
    from flambeau.rl.envs.libs.gym import GymWrapper as GymWrapper
    from flambeau.rl.envs.libs.gym import gym_backend as gym_backend
    from flambeau.rl.envs.libs.gym import register_gym_spec_conversion as register_gym_spec_conversion
    from flambeau.rl.envs.libs.gym import set_gym_backend as set_gym_backend
    from flambeau.rl.envs.utils import ExplorationType as ExplorationType
    from flambeau.rl.envs.utils import MarlGroupMapType as MarlGroupMapType
    from flambeau.rl.envs.utils import check_env_specs as check_env_specs
    from flambeau.rl.envs.utils import check_marl_grouping as check_marl_grouping
    from flambeau.rl.envs.utils import exploration_type as exploration_type
    from flambeau.rl.envs.utils import get_available_libraries as get_available_libraries
    from flambeau.rl.envs.utils import make_composite_from_td as make_composite_from_td
    from flambeau.rl.envs.utils import set_exploration_type as set_exploration_type
    from flambeau.rl.envs.utils import step_mdp as step_mdp
    from flambeau.rl.envs.utils import terminated_or_truncated as terminated_or_truncated

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "batched_envs": ("ParallelEnv", "SerialEnv"),
        "common": ("EnvBase", "EnvMetaData", "make_tensordict"),
        "custom.classic_control": ("AcrobotEnv", "CartPoleEnv", "MountainCarContinuousEnv", "MountainCarEnv"),
        "custom.pendulum": ("PendulumEnv",),
        "env_creator": ("EnvCreator", "env_creator", "get_env_metadata"),
        "gym_like": ("GymLikeEnv", "default_info_dict_reader"),
        "libs.gym": ("GymEnv", "GymWrapper", "gym_backend", "register_gym_spec_conversion", "set_gym_backend"),
        "utils": (
            "ExplorationType",
            "MarlGroupMapType",
            "check_env_specs",
            "check_marl_grouping",
            "exploration_type",
            "get_available_libraries",
            "make_composite_from_td",
            "set_exploration_type",
            "step_mdp",
            "terminated_or_truncated",
        ),
    },
    submodules=("custom", "libs"),
)
