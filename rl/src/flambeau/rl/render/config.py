"""What is to be rendered, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.envs._keys import NestedKey

__all__ = [
    "CameraLayout",
    "EnvBackendName",
    "ExplorationMode",
    "FrameBundle",
    "NotebookRenderBackendName",
    "NotebookRolloutMode",
    "RenderBackendName",
    "RenderConfig",
    "RenderEnvSpec",
    "RenderFormat",
    "RenderPolicySpec",
    "RenderResult",
    "key_to_string",
    "parse_nested_key",
]

CameraLayout = Literal["single", "grid", "horizontal", "vertical", "separate"]
EnvBackendName = Literal["auto", "torchrl", "gym", "gymnasium", "mujoco", "dm_control", "isaaclab"]
ExplorationMode = Literal["deterministic", "mode", "mean", "random"]
NotebookRenderBackendName = Literal["auto", "static", "mujoco_wasm", "mujoco-wasm"]
NotebookRolloutMode = Literal["saved", "live", "both"]
RenderBackendName = Literal["auto", "pixels", "env", "null"]
RenderFormat = Literal["ipynb", "mp4", "gif", "frames", "npz", "jsonl"]

_CHOICES: dict[str, Any] = {
    "format": RenderFormat,
    "camera_layout": CameraLayout,
    "exploration_mode": ExplorationMode,
    "render_backend": RenderBackendName,
    "notebook_render_backend": NotebookRenderBackendName,
    "notebook_rollout_mode": NotebookRolloutMode,
    "env_backend": EnvBackendName,
}
_KEYS = ("obs_key", "action_key", "done_key", "reward_key", "pixel_key", "mujoco_qpos_key")
_PATHS = ("ckpt", "out", "frame_dir", "artifact_dir", "metadata", "mujoco_model_path")
_DEVICES = ("device", "policy_device", "env_device")


@dataclass
class RenderConfig:
    """What `render_policy` does.

    Attributes:
        ckpt: file of the checkpoint.
        policy: makes the policy from a `RenderPolicySpec`: a function, or "module:function".
        env: makes the environment from a `RenderEnvSpec`, likewise.
        num_trajs: number of episodes.
        format: "mp4", "gif", "frames" (pictures in a folder), "npz", "jsonl" or "ipynb".
        out: the file, or the folder; default: "render" with the suffix of the format.
        max_steps: of an episode; default: as the environment says, or 1000.
        fps: frames a second.
        camera: names of cameras, also as one text with commas.
        camera_layout: how frames of several cameras lie side by side, or "separate", a film for each.
        deterministic: the policy does not explore.
        exploration_mode: how it does; default: as `deterministic` says.
        seed: of the first episode.
        device: of policy and environment.
        policy_device: of the policy; default: `device`.
        env_device: of the environment; default: `device`.
        render_backend: where frames are from: "pixels", an entry of the data; "env", its `render`; "null" for none.
        notebook_render_backend: how a notebook shows them.
        notebook_rollout_mode: whether a notebook has what was recorded ("saved"), records it itself ("live"), or both.
        env_backend: library of the environment.
        env_kwargs: for the environment's function.
        policy_kwargs: for the policy's function.
        checkpoint_key: of the part of the checkpoint that the policy is given.
        state_dict_key: of the parameters in the checkpoint.
        strict_load: all parameters must be there.
        auto_load_policy: load them into the policy.
        policy_eval: put the policy into evaluation mode.
        obs_key: of observations, for policies of tensors; keys may be texts with dots.
        action_key: of actions.
        done_key: of ends.
        reward_key: of rewards.
        pixel_key: of frames.
        from_pixels: for the environment's function.
        pixels_only: for the environment's function.
        render_mode: for the environment's function.
        save_rollout: write the data of episodes as well.
        save_tensordicts: likewise.
        save_frames: write each frame as a picture as well.
        frame_dir: where to.
        artifact_dir: where to write what goes with the file.
        metadata: file for what is known of the run.
        overwrite: replace what is there.
        video_codec: of films, as PyAV names it.
        mujoco_model_path: the model, for notebooks that simulate.
        mujoco_asset_paths: what it includes.
        mujoco_qpos_key: where to write the coordinates of MuJoCo's models in the data.
        notebook_viewer_port: of the notebook's viewer.
        dry_run: the command prints the configuration and does nothing else.
        validate_only: the command makes environment and policy, and records nothing.

    Raises:
        ValueError: a choice is none of these, or a number is out of range.

    Example:
        >>> RenderConfig("policy.pt", "project:policy", "project:env", obs_key="agent.observation").obs_key
        ('agent', 'observation')
    """

    ckpt: Any
    policy: str | Callable[..., Any]
    env: str | Callable[..., Any]
    num_trajs: int = 1
    format: RenderFormat = "mp4"
    out: Any = None
    max_steps: int | None = None
    fps: float = 30.0
    camera: Any = field(default_factory=lambda: ["default"])
    camera_layout: CameraLayout = "single"
    deterministic: bool = True
    exploration_mode: ExplorationMode | None = None
    seed: int | None = 0
    device: Any = "cpu"
    policy_device: Any = None
    env_device: Any = None
    render_backend: RenderBackendName = "auto"
    notebook_render_backend: NotebookRenderBackendName = "auto"
    notebook_rollout_mode: NotebookRolloutMode = "saved"
    env_backend: EnvBackendName = "auto"
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    policy_kwargs: dict[str, Any] = field(default_factory=dict)
    checkpoint_key: str | None = None
    state_dict_key: str | None = None
    strict_load: bool = True
    auto_load_policy: bool = True
    policy_eval: bool = True
    obs_key: Any = "observation"
    action_key: Any = "action"
    done_key: Any = "done"
    reward_key: Any = "reward"
    pixel_key: Any = "pixels"
    from_pixels: bool = False
    pixels_only: bool = False
    render_mode: str | None = None
    save_rollout: bool = False
    save_tensordicts: bool = False
    save_frames: bool = False
    frame_dir: Any = None
    artifact_dir: Any = None
    metadata: Any = None
    overwrite: bool = False
    video_codec: str | None = None
    mujoco_model_path: Any = None
    mujoco_asset_paths: list[Any] = field(default_factory=list)
    mujoco_qpos_key: Any = None
    notebook_viewer_port: int = 5178
    dry_run: bool = False
    validate_only: bool = False

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in get_args(choices) and not (name == "exploration_mode" and value is None):
                raise ValueError(f"RenderConfig: {name} is {value!r}, expected one of {sorted(get_args(choices))}.")
        for name in ("num_trajs", "max_steps", "notebook_viewer_port"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"RenderConfig: {name} is {value}, expected at least 1.")
        if self.fps <= 0:
            raise ValueError(f"RenderConfig: fps is {self.fps}, expected a number above 0.")
        if isinstance(self.camera, str):
            self.camera = [name.strip() for name in self.camera.split(",") if name.strip()]
        for names, make in ((_KEYS, parse_nested_key), (_PATHS, Path), (_DEVICES, torch.device)):
            for name in names:
                value = getattr(self, name)
                setattr(self, name, None if value is None else make(value))
        self.mujoco_asset_paths = [Path(path) for path in self.mujoco_asset_paths]

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON takes; functions by their names."""
        return {one.name: _plain(one.name, getattr(self, one.name)) for one in fields(self)}

    def to_json(self, **kwargs: Any) -> str:
        """As JSON.

        Args:
            kwargs: of `json.dumps`.
        """
        return json.dumps(self.to_dict(), **kwargs)


def _plain(name: str, value: Any) -> Any:
    if name in _KEYS and value is not None:
        return key_to_string(value)
    if isinstance(value, dict):
        return {str(key): _plain("", one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain("", one) for one in value]
    if callable(value) and not isinstance(value, type):
        return f"{value.__module__}:{getattr(value, '__qualname__', type(value).__name__)}"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@dataclass
class RenderEnvSpec:
    """What the function that makes an environment is given; attributes are as in `RenderConfig`.

    Attributes:
        checkpoint: the loaded checkpoint, where there is one.
    """

    device: torch.device
    seed: int | None
    max_steps: int | None
    from_pixels: bool
    pixels_only: bool
    camera: list[str]
    render_mode: str | None
    env_kwargs: dict[str, Any]
    config: RenderConfig
    checkpoint: Any | None = None

    @classmethod
    def from_config(cls, config: RenderConfig, checkpoint: Any | None = None) -> RenderEnvSpec:
        """Of a configuration.

        Args:
            config: of the run.
            checkpoint: the loaded checkpoint.
        """
        return cls(
            device=config.device if config.env_device is None else config.env_device, seed=config.seed,
            max_steps=config.max_steps, from_pixels=config.from_pixels, pixels_only=config.pixels_only,
            camera=list(config.camera), render_mode=config.render_mode, env_kwargs=dict(config.env_kwargs or {}),
            config=config, checkpoint=checkpoint,
        )  # fmt: skip


@dataclass
class RenderPolicySpec:
    """What the function that makes a policy is given.

    Attributes:
        ckpt_path: file of the checkpoint.
        checkpoint: what is in it.
        checkpoint_hash: its SHA-256, as hexadecimal digits.
        device: of the policy.
        env_specs: specs of the environment, where it has some.
        policy_kwargs: as in `RenderConfig`.
        config: of the run.
    """

    ckpt_path: Path
    checkpoint: Any | None
    checkpoint_hash: str | None
    device: torch.device
    env_specs: Any | None
    policy_kwargs: dict[str, Any]
    config: RenderConfig


@dataclass
class FrameBundle:
    """Frames of one step.

    Attributes:
        frames: camera -> (height, width, 3), uint8.
        step: number of the step.
        trajectory_index: number of the episode.
        timestamp: when it was, in seconds.
        metadata: what else is known.
    """

    frames: dict[str, Any]
    step: int
    trajectory_index: int
    timestamp: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class RenderResult:
    """What comes of a run.

    Attributes:
        artifact_path: the file, or the folder.
        trajectories: data of episodes, (time,).
        frame_paths: films and pictures.
        metadata: what is known of the run, for JSON.
        warnings: what went wrong without ending it.
        frames: frames of each episode's steps.
    """

    artifact_path: Path | None
    trajectories: list[TensorDictBase]
    frame_paths: list[Path]
    metadata: dict[str, Any]
    warnings: list[str]
    frames: list[list[FrameBundle]] = field(default_factory=list)


def parse_nested_key(value: NestedKey | str | Sequence[str]) -> NestedKey:
    """A key from a text with dots, or from its parts.

    Args:
        value: such as "agent.observation".

    Example:
        >>> parse_nested_key("agent.observation")
        ('agent', 'observation')
    """
    if not isinstance(value, str):
        return tuple(value)
    parts = [part for part in value.split(".") if part]
    return tuple(parts) if len(parts) > 1 else "".join(parts)


def key_to_string(key: NestedKey) -> str:
    """A key as a text with dots.

    Args:
        key: of a tensordict.
    """
    return key if isinstance(key, str) else ".".join(key)
