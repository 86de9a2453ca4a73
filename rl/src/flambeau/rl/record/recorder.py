"""Transforms that record what happens in an environment: videos, pixels that it renders, whole steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import NonTensorData, TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import NonTensor, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms import ObservationTransform, Transform

__all__ = ["PixelRenderTransform", "TensorDictRecorder", "VideoRecorder"]


class VideoRecorder(ObservationTransform):
    """Keeps the frames that go by, and gives them to a logger as a video when `dump` is called.

    Frames are (..., H, W, C) or (..., C, H, W) in uint8, C being 1 or 3, or (H, W); those of floating point, from 0 to
    1, are scaled. They pass through unchanged.

    Args:
        logger: where videos go; None to keep none of them.
        tag: the video's name.
        in_keys: keys of frames; default: "pixels". Frames of several keys follow one another.
        skip: keep one of so many; default: 2 in an environment without a batch size, else 1.
        center_crop: keep a square of so many pixels from the middle.
        make_grid: put the frames of a batch side by side, else one behind the other. Default: in an environment.
        out_keys: kept for upstream's signature: frames stay where they are.
        fps: frames a second; default: the logger's.
        max_frames: keep no more until they are dumped; default: as many as come.
        dump_on_done: dump whenever all episodes of a batch end at the same step.
        kwargs: passed on to the logger's `log_video`.

    Raises:
        ValueError: `skip` or `max_frames` is below 1.

    Example:
        >>> import tempfile
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.record import CSVLogger
        >>> logger = CSVLogger("run", tempfile.mkdtemp())
        >>> recorder = VideoRecorder(logger, "play")
        >>> _ = recorder(TensorDict({"pixels": torch.zeros(10, 8, 8, 3, dtype=torch.uint8)}, [10]))
        >>> recorder.dump()
        >>> [path.name for path in Path(logger.experiment.log_dir, "videos").iterdir()]
        ['play_0.pt']
    """

    def __init__(
        self,
        logger: Any,
        tag: str | None,
        in_keys: Sequence[NestedKey] | None = None,
        skip: int | None = None,
        center_crop: int | None = None,
        make_grid: bool | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        fps: int | None = None,
        max_frames: int | None = None,
        dump_on_done: bool = False,
        **kwargs: Any,
    ) -> None:
        for name, value in (("skip", skip), ("max_frames", max_frames), ("center_crop", center_crop)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more; got {value}.")
        keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys=keys, out_keys=keys if out_keys is None else out_keys)
        self.video_kwargs = kwargs if fps is None else {**kwargs, "fps": fps}
        self.count = 0
        self._skip = skip
        self.logger = logger.client() if hasattr(logger, "client") else logger
        self.tag = tag
        self.iter = 0
        self.center_crop = center_crop
        self._make_grid = make_grid
        self.max_frames = max_frames
        self.dump_on_done = dump_on_done
        self.obs: list[Tensor] = []

    @property
    def make_grid(self) -> bool:
        """Whether the frames of a batch are put side by side."""
        if self._make_grid is None:
            self._make_grid = self.parent is not None
        return self._make_grid

    @property
    def skip(self) -> int:
        """One of how many frames is kept."""
        if self._skip is None:
            parent = self.parent
            self._skip = 2 if parent is not None and not parent.batch_size else 1
        return self._skip

    def _apply_transform(self, observation: Tensor) -> Tensor:
        self.count += 1
        if self.count % self.skip or (self.max_frames is not None and len(self.obs) >= self.max_frames):
            return observation
        frames = _channels_first(observation)
        if self.center_crop is not None:
            frames = _center(frames, self.center_crop)
        if frames.ndim > 3:
            frames = frames.flatten(0, -4)
            if self.make_grid:
                frames = _tiled(frames)
        kept = frames.unbind(0) if frames.ndim == 4 else [frames]
        room = len(kept) if self.max_frames is None else self.max_frames - len(self.obs)
        self.obs += [frame.clone() for frame in kept[:room]]
        return observation

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.in_keys:
            frames = next_tensordict.get(key, None)
            if frames is not None:
                self._apply_transform(frames)
            elif not self._missing_tolerance:
                raise self._missing(key, next_tensordict)
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Keep the frames of a batch, and return it unchanged.

        Args:
            tensordict: has frames at `in_keys`.

        Raises:
            KeyError: it has none.
        """
        return self._call(tensordict)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        following = self._call(next_tensordict)
        if self.dump_on_done and self._all_done(following):
            self.dump()
        return following

    def _all_done(self, following: Any) -> bool:
        parent = self.parent
        keys = ["done"] if parent is None else parent.done_keys
        return all(bool(following.get(key).all()) for key in keys if as_tuple(key)[-1] == "done")

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def dump(  # type: ignore[override]  # upstream: its own arguments
        self, suffix: str | None = None, step: int | None = None
    ) -> None:
        """Give the logger the video of what came since the last time, if anything came.

        Args:
            suffix: added to the name of the video, behind "_".
            step: when it was; default: how often it was dumped.
        """
        if self.obs and self.logger is not None and self.tag is not None:
            video = torch.stack([frame.cpu() for frame in self.obs]).unsqueeze(0)
            name = self.tag if suffix is None else f"{self.tag}_{suffix}"
            self.logger.log_video(name=name, video=video, step=self.iter if step is None else step, **self.video_kwargs)
        self.count = 0
        self.iter += 1
        self.obs = []

    def to_animation(
        self, *, title: str | None = None, interval: int = 50, repeat_delay: int = 1000, clear: bool = False
    ) -> Any:
        """The frames that are kept as an animation of matplotlib, which notebooks show.

        Args:
            title: above it.
            interval: milliseconds from frame to frame.
            repeat_delay: milliseconds before it begins again.
            clear: forget the frames.

        Raises:
            RuntimeError: there are none.
            ImportError: matplotlib is not installed.
        """
        if not self.obs:
            raise RuntimeError("There are no frames: run the environment before.")
        try:
            from matplotlib import pyplot as plt
            from matplotlib.animation import ArtistAnimation
        except ImportError as error:
            raise ImportError("animations need matplotlib. Run: pip install matplotlib") from error
        figure, axes = plt.subplots()
        axes.axis("off")
        if title is not None:
            axes.set_title(title)
        artists = [[axes.imshow(frame.movedim(0, -1).cpu().numpy(), animated=True)] for frame in self.obs]
        animation = ArtistAnimation(figure, artists, interval=interval, repeat_delay=repeat_delay, blit=True)
        plt.close(figure)
        if clear:
            self.obs = []
        return animation


def _channels_first(frames: Tensor) -> Tensor:
    """Frames as (..., C, H, W) in uint8."""
    if frames.is_floating_point():
        frames = (frames.clamp(0, 1) * 255).round()
    frames = frames.to(torch.uint8)
    if frames.ndim == 2:
        return frames.unsqueeze(0)
    if frames.shape[-1] in (1, 3):
        frames = frames.movedim(-1, -3)
    elif frames.shape[-3] not in (1, 3):
        raise ValueError(
            f"frames are (..., H, W, C) or (..., C, H, W), with one channel or three; got {tuple(frames.shape)}."
        )
    # Upstream: grey frames become three channels, but not those that have no dimension for it.
    return frames.expand(*frames.shape[:-3], 3, *frames.shape[-2:])


def _center(frames: Tensor, size: int) -> Tensor:
    height, width = frames.shape[-2:]
    if size > min(height, width):
        raise ValueError(f"center_crop={size} is larger than the frames, {width} x {height}.")
    top, left = (height - size) // 2, (width - size) // 2
    return frames[..., top : top + size, left : left + size]


def _tiled(frames: Tensor) -> Tensor:
    """Frames, (N, C, H, W), in rows and columns of one, about as many of the ones as of the others."""
    count, channels, height, width = frames.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    lacking = frames.new_zeros((rows * columns - count, channels, height, width))
    tiles = torch.cat([frames, lacking]).reshape(rows, columns, channels, height, width)
    return tiles.permute(2, 0, 3, 1, 4).reshape(channels, rows * height, columns * width)


class TensorDictRecorder(Transform):
    """Keeps what an environment gives, and writes it to a file when `dump` is called.

    The file is BASE.td, or BASE_SUFFIX.td, of a tensordict (time, ...) written by `torch.save`.

    Args:
        out_file_base: path of the file, without its suffix.
        skip_reset: leave out what resets give.
        skip: keep one of so many steps.
        in_keys: keys that are kept; default: all.

    Raises:
        ValueError: `skip` is below 1.
    """

    def __init__(
        self, out_file_base: str, skip_reset: bool = True, skip: int = 4, in_keys: Sequence[str] | None = None
    ) -> None:
        if skip < 1:
            raise ValueError(f"skip must be 1 or more; got {skip}.")
        super().__init__(in_keys=[] if in_keys is None else in_keys, out_keys=[] if in_keys is None else in_keys)
        self.iter = 0
        self.out_file_base = out_file_base
        self.td: list[Any] = []
        self.skip_reset = skip_reset
        self.skip = skip
        self.count = 0

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self.iter += 1
        if self.iter % self.skip == 0:
            kept = next_tensordict.select(*self.in_keys) if self.in_keys else next_tensordict
            self.td.append(kept.clone())
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return tensordict_reset if self.skip_reset else self._call(tensordict_reset)

    def dump(self, suffix: str | None = None) -> None:  # type: ignore[override]  # upstream: its own arguments
        """Write what came since the last time; nothing where nothing came.

        Args:
            suffix: added to the name of the file, behind "_".
        """
        if self.td:
            from flambeau.rl.record._files import save_tensors

            name = self.out_file_base if suffix is None else f"{self.out_file_base}_{suffix}"
            save_tensors(TensorDict.maybe_dense_stack(self.td), Path(f"{name}.td"))
        self.iter = 0
        self.count += 1
        self.td = []


class PixelRenderTransform(Transform):
    """Calls an environment's `render`, and puts what it gives among the observations.

    Args:
        out_keys: where; default: "pixels".
        preproc: from what `render` gives to what is put there.
        as_non_tensor: put it there as it is, whatever its shape. Default: what is no array or tensor of numbers.
        render_method: name of the environment's method.
        pass_tensordict: give it the tensordict of the step, which environments without a state need.
        kwargs: passed on to it, such as `mode="rgb_array"`.

    Example:
        >>> from flambeau.rl.envs import GymEnv
        >>> env = GymEnv("CartPole-v1", render_mode="rgb_array")
        >>> env = env.append_transform(PixelRenderTransform())  # env.rollout(3)["pixels"] is (3, 400, 600, 3)
    """

    def __init__(
        self,
        out_keys: Any = None,
        preproc: Callable[[Any], Any] | None = None,
        as_non_tensor: bool | None = None,
        render_method: str = "render",
        pass_tensordict: bool = False,
        **kwargs: Any,
    ) -> None:
        keys = ["pixels"] if out_keys is None else [out_keys] if isinstance(out_keys, str) else out_keys
        if len(keys) != 1:
            raise ValueError(f"PixelRenderTransform writes to one key; got {keys}.")
        super().__init__(in_keys=[], out_keys=keys)
        self.preproc = preproc
        self.as_non_tensor = as_non_tensor
        self.kwargs = kwargs
        self.render_method = render_method
        self._enabled = True
        self.pass_tensordict = pass_tensordict

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of; its specs are then found out by rendering.

        Args:
            container: a `Compose` or a `TransformedEnv`.
        """
        super().set_container(container)
        self.__dict__.pop("_seen_spec", None)

    @property
    def enabled(self) -> bool:
        """Whether it renders."""
        return self._enabled

    def switch(self, mode: str | bool | None = None) -> None:
        """Render from now on, or stop.

        Args:
            mode: True or "on", False or "off"; default: the contrary of now.

        Raises:
            ValueError: it is something else.
        """
        if mode is None:
            mode = not self._enabled
        if mode in ("on", "off"):
            mode = mode == "on"
        if not isinstance(mode, bool):
            raise ValueError(f"mode must be 'on', 'off', True or False; got {mode!r}.")
        self._enabled = mode
        parent = self.parent
        if parent is not None:
            self.empty_cache()

    def _rendered(self, tensordict: Any) -> Any:
        parent = self.parent
        if parent is None:
            raise RuntimeError("PixelRenderTransform renders an environment; make it part of a TransformedEnv.")
        method = getattr(parent, self.render_method)
        shown = method(tensordict, **self.kwargs) if self.pass_tensordict else method(**self.kwargs)
        if isinstance(shown, list) and len(shown) == 1:
            shown = shown[0]
        if shown is None:
            raise ValueError(
                f"{type(parent).__name__}.{self.render_method} gave nothing; gymnasium's environments want "
                'render_mode="rgb_array" when they are made.'
            )
        if self.preproc is not None:
            shown = self.preproc(shown)
        return shown

    def _as_entry(self, shown: Any, size: torch.Size) -> Any:
        """What is written: a tensor whose first dimensions are the batch's, or whatever it is."""
        if self.as_non_tensor is None:
            self.as_non_tensor = not isinstance(shown, (np.ndarray, Tensor)) and not _are_frames(shown)
        if self.as_non_tensor:
            return NonTensorData(shown, batch_size=size)
        if isinstance(shown, (list, tuple)):
            shown = np.stack([np.asarray(each) for each in shown])
        if isinstance(shown, np.ndarray):
            shown = torch.as_tensor(np.ascontiguousarray(shown))
        if size and shown.shape[: len(size)] != size:
            shown = shown.expand(*size, *shown.shape)
        return shown

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._enabled:
            entry = self._as_entry(self._rendered(next_tensordict), next_tensordict.batch_size)
            if isinstance(entry, Tensor) and next_tensordict.device is not None:
                entry = entry.to(next_tensordict.device)
            next_tensordict.set(self.out_keys[0], entry)
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Raise: only an environment is rendered.

        Args:
            tensordict: whatever.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("PixelRenderTransform renders an environment; data have none.")

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The specs of observations, with what is rendered.

        Args:
            observation_spec: a composite.
        """
        if not self._enabled:
            return observation_spec
        spec = self.__dict__.get("_seen_spec")
        if spec is None:
            spec = self.__dict__["_seen_spec"] = self._made_spec(observation_spec.shape)
        observation_spec[self.out_keys[0]] = spec.clone()  # type: ignore[index]
        return observation_spec

    def _made_spec(self, size: torch.Size) -> TensorSpec:
        parent = self.parent
        assert parent is not None  # specs are asked of environments
        entry = self._as_entry(self._rendered(parent.reset()), size)
        if not isinstance(entry, Tensor):
            return NonTensor(shape=size, device=parent.device)
        return Unbounded(entry.shape, dtype=entry.dtype, device=parent.device)


def _are_frames(shown: Any) -> bool:
    return isinstance(shown, (list, tuple)) and bool(shown) and all(isinstance(each, np.ndarray) for each in shown)
