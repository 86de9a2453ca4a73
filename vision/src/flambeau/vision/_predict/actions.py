"""Video classification: names for what happens in a film."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flambeau.core.predict import Prediction, PredictOptions
from flambeau.vision._predict.classes import draw_classes
from flambeau.vision._predict.videos import opened

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flambeau.core.weights import WeightsEnum
    from flambeau.vision.io import VideoDecoder

__all__ = ["classify_video"]

_FRAMES_AT_ONCE = 16  # that are held in the size of the film


def classify_video(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Name what happens in a video; see `flambeau.core.predict.Predictor`.

    Clips are as long, as many and of the rate that the published accuracy was measured with; they are spread over the
    whole film, and the answers to them are averaged. A film that is shorter than a clip ends with its last frame.

    Args:
        source: path of a video file.
        model: maps a batch of prepared clips (N, C, T, H, W) to logits (N, classes).
        weights: has the preprocessing, and in `meta` the class names and `clips`.
        device: where the model is.
        dtype: of the model's floating parameters.
        options: `top` is the number of classes to name.

    Returns:
        Rows of `class`, `probability`, and `clips`, the probability in each clip; most probable first. The picture that
        `draw` writes is the frame in the middle of the film, with the classes below it.

    Raises:
        PredictError: the file is no video, or a damaged one.
    """
    import torch

    transform = weights.transforms()
    answers = []
    with opened(source) as video:
        for clip in _clips(video, **weights.meta["clips"]):
            frames = [transform(video.get_frames_played_at(times)) for times in clip]
            batch = torch.cat(frames, 1).unsqueeze(0).to(device, dtype)
            answers.append(model(batch)[0].float().softmax(0).cpu())
        middle = video[len(video) // 2]
    each = torch.stack(answers)
    best = each.mean(0).topk(min(options.top, each.shape[1]))
    names = weights.meta["categories"]
    rows = [
        {"class": names[index], "probability": probability, "clips": [round(value, 4) for value in in_clips]}
        for probability, index, in_clips in zip(
            best.values.tolist(), best.indices.tolist(), each[:, best.indices].T.tolist(), strict=True
        )
    ]
    title = f"{Path(source).name}, {len(answers)} clips seen by {weights!r}"
    return Prediction(rows, ("class", "probability"), title, partial(draw_classes, middle, rows))


def _clips(video: VideoDecoder, frames: int, frame_rate: float, per_video: int) -> Iterator[list[list[float]]]:
    """The times of each clip's frames, in groups of few; one clip of a film that is not longer."""
    first, last = video.pts_seconds[0], video.pts_seconds[-1]
    room = max(0.0, last - first - (frames - 1) / frame_rate)
    count = per_video if room > 0 else 1
    for number in range(count):
        start = first + room * (number / (count - 1) if count > 1 else 0.5)
        times = [start + index / frame_rate for index in range(frames)]
        yield [times[at : at + _FRAMES_AT_ONCE] for at in range(0, frames, _FRAMES_AT_ONCE)]
