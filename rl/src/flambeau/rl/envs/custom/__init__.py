"""Environments that are written here: in torch alone, and on models of MuJoCo."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.custom.chess import ChessEnv as ChessEnv
    from flambeau.rl.envs.custom.classic_control import AcrobotEnv as AcrobotEnv
    from flambeau.rl.envs.custom.classic_control import CartPoleEnv as CartPoleEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarContinuousEnv as MountainCarContinuousEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarEnv as MountainCarEnv
    from flambeau.rl.envs.custom.gym_pendulum import GymPendulumEnv as GymPendulumEnv
    from flambeau.rl.envs.custom.llm import LLMHashingEnv as LLMHashingEnv
    from flambeau.rl.envs.custom.mujoco import AntEnv as AntEnv
    from flambeau.rl.envs.custom.mujoco import HopperEnv as HopperEnv
    from flambeau.rl.envs.custom.mujoco import HumanoidEnv as HumanoidEnv
    from flambeau.rl.envs.custom.mujoco import HumanoidMacroAction as HumanoidMacroAction
    from flambeau.rl.envs.custom.mujoco import MujocoEnv as MujocoEnv
    from flambeau.rl.envs.custom.mujoco import SatelliteAttitudeTransform as SatelliteAttitudeTransform
    from flambeau.rl.envs.custom.mujoco import SatelliteEnv as SatelliteEnv
    from flambeau.rl.envs.custom.mujoco import SatelliteMacroAction as SatelliteMacroAction
    from flambeau.rl.envs.custom.mujoco import Walker2dEnv as Walker2dEnv
    from flambeau.rl.envs.custom.pendulum import PendulumEnv as PendulumEnv
    from flambeau.rl.envs.custom.tictactoeenv import TicTacToeEnv as TicTacToeEnv
    from flambeau.rl.envs.custom.trading import FinancialRegimeEnv as FinancialRegimeEnv
    from flambeau.rl.envs.custom.vla import ToyVLAEnv as ToyVLAEnv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "vla": ("ToyVLAEnv",),
        "mujoco": (
            "AntEnv",
            "HopperEnv",
            "HumanoidEnv",
            "HumanoidMacroAction",
            "MujocoEnv",
            "SatelliteAttitudeTransform",
            "SatelliteEnv",
            "SatelliteMacroAction",
            "Walker2dEnv",
        ),
        "chess": ("ChessEnv",),
        "llm": ("LLMHashingEnv",),
        "trading": ("FinancialRegimeEnv",),
        "classic_control": ("AcrobotEnv", "CartPoleEnv", "MountainCarContinuousEnv", "MountainCarEnv"),
        "gym_pendulum": ("GymPendulumEnv",),
        "pendulum": ("PendulumEnv",),
        "tictactoeenv": ("TicTacToeEnv",),
    },
)
