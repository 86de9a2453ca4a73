"""Sets of videos in folders of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from flambeau.vision._miniatures.files import lines, noise

__all__ = ["WRITERS", "video"]


def video(path: Path, frames: int = 6) -> Path:
    """Write a video of noise, 16x32 pixels, 10 frames a second; in AVI as MPEG-4, as the sets of that time have it."""
    from flambeau.vision.io import write_video

    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = torch.from_numpy(noise(path.parts[-2:], frames, 16, 32, 3))
    write_video(path, pixels, fps=10, video_codec="mpeg4" if path.suffix == ".avi" else "libx264")
    return path


def hmdb51(root: Path) -> dict[str, Any]:
    """Two classes with two videos, one of them for training in each fold."""
    for label in ("wave", "clap"):
        for part in ("a", "b"):
            video(root / "videos" / label / f"{label}_{part}.avi")
        for fold in (1, 2, 3):
            rows = (
                f"{label}_a.avi {2 if fold == 2 else 1} ",
                f"{label}_b.avi {1 if fold == 2 else 2} ",
                "other.avi 0 ",
            )
            lines(root / "lists" / f"{label}_test_split{fold}.txt", *rows)
    return {
        "root": root / "videos",
        "annotation_path": str(root / "lists"),
        "frames_per_clip": 2,
        "step_between_clips": 2,
        "num_workers": 0,
    }


def ucf101(root: Path) -> dict[str, Any]:
    """Two classes with two videos, one of them for training in each fold."""
    names = [f"{label}/v_{label}_g0{part}_c01.avi" for label in ("YoYo", "Archery") for part in (1, 2)]
    for name in names:
        video(root / "videos" / name)
    for fold in (1, 2, 3):
        train = names[fold % 2 :: 2]
        lines(root / "lists" / f"trainlist{fold:02d}.txt", *(f"{name} 1" for name in train))
        lines(root / "lists" / f"testlist{fold:02d}.txt", *(name for name in names if name not in train))
    return {
        "root": root / "videos",
        "annotation_path": str(root / "lists"),
        "frames_per_clip": 2,
        "step_between_clips": 2,
        "num_workers": 0,
    }


def kinetics(root: Path) -> dict[str, Any]:
    """Two classes with a video each."""
    for label in ("abseiling", "zumba"):
        video(root / "train" / label / f"{label}_000001_000011.mp4")
    return {"frames_per_clip": 3, "step_between_clips": 3, "num_workers": 0}


WRITERS: dict[str, Any] = {"hmdb51": hmdb51, "kinetics": kinetics, "ucf101": ucf101}
