"""What is known of a data set of a robot."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorClass
from flambeau.rl.data.tensor_specs import Bounded, TensorSpec, Unbounded

__all__ = ["ActionSpace", "GripperMode", "RobotDatasetMetadata"]

ActionSpace = Literal["joint_delta", "joint_position", "eef_delta", "eef_pose", "velocity", "mixed", "unknown"]
GripperMode = Literal["continuous", "binary", "none", "unknown"]
_TENSORS = ("action_mean", "action_std", "action_low", "action_high")
_NAMES = (
    "dataset_id", "embodiment_id", "action_dim", "action_names", "action_space", "gripper_mode", "control_frequency_hz",
    "camera_keys", "state_key", "instruction_key", "action_key", *_TENSORS, "license", "source_url",
)  # fmt: skip


class RobotDatasetMetadata(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What is known of a data set of a robot; None is what is not.

    Attributes:
        dataset_id: its name.
        embodiment_id: name of the robot.
        action_dim: size of actions.
        action_names: what their parts are.
        action_space: what actions are: angles of joints or the pose of the hand, or changes of these, or velocities.
        gripper_mode: how the gripper is told to close.
        control_frequency_hz: steps a second.
        camera_keys: where images lie.
        state_key: where states lie.
        instruction_key: where instructions lie.
        action_key: where actions lie.
        action_mean: of each part of actions, (size,).
        action_std: likewise.
        action_low: least, likewise.
        action_high: greatest, likewise.
        license: of the data.
        source_url: where they are from.

    Raises:
        ValueError: `action_space` or `gripper_mode` is something else.

    Example:
        >>> data = RobotDatasetMetadata(dataset_id="arm", action_dim=7, batch_size=[])
        >>> RobotDatasetMetadata.from_json(data.to_json()).action_dim
        7
    """

    dataset_id: str
    embodiment_id: str | None = None
    action_dim: int | None = None
    action_names: tuple[str, ...] | None = None
    action_space: ActionSpace = "unknown"
    gripper_mode: GripperMode = "unknown"
    control_frequency_hz: float | None = None
    camera_keys: tuple[Any, ...] = ()
    state_key: Any = ("observation", "state")
    instruction_key: Any = "language_instruction"
    action_key: Any = "action"
    action_mean: Tensor | None = None
    action_std: Tensor | None = None
    action_low: Tensor | None = None
    action_high: Tensor | None = None
    license: str | None = None
    source_url: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("action_space", get_args(ActionSpace)), ("gripper_mode", get_args(GripperMode))):
            if getattr(self, name) not in known:
                raise ValueError(f"RobotDatasetMetadata: {name} is {getattr(self, name)!r}, expected one of {known}.")

    def to_json(self, path: str | None = None) -> str:
        """As JSON.

        Args:
            path: a file to write it to as well; it appears there as a whole.

        Returns:
            The text.
        """
        text = json.dumps({name: _plain(getattr(self, name)) for name in _NAMES}, indent=2)
        if path is not None:
            target = Path(path)
            with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(target)
        return text

    def make_action_spec(self, *, shape_prefix: tuple[int, ...] = (), device: Any = None) -> TensorSpec:
        """The spec of actions, bounded where their bounds are known.

        Args:
            shape_prefix: dimensions before that of actions.
            device: of the spec.

        Raises:
            ValueError: the size of actions is not known.
        """
        if self.action_dim is None:
            raise ValueError(
                f"RobotDatasetMetadata: the size of actions of {self.dataset_id!r}, action_dim, is not known."
            )
        size = Size([*shape_prefix, self.action_dim])
        if self.action_low is None or self.action_high is None:
            return Unbounded(size, device=device)
        low, high = (bound.to(device).expand(size).clone() for bound in (self.action_low, self.action_high))
        return Bounded(low, high, size, device=device, dtype=low.dtype)

    @classmethod
    def from_json(cls, source: str) -> RobotDatasetMetadata:
        """From JSON; what is not known here is left out.

        Args:
            source: the text, or a file.

        Raises:
            ValueError: it is neither, or names no data set.
        """
        text = source if source.lstrip().startswith("{") else Path(source).read_text(encoding="utf-8")
        found = json.loads(text)
        if not isinstance(found, dict) or "dataset_id" not in found:
            raise ValueError("Metadata of a data set are a JSON object with a dataset_id.")
        known = {name: _restored(name, value) for name, value in found.items() if name in _NAMES}
        return cls(**known, batch_size=[])


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def _restored(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _TENSORS:
        return torch.tensor(value)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
