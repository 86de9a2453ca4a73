"""Environments of other libraries, which are imported when one of them is made."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.libs.brax import BraxEnv as BraxEnv
    from flambeau.rl.envs.libs.brax import BraxWrapper as BraxWrapper
    from flambeau.rl.envs.libs.dm_control import DMControlEnv as DMControlEnv
    from flambeau.rl.envs.libs.dm_control import DMControlWrapper as DMControlWrapper
    from flambeau.rl.envs.libs.envpool import MultiThreadedEnv as MultiThreadedEnv
    from flambeau.rl.envs.libs.envpool import MultiThreadedEnvWrapper as MultiThreadedEnvWrapper
    from flambeau.rl.envs.libs.gym import GymEnv as GymEnv
    from flambeau.rl.envs.libs.gym import GymWrapper as GymWrapper
    from flambeau.rl.envs.libs.gym import MOGymEnv as MOGymEnv
    from flambeau.rl.envs.libs.gym import MOGymWrapper as MOGymWrapper
    from flambeau.rl.envs.libs.gym import gym_backend as gym_backend
    from flambeau.rl.envs.libs.gym import register_gym_spec_conversion as register_gym_spec_conversion
    from flambeau.rl.envs.libs.gym import set_gym_backend as set_gym_backend
    from flambeau.rl.envs.libs.jumanji import JumanjiEnv as JumanjiEnv
    from flambeau.rl.envs.libs.jumanji import JumanjiWrapper as JumanjiWrapper
    from flambeau.rl.envs.libs.lbforaging import LBForagingEnv as LBForagingEnv
    from flambeau.rl.envs.libs.lbforaging import LBForagingWrapper as LBForagingWrapper
    from flambeau.rl.envs.libs.meltingpot import MeltingpotEnv as MeltingpotEnv
    from flambeau.rl.envs.libs.meltingpot import MeltingpotWrapper as MeltingpotWrapper
    from flambeau.rl.envs.libs.openml import OpenMLEnv as OpenMLEnv
    from flambeau.rl.envs.libs.openspiel import OpenSpielEnv as OpenSpielEnv
    from flambeau.rl.envs.libs.openspiel import OpenSpielWrapper as OpenSpielWrapper
    from flambeau.rl.envs.libs.pettingzoo import PettingZooEnv as PettingZooEnv
    from flambeau.rl.envs.libs.pettingzoo import PettingZooWrapper as PettingZooWrapper
    from flambeau.rl.envs.libs.procgen import ProcgenEnv as ProcgenEnv
    from flambeau.rl.envs.libs.procgen import ProcgenWrapper as ProcgenWrapper
    from flambeau.rl.envs.libs.safety_gymnasium import SafetyGymnasiumEnv as SafetyGymnasiumEnv
    from flambeau.rl.envs.libs.safety_gymnasium import SafetyGymnasiumWrapper as SafetyGymnasiumWrapper
    from flambeau.rl.envs.libs.smacv2 import SMACv2Env as SMACv2Env
    from flambeau.rl.envs.libs.smacv2 import SMACv2Wrapper as SMACv2Wrapper
    from flambeau.rl.envs.libs.vmas import VmasEnv as VmasEnv
    from flambeau.rl.envs.libs.vmas import VmasWrapper as VmasWrapper

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "brax": ("BraxEnv", "BraxWrapper"),
        "dm_control": ("DMControlEnv", "DMControlWrapper"),
        "envpool": ("MultiThreadedEnv", "MultiThreadedEnvWrapper"),
        "gym": (
            "GymEnv",
            "GymWrapper",
            "MOGymEnv",
            "MOGymWrapper",
            "gym_backend",
            "register_gym_spec_conversion",
            "set_gym_backend",
        ),
        "jumanji": ("JumanjiEnv", "JumanjiWrapper"),
        "lbforaging": ("LBForagingEnv", "LBForagingWrapper"),
        "meltingpot": ("MeltingpotEnv", "MeltingpotWrapper"),
        "openml": ("OpenMLEnv",),
        "procgen": ("ProcgenEnv", "ProcgenWrapper"),
        "safety_gymnasium": ("SafetyGymnasiumEnv", "SafetyGymnasiumWrapper"),
        "smacv2": ("SMACv2Env", "SMACv2Wrapper"),
        "openspiel": ("OpenSpielEnv", "OpenSpielWrapper"),
        "pettingzoo": ("PettingZooEnv", "PettingZooWrapper"),
        "vmas": ("VmasEnv", "VmasWrapper"),
    },
)
