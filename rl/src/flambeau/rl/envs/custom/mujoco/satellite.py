"""A satellite that turns to where it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Composite
from flambeau.rl.envs.custom.mujoco._math import (
    cmg_jacobian,
    manipulability,
    orthogonal_6cmg_geometry,
    pyramid_4cmg_geometry,
    quat_conj,
    quat_log,
    quat_mul,
    random_unit_quat,
    unit_quat,
)
from flambeau.rl.envs.custom.mujoco._satellite_model import TARGET_FRAME, satellite_xml
from flambeau.rl.envs.custom.mujoco.base import MujocoEnv

__all__ = ["SatelliteEnv"]

_SIZES = {"bus_quat": 4, "quat_err": 3, "bus_omega": 3}


class SatelliteEnv(MujocoEnv):
    """A satellite with 4 or 6 control moment gyroscopes, which is to turn to a random attitude and stay there.

    Actions (N, number of gyroscopes) in [-1, 1] are rates of gimbals; the rotors keep their speed. A reset takes
    "target_quat" and "init_bus_quat", and gives both. Observations:

    ==============  =====  =====================================================================
    key             shape  what
    ==============  =====  =====================================================================
    bus_quat        4      the attitude (w, x, y, z)
    quat_err        3      rotation vector from there to the target, in the satellite's frame
    bus_omega       3      angular velocity, radians a second
    gimbal_angles   2 n    sines, then cosines of the gimbals' angles
    gimbal_rates    n      their rates, radians a second
    manipulability  1      sqrt(det(J J^T)) of the gyroscopes, see `cmg_jacobian`
    ==============  =====  =====================================================================

    The reward is - attitude_weight |quat_err| - omega_weight |bus_omega|^2 - ctrl_cost_weight |action|^2 less
    singularity_weight times 1 / m or exp(-k m) for m = manipulability / rotor_h^3. Episodes end by truncation alone.

    Args:
        num_cmgs: 4, in a pyramid, or 6, one on each side of the box.
        attitude_weight: of the reward.
        singularity_weight: of the reward.
        singularity_clamp_min: the least m that is divided by.
        singularity_mode: "inverse" or "exp".
        singularity_exp_k: k.
        ctrl_cost_weight: of the reward.
        omega_weight: of the reward.
        action_scale: rate of a gimbal, in radians a second, for an action of 1.
        rotor_h: angular momentum of a rotor, as it counts in m; default: its speed.
        kwargs: see `MujocoEnv`.

    Raises:
        ValueError: `num_cmgs` or `singularity_mode` is something else.

    Example:
        >>> SatelliteEnv(num_cmgs=6, seed=0).reset()["gimbal_angles"].shape
        torch.Size([1, 12])

    References:
        B. Wie, Space Vehicle Dynamics and Control, 2nd edition, 2008, chapter 7.
    """

    FRAME_SKIP: ClassVar[int] = 10
    RESET_NOISE_SCALE: ClassVar[float] = 1e-3
    ROTOR_SPEED_4: ClassVar[float] = 100.0
    ROTOR_SPEED_6: ClassVar[float] = 200.0
    RENDER_BACKGROUND: ClassVar[tuple[float, float, float] | None] = (0.0, 0.0, 0.05)
    _rows: ClassVar[tuple[str, ...]] = ("_target_quat",)

    num_cmgs: Literal[4, 6]
    N_GIMBALS: int
    ROTOR_SPEED: float
    attitude_weight: float
    omega_weight: float
    ctrl_cost_weight: float
    singularity_weight: float
    singularity_clamp_min: float
    singularity_mode: str
    singularity_exp_k: float
    action_scale: float
    rotor_h: float
    _target_quat: Tensor
    _gimbal_axes: Tensor
    _rotor_axes: Tensor

    def __init__(
        self, *, num_cmgs: Literal[4, 6] = 4, attitude_weight: float = 1.0, singularity_weight: float = 0.5,
        singularity_clamp_min: float = 1e-6, singularity_mode: Literal["inverse", "exp"] = "inverse",
        singularity_exp_k: float = 5.0, ctrl_cost_weight: float = 0.01, omega_weight: float = 0.1,
        action_scale: float = 3.0, rotor_h: float | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if num_cmgs not in (4, 6):
            raise ValueError(f"SatelliteEnv: num_cmgs is {num_cmgs}, expected 4 or 6.")
        if singularity_mode not in ("inverse", "exp"):
            raise ValueError(f"SatelliteEnv: singularity_mode is {singularity_mode!r}, expected 'inverse' or 'exp'.")
        state = self.__dict__
        state["num_cmgs"], state["N_GIMBALS"] = num_cmgs, num_cmgs
        state["ROTOR_SPEED"] = self.ROTOR_SPEED_4 if num_cmgs == 4 else self.ROTOR_SPEED_6
        state["attitude_weight"], state["ctrl_cost_weight"] = attitude_weight, ctrl_cost_weight
        state["omega_weight"], state["action_scale"] = omega_weight, action_scale
        state["singularity_weight"], state["singularity_clamp_min"] = singularity_weight, singularity_clamp_min
        state["singularity_mode"], state["singularity_exp_k"] = singularity_mode, singularity_exp_k
        state["rotor_h"] = state["ROTOR_SPEED"] if rotor_h is None else rotor_h
        super().__init__(**kwargs)

    def _configure(self) -> None:
        geometry = pyramid_4cmg_geometry if self.num_cmgs == 4 else orthogonal_6cmg_geometry
        self._gimbal_axes, self._rotor_axes = geometry(device=self.device)
        self._target_quat = unit_quat(torch.zeros(self.num_envs, 4, device=self.device))

    def _load_xml(self, xml_path: str | Path | None, *, patch_xml: bool = True) -> str | Path:
        if xml_path is not None:
            return super()._load_xml(xml_path, patch_xml=patch_xml)
        if self.num_cmgs == 4:
            gimbals, rotors = pyramid_4cmg_geometry()
            sides = torch.linalg.cross(gimbals, torch.tensor([0.0, 0, 1]).expand(4, 3).mT, dim=0)
        else:
            gimbals, rotors = orthogonal_6cmg_geometry()
            sides = torch.eye(3).repeat_interleave(2, 1) * torch.tensor([1.0, -1]).repeat(3)
        edge = 1.0 if self.num_cmgs == 4 else 1.2
        return satellite_xml(gimbals, rotors, 0.35 * edge * sides, edge)

    @classmethod
    def _patch_xml(cls, xml: str) -> str:
        return xml  # there is no floor in space

    # Specs

    def _make_obs_spec(self) -> Composite:
        number = self.num_cmgs
        sizes = {**_SIZES, "gimbal_angles": 2 * number, "gimbal_rates": number, "manipulability": 1}
        return Composite(
            {key: self._unbounded(size) for key, size in sizes.items()}, shape=self.batch_size, device=self.device
        )

    def _make_specs(self) -> None:
        super()._make_specs()
        given = {"target_quat": self._unbounded(4), "init_bus_quat": self._unbounded(4)}
        self.state_spec = Composite(given, shape=self.batch_size, device=self.device)

    def _make_action_spec(self) -> Any:
        return Bounded(-1.0, 1.0, (self.num_envs, self.num_cmgs), dtype=self.dtype, device=self.device)

    # Physics

    def _sample_initial_state(self, n: int, tensordict: TensorDictBase | None = None) -> tuple[Tensor, Tensor]:
        qpos, qvel = super()._sample_initial_state(n, tensordict)
        qvel[:, 7::2] = self.ROTOR_SPEED
        given = None if tensordict is None else tensordict.get("init_bus_quat", None)
        if given is not None:
            qpos[:, 3:7] = unit_quat(given.to(qpos))
        return qpos, qvel

    def _on_reset(self, mask: Tensor, tensordict: TensorDictBase | None) -> None:
        given = None if tensordict is None else tensordict.get("target_quat", None)
        if given is None:
            target = random_unit_quat((self.num_envs,), generator=self.rng, device=self.rng.device)
        else:
            target = unit_quat(given)
        chosen = mask.to(self._target_quat.device)
        self._target_quat = torch.where(chosen.unsqueeze(-1), target.to(self._target_quat), self._target_quat)
        if any(self._backend.mj_model.body(number).name == TARGET_FRAME for number in range(2)):
            centre = torch.zeros(3)
            self._backend.set_static_body_pose(TARGET_FRAME, centre, self._target_quat)

    def _prepare_ctrl(self, action: Tensor) -> Tensor:
        rates = self.action_scale * action.to(torch.float32)
        return torch.cat([rates, torch.full_like(rates, self.ROTOR_SPEED)], -1)

    def _reset(
        self, tensordict: TensorDictBase | None = None, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        if set_state and tensordict is not None:
            tensordict = tensordict.exclude("init_bus_quat")
            if tensordict.get("target_quat", None) is None:
                tensordict["target_quat"] = self._target_quat
        found = super()._reset(tensordict, set_state=set_state, **kwargs)
        found["target_quat"] = self._target_quat.to(self.dtype)
        found["init_bus_quat"] = self._backend.qpos[:, 3:7].to(self.dtype)
        return found

    # Observations and rewards

    def _attitude_error(self, qpos: Tensor) -> Tensor:
        return quat_log(quat_mul(quat_conj(unit_quat(qpos[:, 3:7])), self._target_quat))

    def _manipulability(self, qpos: Tensor) -> Tensor:
        jacobian = cmg_jacobian(qpos[:, 7::2], self._gimbal_axes, self._rotor_axes, self.rotor_h)
        return manipulability(jacobian).unsqueeze(-1)

    def _make_obs_dict(self, state: TensorDictBase) -> dict[str, Tensor]:
        qpos, qvel = state["qpos"], state["qvel"]
        angles = qpos[:, 7::2]
        found = {
            "bus_quat": qpos[:, 3:7],
            "quat_err": self._attitude_error(qpos),
            "bus_omega": qvel[:, 3:6],
            "gimbal_angles": torch.cat([angles.sin(), angles.cos()], -1),
            "gimbal_rates": qvel[:, 6::2],
            "manipulability": self._manipulability(qpos),
        }
        return {key: value.to(self.dtype) for key, value in found.items()}

    def _compute_reward(self, state: TensorDictBase, action: Tensor, next_state: TensorDictBase) -> Tensor:
        qpos, qvel = next_state["qpos"], next_state["qvel"]
        error = self._attitude_error(qpos).norm(dim=-1, keepdim=True)
        turning = qvel[:, 3:6].square().sum(-1, keepdim=True)
        cost = action.square().sum(-1, keepdim=True)
        reward = self.attitude_weight * error + self.omega_weight * turning + self.ctrl_cost_weight * cost
        return -(reward + self.singularity_weight * self._singularity(qpos))  # type: ignore[no-any-return]

    def _singularity(self, qpos: Tensor) -> Tensor:
        distance = self._manipulability(qpos) / self.rotor_h**3
        if self.singularity_mode == "exp":
            return (-self.singularity_exp_k * distance).exp()
        return 1 / distance.clamp_min(self.singularity_clamp_min)

    def _compute_done(self, state: TensorDictBase, next_state: TensorDictBase) -> Tensor:
        return torch.zeros(self.num_envs, 1, dtype=torch.bool, device=self.device)

    def make_attitude_transform(
        self, *, execute: bool = True, multi_action_dim: int = 1, stack_rewards: bool = True,
        stack_observations: bool = False, macro_steps: int = 36, settle_steps: int = 8, attitude_gain: float = 5.0,
        angular_rate_gain: float = 8.0, jacobian_rotor_h: float = 1.0,
    ) -> Any:  # fmt: skip
        """A `SatelliteAttitudeTransform` for this environment.

        Args:
            execute: as for the transform, like what follows.
            multi_action_dim: of `MultiAction`.
            stack_rewards: of the steps.
            stack_observations: of the steps.
            macro_steps: of a sequence.
            settle_steps: behind these.
            attitude_gain: of the steering law.
            angular_rate_gain: of the steering law.
            jacobian_rotor_h: of the steering law.
        """
        from flambeau.rl.envs.custom.mujoco._satellite_primitives import SatelliteAttitudeTransform

        return SatelliteAttitudeTransform(
            num_cmgs=self.num_cmgs, action_scale=self.action_scale, attitude_gain=attitude_gain,
            angular_rate_gain=angular_rate_gain, jacobian_rotor_h=jacobian_rotor_h, execute=execute,
            multi_action_dim=multi_action_dim, stack_rewards=stack_rewards, stack_observations=stack_observations,
            macro_steps=macro_steps, settle_steps=settle_steps,
        )  # fmt: skip
