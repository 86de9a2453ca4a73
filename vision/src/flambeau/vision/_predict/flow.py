"""Optical flow: how far, and where, what two pictures show has moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions
from flambeau.vision._predict.picture import read_picture, resized, save_picture, to_pillow
from flambeau.vision._predict.videos import opened

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["estimate_flow"]

# Flow is estimated in pictures of this size at most: memory grows with the fourth power of it. RAFT wants multiples of
# 8, and 128 at least.
_LONGEST, _SHORTEST, _MULTIPLE = 1024, 128, 8


class _Pair(NamedTuple):
    name: str
    first: Tensor  # uint8 [3, H, W]
    second: Tensor


def estimate_flow(
    source: Sequence[str],
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Say how far things move between two pictures, or frames of a video; see `flambeau.core.predict.Predictor`.

    Args:
        source: paths of two pictures of one size, or of one video.
        model: maps two batches of prepared pictures to a list of flows (N, 2, H, W), the best one last.
        weights: has the preprocessing.
        device: where the model is.
        dtype: of the model's floating parameters.
        options: `top` is the number of pairs of neighbouring frames of a video; they are spread over it.

    Returns:
        For each pair a row of `pictures`; `right` and `down`, the mean displacement; `mean` and `largest`, of its
        length: all in pixels. The picture that `draw` writes has each pair's first picture beside the flow in colours:
        hue tells the direction, saturation the length.

    Raises:
        PredictError: neither two pictures of one size nor one video, or a damaged file.
    """
    pairs = _frames(source[0], options.top) if len(source) == 1 else _pictures(source)
    flows = [_flow(pair, model, weights, device, dtype) for pair in pairs]
    rows = [_row(pair.name, flow) for pair, flow in zip(pairs, flows, strict=True)]
    title = f"{', '.join(Path(one).name for one in source)}, seen by {weights!r}"
    columns = ("pictures", "right", "down", "mean", "largest")
    return Prediction(rows, columns, title, partial(_draw, pairs, flows))


def _pictures(source: Sequence[str]) -> list[_Pair]:
    if len(source) != 2:
        raise PredictError(f"flow is between two pictures, or in one video; {len(source)} files were given.")
    first, second = (read_picture(one) for one in source)
    if first.shape != second.shape:
        sizes = " and ".join(f"{picture.shape[1]} x {picture.shape[2]}" for picture in (first, second))
        raise PredictError(f"{source[0]}, {source[1]}: the pictures have {sizes} pixels; resize one to the other.")
    names = (Path(one).name for one in source)
    return [_Pair(" to ".join(names), first, second)]


def _frames(source: str, most: int) -> list[_Pair]:
    with opened(source) as video:
        if len(video) < 2:
            raise PredictError(f"{source}: the video has one frame, and flow is between two.")
        steps = len(video) - 1
        count = min(most, steps)
        pairs = []
        for number in range(count):
            index = number * (steps - 1) // max(count - 1, 1)
            first, second = video.get_frames_at([index, index + 1])
            times = f"{video.pts_seconds[index]:.3f} to {video.pts_seconds[index + 1]:.3f} s"
            pairs.append(_Pair(times, first, second))
    return pairs


def _flow(pair: _Pair, model: nn.Module, weights: WeightsEnum, device: torch.device, dtype: torch.dtype) -> Tensor:
    """[2, H, W], float32, in pixels of the pair."""
    import torch
    from torch.nn.functional import interpolate

    height, width = pair.first.shape[-2:]
    size = _size(height, width)
    both = torch.stack([pair.first, pair.second]).float() / 255
    both = interpolate(both, size, mode="bilinear", antialias=True) if size != (height, width) else both
    prepared = (one.to(device, dtype) for one in weights.transforms()(both[:1], both[1:]))
    flow = model(*prepared)[-1].float().cpu()
    flow = interpolate(flow, (height, width), mode="bilinear") if size != (height, width) else flow
    return flow[0] * torch.tensor([width / size[1], height / size[0]])[:, None, None]


def _size(height: int, width: int) -> tuple[int, int]:
    """The size that flow is estimated in."""
    scale = min(1.0, _LONGEST / max(height, width))
    fitting = (max(_SHORTEST, round(side * scale / _MULTIPLE) * _MULTIPLE) for side in (height, width))
    return next(fitting), next(fitting)


def _row(name: str, flow: Tensor) -> dict[str, Any]:
    right, down = flow.mean((1, 2)).tolist()
    length = flow.square().sum(0).sqrt()
    values = {"right": right, "down": down, "mean": length.mean().item(), "largest": length.max().item()}
    return {"pictures": name} | {key: round(value, 3) for key, value in values.items()}


def _draw(pairs: list[_Pair], flows: list[Tensor], path: Path) -> None:
    """Write pictures beside their flow, a pair a line; of one pair in large.

    Raises:
        PredictError: the path's suffix names no image format.
    """
    import torch

    from flambeau.vision.utils import flow_to_image

    # Together, so that a colour is one length in all of them.
    colours = flow_to_image(torch.stack(flows))
    lines = [torch.cat([pair.first, colour], 2) for pair, colour in zip(pairs, colours, strict=True)]
    columns = max(1, math.isqrt(len(lines)))
    lines += [torch.full_like(lines[0], 22)] * (-len(lines) % columns)
    sheet = torch.cat([torch.cat(lines[at : at + columns], 2) for at in range(0, len(lines), columns)], 1)
    save_picture(resized(to_pillow(sheet)), path)
