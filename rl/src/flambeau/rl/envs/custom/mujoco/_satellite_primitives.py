"""Attitudes to turn to as macro actions of satellites."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDictBase, is_tensor_collection
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.custom.mujoco._math import (
    cmg_jacobian,
    orthogonal_6cmg_geometry,
    pyramid_4cmg_geometry,
    quat_conj,
    quat_log,
    quat_mul,
    unit_quat,
)
from flambeau.rl.envs.transforms._primitive import MacroPrimitive, MacroPrimitiveTransform, TargetMacroAction

__all__ = ["SatelliteAttitudeTransform", "SatelliteMacroAction"]


class SatelliteMacroAction(TargetMacroAction):
    """An attitude to turn to, a quaternion (w, x, y, z); the fields are those of `TargetMacroAction`."""

    @classmethod
    def slew_attitude(cls, target_quat: Tensor, *, steps: int = 36, settle_steps: int = 8) -> SatelliteMacroAction:
        """Turn to an attitude.

        Args:
            target_quat: (*batch, 4).
            steps: in which the gimbals come to the rates that it takes.
            settle_steps: how often the last action is repeated behind these.
        """
        return cast(SatelliteMacroAction, cls.move(target_quat, steps=steps, settle_steps=settle_steps))


class SatelliteAttitudeTransform(MacroPrimitiveTransform):
    """Attitudes to turn to as sequences of rates of gimbals.

    The torque that is wanted is attitude_gain times the rotation to the target less angular_rate_gain times the angular
    velocity; the rates are those of least norm that give it, within [-1, 1] action_scale. A policy writes a
    `SatelliteMacroAction`, a tensordict with "target" or "attitude", or a quaternion; observations are those of
    `SatelliteEnv`.

    Args:
        num_cmgs: 4 or 6 gyroscopes.
        action_scale: rate of a gimbal, in radians a second, for an action of 1; default: the environment's, or 3.
        attitude_gain: torque for a radian.
        angular_rate_gain: torque for a radian a second.
        jacobian_rotor_h: angular momentum of a rotor.
        execute: see `MacroPrimitiveTransform`, like what follows.
        multi_action_dim: for `MultiAction`.
        stack_rewards: for `MultiAction`.
        stack_observations: for `MultiAction`.
        action_key: of the environment's action, and of the macro action outside.
        macro_steps: steps of a macro action that does not say itself.
        settle_steps: repeated actions, likewise.

    Raises:
        ValueError: `num_cmgs` is something else, or a number of steps is out of range.

    References:
        B. Wie, Space Vehicle Dynamics and Control, 2nd edition, 2008, chapter 7.
    """

    def __init__(
        self, *, num_cmgs: Literal[4, 6] = 4, action_scale: float | None = None, attitude_gain: float = 5.0,
        angular_rate_gain: float = 8.0, jacobian_rotor_h: float = 1.0, execute: bool = False, multi_action_dim: int = 1,
        stack_rewards: bool = True, stack_observations: bool = False, action_key: NestedKey = "action",
        macro_steps: int = 36, settle_steps: int = 8,
    ) -> None:  # fmt: skip
        if num_cmgs not in (4, 6):
            raise ValueError(f"SatelliteAttitudeTransform: num_cmgs is {num_cmgs}, expected 4 or 6.")
        super().__init__(action_key=action_key, macro_steps=macro_steps, settle_steps=settle_steps, action_dim=num_cmgs)
        self.num_cmgs = num_cmgs
        self.action_scale = action_scale
        self.attitude_gain = attitude_gain
        self.angular_rate_gain = angular_rate_gain
        self.jacobian_rotor_h = jacobian_rotor_h

    def attitude_action_target(self, tensordict: TensorDictBase, target_quat: Tensor) -> Tensor:
        """The action that turns a satellite towards an attitude.

        Args:
            tensordict: with "bus_quat", "bus_omega" and "gimbal_angles".
            target_quat: (*batch, 4).

        Returns:
            (*batch, number of gyroscopes), in [-1, 1].
        """
        attitude = unit_quat(tensordict["bus_quat"])
        error = quat_log(quat_mul(quat_conj(attitude), unit_quat(target_quat.to(attitude))))
        torque = self.attitude_gain * error - self.angular_rate_gain * tensordict["bus_omega"]
        sines, cosines = tensordict["gimbal_angles"].chunk(2, -1)
        geometry = pyramid_4cmg_geometry if self.num_cmgs == 4 else orthogonal_6cmg_geometry
        axes = geometry(device=sines.device, dtype=sines.dtype)
        jacobian = cmg_jacobian(torch.atan2(sines, cosines), *axes, self.jacobian_rotor_h)
        # The torque on the satellite is the opposite of what the gyroscopes take up.
        rates = -(torch.linalg.pinv(jacobian) @ torque.unsqueeze(-1)).squeeze(-1)
        return (rates / self._scale()).clamp(-1, 1)  # type: ignore[no-any-return]

    def _scale(self) -> float:
        if self.action_scale is not None:
            return self.action_scale
        return float(getattr(self.parent, "action_scale", 3.0)) if self.parent is not None else 3.0

    def current_action(
        self, tensordict: TensorDictBase, batch_shape: Size, device: Any, dtype: torch.dtype, action_dim: int
    ) -> Tensor:
        """Gimbals at rest, which sequences begin with.

        Args:
            tensordict: not read.
            batch_shape: of the result.
            device: of the result.
            dtype: of the result.
            action_dim: last dimension of the result.
        """
        return torch.zeros(*batch_shape, action_dim, device=device, dtype=dtype)

    def _resolve(self, tensordict: Any, action: Any) -> tuple[Tensor, Tensor, int, int]:
        attitude, steps, settled, mode = action, self.macro_steps, self.settle_steps, None
        if is_tensor_collection(action):
            attitude = action.get("target", None)
            attitude = action.get("attitude", None) if attitude is None else attitude
            steps = self._number(action, "steps", self.macro_steps)
            settled = self._number(action, "settle_steps", self.settle_steps)
            mode = action.get("mode", None)
        if attitude is None:
            raise RuntimeError(
                f"{type(self).__name__} takes a SatelliteMacroAction, a tensordict with 'target' or 'attitude', or a "
                f"quaternion at {self.action_key!r}; got {action}."
            )
        target = self.attitude_action_target(tensordict, attitude)
        start = self.current_action(tensordict, target.shape[:-1], target.device, target.dtype, target.shape[-1])
        if mode is not None:
            target = torch.where(mode == MacroPrimitive.WAIT, start, target)
        return start, target, steps, settled

    def transform_input_spec(self, input_spec: Any) -> Any:
        """A mode and an attitude in the place of the action.

        Args:
            input_spec: a composite.
        """
        actions: Composite = input_spec["full_action_spec"]
        spec = actions[self.action_key]
        batch = actions.shape
        del actions[self.action_key]
        actions[self.action_key] = self._macro_action_spec(batch, spec.device, spec.dtype, 4)
        input_spec["full_action_spec"] = actions
        return input_spec
