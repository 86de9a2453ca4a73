"""Films, pictures, tables and notebooks of recorded episodes."""

from __future__ import annotations

import io
import json
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flambeau.core.files import write_atomic
from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.render.checkpoint import checkpoint_hash
from flambeau.rl.render.config import RenderConfig, RenderResult, key_to_string
from flambeau.rl.render.video import compose_frame_grid, encode_gif, encode_video, write_png

__all__ = ["write_render_artifact"]

_SUFFIXES = {"mp4": ".mp4", "gif": ".gif", "npz": ".npz", "jsonl": ".jsonl", "ipynb": ".ipynb", "frames": ""}
Streams = dict[tuple[int, str], list[Any]]


def write_render_artifact(result: RenderResult, config: RenderConfig) -> RenderResult:
    """Write what a configuration asks for, and what is known of the run beside it.

    Args:
        result: recorded episodes.
        config: of the run.

    Returns:
        The result, with the files it has now.

    Raises:
        FileExistsError: there is such a file, and `overwrite` is not set.
        RuntimeError: a film of no frames.
        ImportError: PyAV or Pillow is not installed.
    """
    out = config.out or Path("render" + _SUFFIXES[config.format])
    assets = config.artifact_dir or (out if config.format == "frames" else out.with_suffix(""))
    beside = config.format in ("ipynb", "frames")
    about = config.metadata or (assets / "metadata.json" if beside else out.with_name(out.name + ".metadata.json"))
    for path in (out, about):
        if path.exists() and not config.overwrite:
            raise FileExistsError(f"{path} is there already; overwrite=True, or --overwrite, replaces it.")
    result.metadata |= _circumstances(config, assets)
    if config.format in ("mp4", "gif") and not any(result.frames):
        raise RuntimeError(f"No frames were taken, of which {out} would be made: {' '.join(result.warnings)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    _WRITERS[config.format](result, out, config, assets)
    if config.save_frames and config.format != "frames":
        result.frame_paths += _write_frames(result, config.frame_dir or assets / "frames")
    if config.save_rollout or config.save_tensordicts or config.format == "ipynb":
        _write_rollouts(result, assets)
    result.artifact_path = out
    _write_json(about, result.metadata)
    return result


# Kinds of files


def _pictures(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    result.frame_paths += _write_frames(result, out)


def _film(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    def encode(frames: list[Any], path: Path) -> Path:
        return encode_video(frames, path, config.fps, video_codec=config.video_codec)

    _write_streams(result, out, config, encode)


def _animation(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    _write_streams(result, out, config, lambda frames, path: encode_gif(frames, path, config.fps))


def _arrays(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    arrays: dict[str, Any] = {"metadata": json.dumps(result.metadata), "config": config.to_json()}
    for index, data in enumerate(result.trajectories):
        for name, value in _tensors(data):
            arrays[f"traj_{index:03d}/{name}"] = value.numpy()
    for (index, camera), frames in _streams(result).items():
        if len({frame.shape for frame in frames}) == 1:
            arrays[f"traj_{index:03d}/frames/{camera}"] = np.stack(frames)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomic(out, buffer.getvalue())


def _lines(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    lines: list[dict[str, Any]] = [{"type": "metadata", "metadata": result.metadata}]
    for index, data in enumerate(result.trajectories):
        time = len(data.batch_size) - 1
        values = [(name, value.movedim(time, 0).tolist()) for name, value in _tensors(data)]
        for step in range(data.batch_size[-1]):
            lines.append({"type": "step", "trajectory": index, "step": step,
                          "data": {name: value[step] for name, value in values}})  # fmt: skip
    write_atomic(out, "".join(json.dumps(line) + "\n" for line in lines))


def _notebook(result: RenderResult, out: Path, config: RenderConfig, assets: Path) -> None:
    from flambeau.rl.render.notebook import write_render_notebook

    assets.mkdir(parents=True, exist_ok=True)
    _write_json(assets / "config.json", config.to_dict())
    for (index, camera), frames in _streams(result).items():
        result.frame_paths.append(encode_gif(frames, assets / f"traj_{index:03d}_{camera}.gif", config.fps))
    write_render_notebook(result, config, out)


_WRITERS: dict[str, Callable[[RenderResult, Path, RenderConfig, Path], None]] = {
    "frames": _pictures, "mp4": _film, "gif": _animation, "npz": _arrays, "jsonl": _lines, "ipynb": _notebook,
}  # fmt: skip

# Parts of them


def _streams(result: RenderResult) -> Streams:
    """Frames of each episode and camera."""
    streams: Streams = {}
    for index, bundles in enumerate(result.frames):
        for bundle in bundles:
            for camera, frame in bundle.frames.items():
                streams.setdefault((index, camera), []).append(frame)
    return streams


def _write_streams(
    result: RenderResult, out: Path, config: RenderConfig, encode: Callable[[list[Any], Path], Path]
) -> None:
    streams = _streams(result)
    if config.camera_layout == "separate":
        for (index, camera), frames in streams.items():
            name = f"{out.stem}_traj_{index:03d}_{camera}{out.suffix}"
            result.frame_paths.append(encode(frames, out.with_name(name)))
    # One after the other: all cameras of an episode at once, then the next episode.
    layout = "grid" if config.camera_layout == "separate" else config.camera_layout
    shown = []
    for index in sorted({index for index, _ in streams}):
        cameras = [frames for (episode, _), frames in streams.items() if episode == index]
        for together in zip_longest(*cameras):
            shown.append(compose_frame_grid([frame for frame in together if frame is not None], layout))
    result.frame_paths.append(encode(shown, out))


def _write_frames(result: RenderResult, folder: Path) -> list[Path]:
    written = []
    for (index, camera), frames in _streams(result).items():
        place = folder / f"traj_{index:03d}" / camera
        place.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(frames):
            write_png(frame, place / f"{number:06d}.png")
            written.append(place / f"{number:06d}.png")
    return written


def _write_rollouts(result: RenderResult, assets: Path) -> None:
    """Data of episodes as plain dictionaries of tensors, which load without running code."""
    folder = assets / "rollouts"
    folder.mkdir(parents=True, exist_ok=True)
    for index, data in enumerate(result.trajectories):
        buffer = io.BytesIO()
        torch.save({name: value.clone() for name, value in _tensors(data)}, buffer)
        write_atomic(folder / f"traj_{index:03d}.pt", buffer.getvalue())


def _tensors(data: TensorDictBase) -> Iterator[tuple[str, torch.Tensor]]:
    for key, value in data.items(True, True):
        if isinstance(value, torch.Tensor):
            yield key_to_string(key), value.detach().cpu()


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(content, indent=2, default=str) + "\n")


def _circumstances(config: RenderConfig, assets: Path) -> dict[str, Any]:
    about = config.to_dict()
    digest = checkpoint_hash(config.ckpt) if config.ckpt.exists() else None
    return {
        "checkpoint": {"path": str(config.ckpt), "sha256": digest},
        "config": about,
        "command": " ".join(sys.argv),
        "flambeau_rl_version": version("flambeau-rl"),
        "torch_version": torch.__version__,
        "python_version": platform.python_version(),
        "platform": platform.platform(),
        "policy": about["policy"],
        "env": about["env"],
        "seed": config.seed,
        "device": str(config.device),
        "keys": {name: about[f"{part}_key"] for name, part in
                 (("obs", "obs"), ("action", "action"), ("done", "done"), ("reward", "reward"), ("pixels", "pixel"))},
        "asset_dir": str(assets),
    }  # fmt: skip
