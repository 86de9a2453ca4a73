"""Environments that are written in torch alone."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.custom.classic_control import AcrobotEnv as AcrobotEnv
    from flambeau.rl.envs.custom.classic_control import CartPoleEnv as CartPoleEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarContinuousEnv as MountainCarContinuousEnv
    from flambeau.rl.envs.custom.classic_control import MountainCarEnv as MountainCarEnv
    from flambeau.rl.envs.custom.gym_pendulum import GymPendulumEnv as GymPendulumEnv
    from flambeau.rl.envs.custom.pendulum import PendulumEnv as PendulumEnv
    from flambeau.rl.envs.custom.tictactoeenv import TicTacToeEnv as TicTacToeEnv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "classic_control": ("AcrobotEnv", "CartPoleEnv", "MountainCarContinuousEnv", "MountainCarEnv"),
        "gym_pendulum": ("GymPendulumEnv",),
        "pendulum": ("PendulumEnv",),
        "tictactoeenv": ("TicTacToeEnv",),
    },
)
