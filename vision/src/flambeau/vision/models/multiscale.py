"""Any backbone as a source of feature maps at several resolutions, for detectors, segmentation and the like.

::

    backbone = multiscale_features(resnet50())
    backbone.strides, backbone.channels        # (2, 4, 8, 16, 32), (64, 256, 512, 1024, 2048)
    maps = backbone(images)                    # {"stride2": (N, 64, H/2, W/2), ..., "stride32": (N, 2048, H/32, W/32)}

Nothing here knows a family of models. The model is run once on tensors without values, and what enters the module that
goes to a coarser grid is the map of the finer one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.vision.models.feature_extraction import modes_kept

__all__ = ["MultiScaleFeatures", "multiscale_features"]

Layout = Literal["channels first", "channels last", "tokens"]
_POOLS_TO_A_FIXED_SIZE = (nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)
_COARSEST = 64  # a coarser grid than this is a pooled one


@dataclass(frozen=True)
class _Grid:
    """What kind of map a tensor is."""

    stride: int
    channels: int
    layout: Layout


@dataclass(frozen=True)
class _Level:
    """One map: its kind, and where it is found."""

    grid: _Grid
    path: str
    enters: bool  # it is what the module at `path` is given, not what it returns


class MultiScaleFeatures(nn.Module):
    """A model that returns feature maps instead of its result; `multiscale_features` makes it.

    Attributes:
        model: the model, which runs as it is.
        strides: pixels of a picture for one of a map, ascending.
        channels: of each map.
    """

    def __init__(self, model: nn.Module, levels: Sequence[_Level]) -> None:
        super().__init__()
        self.training = model.training
        self.model = model
        self._levels = tuple(levels)
        self.strides = tuple(level.grid.stride for level in levels)
        self.channels = tuple(level.grid.channels for level in levels)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Maps of images (N, C, H, W) or videos (N, C, T, H, W), by `stride4` and the like, the finest first.

        Each is (N, channels, h, w), or (N, channels, t, h, w), whatever layout the model works in.
        """
        with self._caught() as caught:
            self.model(images)
        grids = [level.grid for level in self._levels]
        return {f"stride{grid.stride}": _channels_first(caught[grid.stride], grid, images) for grid in grids}

    @contextmanager
    def _caught(self) -> Iterator[dict[int, Tensor]]:
        caught: dict[int, Tensor] = {}
        thread = threading.get_ident()

        def keep(stride: int, value: Any) -> None:
            if threading.get_ident() == thread:  # another thread may run the same model
                caught[stride] = value.clone()  # a later layer may work in place

        handles = []
        for level in self._levels:
            module = self.model.get_submodule(level.path)
            stride = level.grid.stride
            if level.enters:
                handle = module.register_forward_pre_hook(lambda m, args, stride=stride: keep(stride, args[0]))
            else:
                handle = module.register_forward_hook(lambda m, args, out, stride=stride: keep(stride, out))
            handles.append(handle)
        try:
            yield caught
        finally:
            for handle in handles:
                handle.remove()


def multiscale_features(
    model: nn.Module, strides: Sequence[int] | None = None, *, image_size: int | Sequence[int] = 224
) -> MultiScaleFeatures:
    """Make a source of feature maps from any classifier of pictures or videos, convolutional or transformer.

    The map of a stride is the last one before the model goes to a coarser grid; the last map is what the model pools
    (for SqueezeNet, which pools after its classifier, a map of classes). Where convolutions without padding lose pixels
    at the border, strides are rounded to powers of two. Tokens of a transformer come back as a map, without the class
    token.

    Args:
        model: shared, not copied, and left in its mode.
        strides: which maps to return; None returns all there are.
        image_size: (height, width) of the pictures, or (frames, height, width) of the videos, that the model is run on
            once, without computing anything; it must be a size that the model takes, and at least 64.

    Raises:
        ValueError: the model has no map of one of `strides`, or no maps at all.

    Example:
        >>> from flambeau.vision.models import mobilenet_v2
        >>> backbone = multiscale_features(mobilenet_v2(), strides=(8, 16, 32))
        >>> backbone.channels
        (32, 96, 1280)
        >>> backbone(torch.zeros(1, 3, 64, 64))["stride16"].shape
        torch.Size([1, 96, 4, 4])
    """
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    levels = _find_levels(model, size)
    if not levels:
        raise ValueError(f"{type(model).__name__} has no feature maps: no module goes from one grid to a coarser one.")
    if strides is None:
        strides = list(levels)
    if missing := [stride for stride in strides if stride not in levels]:
        raise ValueError(
            f"{type(model).__name__} has no map of stride {missing[0]}, expected some of {sorted(levels)}."
        )
    return MultiScaleFeatures(model, [levels[stride] for stride in sorted(strides)])


def _find_levels(model: nn.Module, size: tuple[int, ...]) -> dict[int, _Level]:
    """The maps of a model by their stride."""
    calls = _record(model, size)
    levels: dict[int, _Level] = {}
    begins: dict[int, _Call] = {}
    for call in calls:
        if call.before is None or call.after is None or not 1 < call.before.stride < call.after.stride:
            continue
        finer, coarser = call.before.stride, call.after.stride
        between = [other for other in calls if call.holds(other) and other.after is not None]
        if any(finer < other.after.stride < coarser for other in between if other.after is not None):
            continue  # it holds several steps; they come by themselves
        if finer in begins and begins[finer].holds(call):
            continue  # a part of the step that was found
        begins[finer] = call
        levels[finer] = _Level(call.before, call.path, enters=True)
    maps = [call for call in calls if call.after is not None and not call.pools]
    if maps:
        coarsest = max(call.after.stride for call in maps if call.after is not None)
        last = max((call for call in maps if call.after and call.after.stride == coarsest), key=lambda call: call.end)
        if coarsest > 1 and last.after is not None:
            levels[coarsest] = _Level(last.after, last.path, enters=False)
    return levels


@dataclass
class _Call:
    """One call of a module: when, and which maps went in and out."""

    path: str
    begin: int
    before: _Grid | None
    pools: bool
    after: _Grid | None = None
    end: int = 0

    def holds(self, other: _Call) -> bool:
        """Whether the other call was made within this one."""
        return self.begin < other.begin and other.end < self.end


@dataclass
class _Recorder:
    """Notes the calls of all modules while a model runs once; `calls` are in the order of their beginnings."""

    size: tuple[int, ...]
    calls: list[_Call] = field(default_factory=list)
    open: list[_Call] = field(default_factory=list)
    clock: int = 0
    frames: int | None = None  # of the last video map, to tell what tokens of videos stand for

    def begin(self, path: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A module is called."""
        self.clock += 1
        pools = isinstance(module, _POOLS_TO_A_FIXED_SIZE)
        call = _Call(path, self.clock, self._grid(args[0] if args else None), pools)
        self.calls.append(call)
        self.open.append(call)

    def end(self, result: Any) -> None:
        """It returned."""
        self.clock += 1
        call = self.open.pop()
        call.end, call.after = self.clock, self._grid(result)

    def _grid(self, value: Any) -> _Grid | None:
        """What kind of map a value is, None if it is none."""
        if not isinstance(value, Tensor) or value.shape[0] != _BATCH:
            return None
        if value.ndim == len(self.size) + 2:
            first, last = value.shape[2:], value.shape[1:-1]
            if stride := _stride(self.size[-2:], first[-2:]):
                self.frames = first[0]
                return _Grid(stride, value.shape[1], "channels first")
            if stride := _stride(self.size[-2:], last[-2:]):
                self.frames = last[0]
                return _Grid(stride, value.shape[-1], "channels last")
        if value.ndim == 3:
            return self._tokens(value.shape[1], value.shape[2])
        return None

    def _tokens(self, length: int, channels: int) -> _Grid | None:
        """A sequence of all pixels of a map, perhaps after one token that stands for the whole."""
        height, width = self.size[-2:]
        frames = 1 if len(self.size) == 2 else self.frames or 1
        for pixels in (length, length - 1):
            side = math.isqrt(pixels * height // (width * frames))
            if side < 2 or height % side or height // side > _COARSEST:
                continue
            stride = height // side
            if frames * side * (width // stride) == pixels:
                return _Grid(stride, channels, "tokens")
        return None


_BATCH = 2  # two pictures, so that windows of one are not taken for a batch


def _record(model: nn.Module, size: tuple[int, ...]) -> list[_Call]:
    """Run a model once on tensors without values."""
    recorder = _Recorder(size)
    handles = []
    for path, module in model.named_modules():
        handles.append(
            module.register_forward_pre_hook(lambda module, args, path=path: recorder.begin(path, module, args))
        )
        handles.append(module.register_forward_hook(lambda module, args, result: recorder.end(result)))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    empty = {name: tensor.to("meta") for name, tensor in tensors.items()}
    dtype = next((each.dtype for each in empty.values() if each.is_floating_point()), torch.float32)
    images = torch.empty(_BATCH, _input_channels(model), *size, device="meta", dtype=dtype)
    try:
        with modes_kept(model), torch.no_grad():
            torch.func.functional_call(model.eval(), empty, (images,))
    finally:
        for handle in handles:
            handle.remove()
    return recorder.calls


def _input_channels(model: nn.Module) -> int:
    """What the first convolution reads."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Conv3d)):
            return module.in_channels
    return 3


def _stride(size: Sequence[int], sides: Sequence[int]) -> int | None:
    """Pixels of a picture for one of a grid, the same in both directions; None if it is no grid of that picture."""
    found = set()
    for pixels, side in zip(size, sides, strict=True):
        if side < 2:
            return None
        # Convolutions without padding lose some pixels at the border.
        found.add(pixels // side if pixels % side == 0 else 2 ** round(math.log2(pixels / side)))
    stride = found.pop()
    return int(stride) if not found and 1 <= stride <= _COARSEST else None


def _channels_first(value: Tensor, grid: _Grid, images: Tensor) -> Tensor:
    """A map as (N, channels, ..., h, w)."""
    if grid.layout == "channels first":
        return value
    if grid.layout == "channels last":
        return value.movedim(-1, 1)
    height, width = (side // grid.stride for side in images.shape[-2:])
    frames = value.shape[1] // (height * width)
    pixels = value[:, value.shape[1] - frames * height * width :].transpose(1, 2)
    sides = (height, width) if images.ndim == 4 else (frames, height, width)
    return pixels.reshape(*pixels.shape[:2], *sides)
