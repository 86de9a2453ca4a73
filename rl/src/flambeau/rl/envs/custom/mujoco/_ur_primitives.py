"""Macro actions of arms with six joints and a gripper, such as those of Universal Robots."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDictBase, is_tensor_collection
from flambeau.rl.data.tensor_specs import Categorical, Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._primitive import MacroAction, MacroPrimitiveTransform

__all__ = [
    "CartesianSolver",
    "RobotMacroAction",
    "RobotMacroActionMode",
    "URScriptPrimitive",
    "URScriptPrimitiveTransform",
]

GripperCommand = Literal["keep", "open", "closed"]
_JOINTS = 6


@runtime_checkable
class CartesianSolver(Protocol):
    """From poses of the hand to actions: inverse kinematics.

    Called with

    - target_pose: (*batch, 7), a position in meters and a quaternion (w, x, y, z) in the world, zeros for any;
    - start_action: (*batch, size), angles of joints and the gripper's command, which is passed on;
    - orientation_mask: (*batch, 3), how much errors of rotation about each axis of the world count, NaN for all;
    - waypoints: how many actions to give along the straight line from the present pose to the target.

    It returns the action (*batch, size), or with `waypoints` (*batch, waypoints, size). A solver may do without the
    last two; what asks for them is refused then.
    """

    def __call__(self, target_pose: Tensor, start_action: Tensor, *, orientation_mask: Tensor | None = None,
                 waypoints: int | None = None) -> Tensor:  # fmt: skip
        """Solve; see the class."""


class URScriptPrimitive(enum.IntEnum):
    """Primitives of Universal Robots' scripts."""

    WAIT = 0
    MOVEJ = 1
    MOVEL = 2
    OPEN_GRIPPER = 3
    CLOSE_GRIPPER = 4


class RobotMacroActionMode(enum.IntEnum):
    """What a macro action of an arm does."""

    WAIT = 0
    REACH_JOINTS = 1
    REACH_POSE = 2
    OPEN_GRIPPER = 3
    CLOSE_GRIPPER = 4
    RESET = 5


class _Reset:
    """Asks for the posture that the environment calls home."""

    def __repr__(self) -> str:
        return "RobotMacroAction.RESET"


class RobotMacroAction(MacroAction):
    """What an arm does next, and in how many steps.

    Attributes:
        mode: a `RobotMacroActionMode`, (*batch, 1), int64.
        steps: how many steps it takes, (*batch, 1), int64.
        settle_steps: how often the last action is repeated behind these, (*batch, 1), int64.
        position: of the hand, (*batch, 3), meters.
        quaternion: of the hand (w, x, y, z), (*batch, 4); zeros for any orientation.
        joints: angles (*batch, 6), radians.
        gripper: `GRIPPER_KEEP`, `GRIPPER_OPEN` or `GRIPPER_CLOSED`, (*batch, 1), int64.
        gripper_command: a command of the gripper instead, (*batch, 1); NaN for none.
        orientation_mask: see `CartesianSolver`, (*batch, 3); NaN for none.
        path: `PATH_JOINT` or `PATH_CARTESIAN`, (*batch, 1), int64.
    """

    GRIPPER_KEEP: ClassVar[int] = -1
    GRIPPER_OPEN: ClassVar[int] = 0
    GRIPPER_CLOSED: ClassVar[int] = 1
    PATH_JOINT: ClassVar[int] = 0
    PATH_CARTESIAN: ClassVar[int] = 1
    RESET: ClassVar[Any] = _Reset()

    position: Tensor
    quaternion: Tensor
    joints: Tensor
    gripper: Tensor
    gripper_command: Tensor
    orientation_mask: Tensor | None = None
    path: Tensor | None = None

    @classmethod
    def reach_pose(
        cls, *, position: Tensor, quaternion: Tensor | None = None,
        orientation_mask: Tensor | tuple[float, float, float] | None = None,
        path: Literal["joint", "cartesian"] = "joint", gripper: GripperCommand = "keep",
        gripper_command: float | Tensor | None = None, steps: int = 16, settle_steps: int = 0,
    ) -> RobotMacroAction:  # fmt: skip
        """Bring the hand to a pose.

        Args:
            position: (*batch, 3), meters.
            quaternion: (*batch, 4); default: any orientation.
            orientation_mask: (*batch, 3), or three numbers, see `CartesianSolver`.
            path: interpolate angles of joints ("joint"), or move the hand along a straight line ("cartesian").
            gripper: what the gripper does meanwhile: "keep", "open" or "closed".
            gripper_command: a command of the gripper instead.
            steps: how many steps that takes.
            settle_steps: how often the last action is repeated behind these.

        Raises:
            ValueError: `path` or `gripper` is something else.
        """
        if path not in ("joint", "cartesian"):
            raise ValueError(f"RobotMacroAction.reach_pose: path is {path!r}, expected 'joint' or 'cartesian'.")
        position = _rows(position)
        given = {"position": position, "quaternion": position.new_zeros(*position.shape[:-1], 4)}
        if quaternion is not None:
            given["quaternion"] = _rows(quaternion)
        if orientation_mask is not None:
            mask = torch.as_tensor(orientation_mask, dtype=position.dtype, device=position.device)
            given["orientation_mask"] = mask.expand(*position.shape[:-1], 3).clone()
        return cls._made(
            RobotMacroActionMode.REACH_POSE, position, gripper, gripper_command, steps, settle_steps,
            path=cls.PATH_CARTESIAN if path == "cartesian" else cls.PATH_JOINT, **given,
        )  # fmt: skip

    @classmethod
    def reach_joints(
        cls, *, joints: Tensor, gripper: GripperCommand = "keep", gripper_command: float | Tensor | None = None,
        steps: int = 16, settle_steps: int = 0,
    ) -> RobotMacroAction:  # fmt: skip
        """Bring the joints to angles.

        Args:
            joints: (*batch, 6), radians.
            gripper: as for `reach_pose`, like what follows.
            gripper_command: of the gripper.
            steps: how many.
            settle_steps: behind these.
        """
        joints = _rows(joints)
        mode = RobotMacroActionMode.REACH_JOINTS
        return cls._made(mode, joints, gripper, gripper_command, steps, settle_steps, joints=joints)

    @classmethod
    def home(
        cls, *, joints: Tensor, gripper: GripperCommand = "open", gripper_command: float | Tensor | None = None,
        steps: int = 16, settle_steps: int = 0,
    ) -> RobotMacroAction:  # fmt: skip
        """Bring the joints to given angles, and open the gripper.

        Args:
            joints: (*batch, 6), radians.
            gripper: as for `reach_pose`, like what follows.
            gripper_command: of the gripper.
            steps: how many.
            settle_steps: behind these.
        """
        return cls.reach_joints(
            joints=joints, gripper=gripper, gripper_command=gripper_command, steps=steps, settle_steps=settle_steps
        )

    @classmethod
    def reset(
        cls, *, gripper: GripperCommand = "open", gripper_command: float | Tensor | None = None, steps: int = 16,
        settle_steps: int = 0, batch_size: Size | tuple[int, ...] | None = None, dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> RobotMacroAction:  # fmt: skip
        """Bring the joints to where the environment calls it home, its `robot_home_qpos`.

        Args:
            gripper: as for `reach_pose`, like what follows.
            gripper_command: of the gripper.
            steps: how many.
            settle_steps: behind these.
            batch_size: default: (1,).
            dtype: of all floating-point tensors.
            device: of all tensors.
        """
        like = _empty(batch_size, dtype, device)
        return cls._made(RobotMacroActionMode.RESET, like, gripper, gripper_command, steps, settle_steps)

    @classmethod
    def open_gripper(
        cls, *, steps: int = 16, settle_steps: int = 0, batch_size: Size | tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None, device: Any = None,
    ) -> RobotMacroAction:  # fmt: skip
        """Open the gripper, and hold the joints.

        Args:
            steps: as for `reset`, like what follows.
            settle_steps: behind these.
            batch_size: default: (1,).
            dtype: of all floating-point tensors.
            device: of all tensors.
        """
        like = _empty(batch_size, dtype, device)
        return cls._made(RobotMacroActionMode.OPEN_GRIPPER, like, "open", None, steps, settle_steps)

    @classmethod
    def close_gripper(
        cls, *, command: float | Tensor | None = None, steps: int = 16, settle_steps: int = 0,
        batch_size: Size | tuple[int, ...] | None = None, dtype: torch.dtype | None = None, device: Any = None,
    ) -> RobotMacroAction:  # fmt: skip
        """Close the gripper, and hold the joints.

        Args:
            command: of the gripper; default: that for closed.
            steps: as for `reset`, like what follows.
            settle_steps: behind these.
            batch_size: default: (1,).
            dtype: of all floating-point tensors.
            device: of all tensors.
        """
        like = _empty(batch_size, dtype, device)
        return cls._made(RobotMacroActionMode.CLOSE_GRIPPER, like, "closed", command, steps, settle_steps)

    @classmethod
    def wait(
        cls, *, gripper: GripperCommand = "keep", gripper_command: float | Tensor | None = None, steps: int = 1,
        settle_steps: int = 0, batch_size: Size | tuple[int, ...] | None = None, dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> RobotMacroAction:  # fmt: skip
        """Hold the joints.

        Args:
            gripper: as for `reset`, like what follows.
            gripper_command: of the gripper.
            steps: how many.
            settle_steps: behind these.
            batch_size: default: (1,).
            dtype: of all floating-point tensors.
            device: of all tensors.
        """
        like = _empty(batch_size, dtype, device)
        return cls._made(RobotMacroActionMode.WAIT, like, gripper, gripper_command, steps, settle_steps)

    @classmethod
    def _made(
        cls, mode: RobotMacroActionMode, like: Tensor, gripper: str, command: Any, steps: int, settle_steps: int,
        path: int = 0, **given: Tensor,
    ) -> RobotMacroAction:  # fmt: skip
        codes = {"keep": cls.GRIPPER_KEEP, "open": cls.GRIPPER_OPEN, "closed": cls.GRIPPER_CLOSED}
        if gripper not in codes:
            raise ValueError(f"RobotMacroAction: gripper is {gripper!r}, expected one of {sorted(codes)}.")
        size = like.shape[:-1]

        def number(value: int) -> Tensor:
            return torch.full((*size, 1), int(value), dtype=torch.int64, device=like.device)

        held = like.new_full((*size, 1), math.nan)
        if command is not None:
            held = (
                torch.as_tensor(command, dtype=like.dtype, device=like.device).reshape(-1, 1).expand(*size, 1).clone()
            )
        identity = like.new_tensor([1.0, 0, 0, 0]).expand(*size, 4).clone()
        fields = {
            "position": like.new_zeros(*size, 3), "quaternion": identity, "joints": like.new_zeros(*size, _JOINTS),
            "orientation_mask": like.new_full((*size, 3), math.nan), **given,
        }  # fmt: skip
        return cls(
            mode=number(mode), steps=number(steps), settle_steps=number(settle_steps), gripper=number(codes[gripper]),
            gripper_command=held, path=number(path), **fields, batch_size=size,
        )  # fmt: skip


def _rows(value: Tensor) -> Tensor:
    return value.unsqueeze(0) if value.ndim < 2 else value


def _empty(batch_size: Any, dtype: Any, device: Any) -> Tensor:
    return torch.zeros(*((1,) if batch_size is None else batch_size), 1, dtype=dtype, device=device)


class URScriptPrimitiveTransform(MacroPrimitiveTransform):
    """Macro actions of an arm as sequences of its actions: angles of six joints, and a command of the gripper.

    A policy writes a `RobotMacroAction`, or an action to move to. Sequences begin where the arm is; opening and closing
    the gripper goes step by step, other commands of the gripper hold from the first step on.

    Args:
        execute: see `MacroPrimitiveTransform`, like what is not named here.
        multi_action_dim: for `MultiAction`.
        stack_rewards: for `MultiAction`.
        stack_observations: for `MultiAction`.
        action_key: of the environment's action, and of the macro action outside.
        robot_qpos_key: of the angles of joints, (*batch, 6).
        gripper_qpos_key: of the gripper's coordinates, whose first is its command now, (*batch, number).
        macro_steps: steps of a macro action that does not say itself.
        settle_steps: repeated actions, likewise.
        action_dim: size of actions.
        cartesian_solver: see `CartesianSolver`; default: the environment's, if it has one; else the arm stays.
        open_gripper_ctrl: the gripper's command for open.
        close_gripper_ctrl: for closed.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> moves = RobotMacroAction.reach_joints(joints=torch.ones(1, 6), steps=2)
        >>> where = {"robot_qpos": torch.zeros(1, 6), "gripper_qpos": torch.zeros(1, 2)}
        >>> URScriptPrimitiveTransform().inv(TensorDict({"action": moves, **where}, [1]))["action"].shape
        torch.Size([1, 2, 7])
    """

    primitive_enum: ClassVar[type[enum.IntEnum]] = URScriptPrimitive
    WAIT = URScriptPrimitive.WAIT
    MOVEJ = URScriptPrimitive.MOVEJ
    MOVEL = URScriptPrimitive.MOVEL
    OPEN_GRIPPER = URScriptPrimitive.OPEN_GRIPPER
    CLOSE_GRIPPER = URScriptPrimitive.CLOSE_GRIPPER

    def __init__(
        self, *, execute: bool = False, multi_action_dim: int = 1, stack_rewards: bool = True,
        stack_observations: bool = False, action_key: NestedKey = "action", robot_qpos_key: NestedKey = "robot_qpos",
        gripper_qpos_key: NestedKey = "gripper_qpos", macro_steps: int = 16, settle_steps: int = 0, action_dim: int = 7,
        cartesian_solver: CartesianSolver | Callable[[Tensor, Tensor], Tensor] | None = None,
        open_gripper_ctrl: float = 0.0, close_gripper_ctrl: float = 255.0,
    ) -> None:  # fmt: skip
        super().__init__(
            action_key=action_key, macro_steps=macro_steps, settle_steps=settle_steps, action_dim=action_dim
        )
        self.robot_qpos_key, self.gripper_qpos_key = robot_qpos_key, gripper_qpos_key
        self.cartesian_solver: Any = cartesian_solver
        self.open_gripper_ctrl, self.close_gripper_ctrl = open_gripper_ctrl, close_gripper_ctrl

    def low_level_action(self, robot_qpos: Tensor, gripper: float | Tensor | None = None) -> Tensor:
        """An action of the arm.

        Args:
            robot_qpos: angles of joints (*batch, 6).
            gripper: its command; default: that for open.

        Returns:
            (*batch, 7).
        """
        command = torch.as_tensor(
            self.open_gripper_ctrl if gripper is None else gripper, dtype=robot_qpos.dtype, device=robot_qpos.device
        )
        command = command.unsqueeze(-1) if command.ndim == robot_qpos.ndim - 1 and command.ndim else command
        return torch.cat([robot_qpos, command.expand(*robot_qpos.shape[:-1], 1)], -1)

    # Macro actions

    def make_primitive(  # type: ignore[override]
        self, tensordict: Any, primitive_id: int, *, target_pose: Tensor | None = None,
        target_qpos: Tensor | None = None, gripper: float | Tensor | None = None, steps: int | None = None,
        settle_steps: int | None = None,
    ) -> Any:  # fmt: skip
        """A copy of a tensordict with a macro action.

        Args:
            tensordict: is not changed.
            primitive_id: a `URScriptPrimitive`.
            target_pose: for MOVEL, a position and a quaternion (*batch, 7).
            target_qpos: for MOVEJ, (*batch, 6).
            gripper: a command of the gripper.
            steps: default: `macro_steps`.
            settle_steps: default: `settle_steps` of the transform.

        Raises:
            ValueError: there is no such primitive, or no target for it.
        """
        timing: dict[str, Any] = {"steps": self.macro_steps if steps is None else steps,
                  "settle_steps": self.settle_steps if settle_steps is None else settle_steps}  # fmt: skip
        place: dict[str, Any] = {"batch_size": tensordict.batch_size, "device": tensordict.device}
        if primitive_id == URScriptPrimitive.WAIT:
            made = RobotMacroAction.wait(gripper_command=gripper, **timing, **place)
        elif primitive_id == URScriptPrimitive.MOVEJ:
            joints = self._needed("MOVEJ", "target_qpos", target_qpos)
            made = RobotMacroAction.reach_joints(joints=joints, gripper_command=gripper, **timing)
        elif primitive_id == URScriptPrimitive.MOVEL:
            pose = self._needed("MOVEL", "target_pose", target_pose)
            made = RobotMacroAction.reach_pose(
                position=pose[..., :3], quaternion=pose[..., 3:7], gripper_command=gripper, **timing
            )
        elif primitive_id == URScriptPrimitive.OPEN_GRIPPER:
            made = RobotMacroAction.open_gripper(**timing, **place)
        elif primitive_id == URScriptPrimitive.CLOSE_GRIPPER:
            made = RobotMacroAction.close_gripper(command=gripper, **timing, **place)
        else:
            known = [each.name for each in URScriptPrimitive]
            raise ValueError(f"URScriptPrimitiveTransform: there is no primitive {primitive_id}; there are {known}.")
        return tensordict.copy().set(self.action_key, made)

    @staticmethod
    def _needed(name: str, argument: str, value: Tensor | None) -> Tensor:
        if value is None:
            raise ValueError(f"URScriptPrimitiveTransform: {name} needs {argument}, where to move to.")
        return value

    def action_sequence(  # type: ignore[override]
        self, tensordict: Any, primitive_id: int | None = None, *, target_pose: Tensor | None = None,
        target_qpos: Tensor | None = None, gripper: float | Tensor | None = None, steps: int | None = None,
        settle_steps: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The actions of a macro action.

        Args:
            tensordict: with the macro action, unless `primitive_id` is given; and where the arm is.
            primitive_id: as for `make_primitive`, like what follows.
            target_pose: for MOVEL.
            target_qpos: for MOVEJ.
            gripper: a command of the gripper.
            steps: how many.
            settle_steps: behind these.

        Returns:
            (*batch, steps + settle_steps, 7).
        """
        if primitive_id is not None:
            tensordict = self.make_primitive(
                tensordict, primitive_id, target_pose=target_pose, target_qpos=target_qpos, gripper=gripper,
                steps=steps, settle_steps=settle_steps,
            )  # fmt: skip
        action = self._macro_action(tensordict)
        start, target, moving, settled = self._resolve(tensordict, action)
        sequence = self._interpolate_sequence(start, target, moving, settled)
        return self._along_lines(action, start, sequence, moving)

    def _macro_action(self, tensordict: Any) -> Any:
        action = tensordict.get(self.action_key, None)
        action = (
            getattr(action, "data", action) if not isinstance(action, Tensor | TensorDictBase | MacroAction) else action
        )
        if isinstance(action, _Reset):
            size = tensordict.batch_size
            return RobotMacroAction.reset(steps=self.macro_steps, settle_steps=self.settle_steps, batch_size=size)
        if action is None:
            raise RuntimeError(
                f"{type(self).__name__} reads a macro action at {self.action_key!r}; the keys are "
                f"{list(tensordict.keys(True, True))}."
            )
        return action

    def current_action(
        self, tensordict: TensorDictBase, batch_shape: Size, device: Any, dtype: torch.dtype, action_dim: int
    ) -> Tensor:
        """Where the arm is, as an action.

        Args:
            tensordict: with angles of joints and coordinates of the gripper.
            batch_shape: of the result.
            device: of the result.
            dtype: of the result.
            action_dim: last dimension of the result.
        """
        joints = tensordict.get(self.robot_qpos_key)[..., :_JOINTS]
        command = tensordict.get(self.gripper_qpos_key)[..., :1]
        where = torch.cat([joints, command], -1).to(device=device, dtype=dtype)
        return where.expand(*batch_shape, action_dim)

    def _resolve(self, tensordict: Any, action: Any) -> tuple[Tensor, Tensor, int, int]:
        if isinstance(action, Tensor) or not is_tensor_collection(action) or action.get("joints", None) is None:
            return super()._resolve(tensordict, action)
        joints = action["joints"]
        start = self.current_action(tensordict, joints.shape[:-1], joints.device, joints.dtype, self.action_dim or 7)
        mode = action["mode"]
        target = torch.where(mode == RobotMacroActionMode.REACH_JOINTS, self._joined(joints, start), start)
        if bool((mode == RobotMacroActionMode.RESET).any()):
            home = self._home(joints)
            target = torch.where(mode == RobotMacroActionMode.RESET, self._joined(home, start), target)
        if bool((mode == RobotMacroActionMode.REACH_POSE).any()):
            solved = self._solved(action, start, None)
            target = torch.where(mode == RobotMacroActionMode.REACH_POSE, solved, target)
        start, target = self._gripped(action, start, target)
        return (
            start, target, self._number(action, "steps", self.macro_steps),
            self._number(action, "settle_steps", self.settle_steps),
        )  # fmt: skip

    @staticmethod
    def _joined(joints: Tensor, start: Tensor) -> Tensor:
        return torch.cat([joints, start[..., _JOINTS:]], -1)

    def _home(self, joints: Tensor) -> Tensor:
        home = getattr(self.parent, "robot_home_qpos", None) if self.parent is not None else None
        if home is None:
            raise RuntimeError(
                "RobotMacroAction.reset needs an environment with robot_home_qpos; RobotMacroAction.home(joints=...) "
                "does without."
            )
        return torch.as_tensor(home, dtype=joints.dtype, device=joints.device).expand_as(joints)

    def _gripped(self, action: Any, start: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Commands of the gripper in both: from the first step on, unless opening or closing is all there is to do."""
        code, command = action["gripper"], action["gripper_command"].to(start)
        named = torch.where(code == RobotMacroAction.GRIPPER_OPEN, self.open_gripper_ctrl, self.close_gripper_ctrl)
        wanted = torch.where(command.isnan(), named.to(start), command)
        kept = (code == RobotMacroAction.GRIPPER_KEEP) & command.isnan()
        wanted = torch.where(kept, start[..., _JOINTS:], wanted)
        mode = action["mode"]
        gradual = (mode == RobotMacroActionMode.OPEN_GRIPPER) | (mode == RobotMacroActionMode.CLOSE_GRIPPER)
        first = torch.where(gradual, start[..., _JOINTS:], wanted)
        return torch.cat([start[..., :_JOINTS], first], -1), torch.cat([target[..., :_JOINTS], wanted], -1)

    # Poses

    def _along_lines(self, action: Any, start: Tensor, sequence: Tensor, steps: int) -> Tensor:
        """The sequence, with the hand on a straight line where that is asked for."""
        path = action.get("path", None) if is_tensor_collection(action) else None
        if path is None:
            return sequence
        straight = (path == RobotMacroAction.PATH_CARTESIAN) & (action["mode"] == RobotMacroActionMode.REACH_POSE)
        if not bool(straight.any()):
            return sequence
        line = torch.cat([self._solved(action, start, steps)[..., :_JOINTS], sequence[..., :steps, _JOINTS:]], -1)
        settled = line[..., -1:, :].expand(*line.shape[:-2], sequence.shape[-2] - steps, line.shape[-1])
        return torch.where(straight.unsqueeze(-1), torch.cat([line, settled], -2), sequence)

    def _solved(self, action: Any, start: Tensor, waypoints: int | None) -> Tensor:
        solver = self.cartesian_solver
        if solver is None and self.parent is not None:
            solver = getattr(self.parent, "_cartesian_pose_to_joint_target", None)
        if solver is None:
            return start if waypoints is None else start.unsqueeze(-2).expand(*start.shape[:-1], waypoints, -1)
        asked: dict[str, Any] = {} if waypoints is None else {"waypoints": waypoints}
        mask = action.get("orientation_mask", None)
        if mask is not None and not bool(mask.isnan().all()):
            asked["orientation_mask"] = mask
        self._check_taken(solver, asked)
        found: Tensor = solver(torch.cat([action["position"], action["quaternion"]], -1), start, **asked)
        return found

    @staticmethod
    def _check_taken(solver: Any, asked: dict[str, Any]) -> None:
        parameters = inspect.signature(solver).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return
        missing = sorted(set(asked) - set(parameters))
        if missing:
            raise TypeError(
                f"The solver of URScriptPrimitiveTransform takes no {missing}, which the macro action asks for; see "
                "CartesianSolver."
            )

    # In an environment

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict.set(self.action_key, self.action_sequence(tensordict))

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The parts of a `RobotMacroAction` in the place of the action.

        Args:
            input_spec: a composite.
        """
        actions = input_spec["full_action_spec"]
        spec = actions[self.action_key]
        size, place = actions.shape, {"device": spec.device}
        del actions[self.action_key]
        actions[self.action_key] = Composite(
            mode=Categorical(len(RobotMacroActionMode), shape=(*size, 1), **place),
            position=Unbounded((*size, 3), dtype=spec.dtype, **place),
            quaternion=Unbounded((*size, 4), dtype=spec.dtype, **place),
            joints=Unbounded((*size, _JOINTS), dtype=spec.dtype, **place),
            gripper=Categorical(3, shape=(*size, 1), **place),
            shape=size,
        )
        input_spec["full_action_spec"] = actions
        return input_spec
