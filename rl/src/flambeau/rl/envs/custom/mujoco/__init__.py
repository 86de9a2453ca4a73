"""Environments whose physics are those of MuJoCo models."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.envs.custom.mujoco._humanoid_primitives import HumanoidMacroAction as HumanoidMacroAction
    from flambeau.rl.envs.custom.mujoco._satellite_primitives import (
        SatelliteAttitudeTransform as SatelliteAttitudeTransform,
    )
    from flambeau.rl.envs.custom.mujoco._satellite_primitives import SatelliteMacroAction as SatelliteMacroAction
    from flambeau.rl.envs.custom.mujoco._ur_primitives import CartesianSolver as CartesianSolver
    from flambeau.rl.envs.custom.mujoco._ur_primitives import RobotMacroAction as RobotMacroAction
    from flambeau.rl.envs.custom.mujoco._ur_primitives import RobotMacroActionMode as RobotMacroActionMode
    from flambeau.rl.envs.custom.mujoco._ur_primitives import URScriptPrimitive as URScriptPrimitive
    from flambeau.rl.envs.custom.mujoco._ur_primitives import URScriptPrimitiveTransform as URScriptPrimitiveTransform
    from flambeau.rl.envs.custom.mujoco.ant import AntEnv as AntEnv
    from flambeau.rl.envs.custom.mujoco.base import MujocoEnv as MujocoEnv
    from flambeau.rl.envs.custom.mujoco.hopper import HopperEnv as HopperEnv
    from flambeau.rl.envs.custom.mujoco.humanoid import HumanoidEnv as HumanoidEnv
    from flambeau.rl.envs.custom.mujoco.satellite import SatelliteEnv as SatelliteEnv
    from flambeau.rl.envs.custom.mujoco.walker import Walker2dEnv as Walker2dEnv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_ur_primitives": (
            "CartesianSolver",
            "RobotMacroAction",
            "RobotMacroActionMode",
            "URScriptPrimitive",
            "URScriptPrimitiveTransform",
        ),
        "_humanoid_primitives": ("HumanoidMacroAction",),
        "_satellite_primitives": ("SatelliteAttitudeTransform", "SatelliteMacroAction"),
        "ant": ("AntEnv",),
        "base": ("MujocoEnv",),
        "hopper": ("HopperEnv",),
        "humanoid": ("HumanoidEnv",),
        "satellite": ("SatelliteEnv",),
        "walker": ("Walker2dEnv",),
    },
)
