"""How records of checkpoints that were trained on Kinetics-400 are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.weights import Weights, lazy
from flambeau.vision.weights._records import published

__all__ = ["kinetics"]


def kinetics(
    file: str,
    *,
    accuracy: tuple[float, float],
    preset: Mapping[str, Any],
    clips: tuple[int, float, int],
    **facts: Any,
) -> Weights:
    """A classifier of the four hundred actions of Kinetics-400.

    Args:
        file: its name below `https://download.pytorch.org/models/`.
        accuracy: top-1 and top-5 of whole videos, whose clips' answers are averaged, in percent.
        preset: keyword arguments of `transforms._presets.VideoClassification`.
        clips: what the accuracy was measured with: frames of a clip, frames per second, clips of a video.
        facts: the other arguments of `published`.
    """
    top1, top5 = accuracy
    frames, frame_rate, per_video = clips
    return published(
        file,
        lazy("flambeau.vision.transforms._presets:VideoClassification", **preset),
        categories="kinetics_400",
        metrics={"Kinetics-400": {"acc@1": top1, "acc@5": top5}},
        clips={"frames": frames, "frame_rate": frame_rate, "per_video": per_video},
        **facts,
    )
