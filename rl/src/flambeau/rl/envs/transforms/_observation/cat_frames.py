"""`CatFrames`: the last frames of an episode as one observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import ObservationTransform, Transform, tolerating_missing
from flambeau.rl.envs.transforms._observation.frame_batches import batches_of_windows
from flambeau.rl.envs.transforms._observation.spec_mapping import mapped
from flambeau.rl.envs.transforms.functional import frames_at, joined

__all__ = ["CatFrames"]

Keys = Sequence[NestedKey] | None


class CatFrames(ObservationTransform):
    """The last N observations of an episode, one behind the other along a dimension.

    In an environment it keeps the frames it has seen. Of data that have a dimension of time, which is the last of the
    batch, such as samples of a replay buffer, it takes the frames from there; those of other episodes, which it tells
    by their ends, are padded.

    Args:
        N: number of frames.
        dim: along which frames are concatenated; counted from the end.
        in_keys: of observations; default: "pixels".
        out_keys: where to write them; default: `in_keys`.
        padding: what stands for frames before the first of an episode: "same" repeats the first, "constant" takes
            `padding_value`.
        padding_value: see `padding`.
        as_inverse: concatenate frames on their way into a replay buffer, not on their way out.
        reset_key: of the masks of what was reset; default: that of the environment, which must have one.
        done_key: of ends of episodes, below "next"; default: "done".
        future: take the next N frames, the present one first, of data with a dimension of time.
        mask_key: where to write which frames are padded, (*batch, time, N), of data with a dimension of time.

    Raises:
        ValueError: `dim` is not negative, or the padding is of another kind.
        TypeError: the padding value is no number.

    References:
        Mnih et al. 2013, "Playing Atari with Deep Reinforcement Learning", arXiv:1312.5602, section 4.1.
    """

    inplace = False
    future = False
    mask_key: NestedKey | None = None

    def __init__(
        self, N: int, dim: int, in_keys: Keys = None, out_keys: Keys = None, padding: str = "same",
        padding_value: float = 0, as_inverse: bool = False, reset_key: NestedKey | None = None,
        done_key: NestedKey | None = None, future: bool = False, mask_key: NestedKey | None = None,
    ) -> None:  # fmt: skip
        in_keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if dim >= 0:
            raise ValueError(f"CatFrames: dim is {dim}; it is counted from the end, and must be negative.")
        if padding not in ("same", "constant"):
            raise ValueError(f"CatFrames: padding is {padding!r}, expected 'same' or 'constant'.")
        if not isinstance(padding_value, int | float | Tensor):
            raise TypeError(f"CatFrames: padding_value is {padding_value!r}, expected a number.")
        self.N, self.dim = N, dim
        self.padding, self.padding_value = padding, padding_value
        self.as_inverse, self.future, self.mask_key = as_inverse, future, mask_key
        self._reset_key, self._done_key = reset_key, done_key

    @property
    def reset_key(self) -> NestedKey:
        """The key of the masks of what was reset.

        Raises:
            RuntimeError: none was given, and the environment has several.
        """
        if self._reset_key is None:
            keys = self.parent.reset_keys
            if len(keys) > 1:
                raise RuntimeError(
                    f"CatFrames: the environment has the reset keys {keys}; say by `reset_key` which one begins "
                    "episodes of these frames."
                )
            self._reset_key = keys[0]
        return self._reset_key

    @property
    def done_key(self) -> NestedKey:
        """The key of the ends of episodes, below "next"."""
        return "done" if self._done_key is None else self._done_key

    # In an environment

    def _call(self, next_tensordict: Any) -> Any:
        return self._online(next_tensordict, None, False)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        mask = None if tensordict is None else tensordict.get(self.reset_key, None)
        with tolerating_missing(self):
            return self._online(tensordict_reset, mask, True)

    def _online(self, tensordict: Any, mask: Tensor | None, begins: bool) -> Any:
        self._check_online()
        for in_key, out_key in self._pairs():
            frame = tensordict.get(in_key, None)
            if frame is None:
                if not self._missing_tolerance:
                    raise self._missing(in_key, tensordict)
                continue
            tensordict.set(out_key, self._pushed(f"_cat_buffers_{in_key}", frame, mask, begins))
        return tensordict

    def _check_online(self) -> None:
        if self.as_inverse or self.future or self.mask_key is not None:
            raise RuntimeError(
                "CatFrames with as_inverse=True, future=True or a mask_key is for replay buffers; an environment shows "
                "one frame at a time, the next one later."
            )

    def _pushed(self, name: str, frame: Tensor, mask: Tensor | None, begins: bool) -> Tensor:
        """All frames after one more; kept apart from what is returned, which others may change."""
        kept = self._buffers.get(name)
        if kept is None:
            frames = self._first(frame)
            self.register_buffer(name, frames.clone())
            return frames
        if not begins:
            size = frame.shape[self.dim]
            frames = torch.cat([kept.narrow(self.dim, size, kept.shape[self.dim] - size), frame], self.dim)
        else:
            frames = self._first(frame)
            if mask is not None:
                frames = torch.where(spread(mask, frames), frames, kept)
        kept.copy_(frames)
        return frames

    def _first(self, frame: Tensor) -> Tensor:
        """The frames after the first of an episode."""
        if self.padding == "same":
            return torch.cat([frame] * self.N, self.dim)
        return torch.cat([torch.full_like(frame, self.padding_value)] * (self.N - 1) + [frame], self.dim)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of several frames.

        Args:
            observation_spec: a composite.
        """
        if self.future:
            self._check_online()
        return mapped(observation_spec, lambda value: torch.cat([value] * self.N, self.dim))

    # Of data with a dimension of time

    def forward(self, tensordict: Any) -> Any:
        """Concatenate the frames of data with a dimension of time.

        Args:
            tensordict: with ends of episodes below "next", and time as the last dimension of its batch; changed in
                place.

        Raises:
            ValueError: it has no such dimension.
        """
        return tensordict if self.as_inverse else self.unfolding(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return self.unfolding(tensordict) if self.as_inverse else tensordict

    def unfolding(self, tensordict: Any) -> Any:
        """Concatenate the frames of data with a dimension of time, see `forward`."""
        if not tensordict.ndim or tensordict.names[-1] not in (None, "time"):
            raise ValueError(
                "CatFrames: data need a dimension of time, as the last of their batch; the batch is "
                f"{tuple(tensordict.batch_size)}, its names {tensordict.names}."
            )
        time = tensordict.ndim - 1
        index, real = self._index(self._ends(tensordict), time)
        found: dict[Any, Tensor] = {}
        for in_key, out_key in self._pairs():
            parts = as_tuple(in_key)
            value = tensordict.get(in_key)
            root = as_key(parts[1:]) if parts[0] == "next" and len(parts) > 1 else None
            before = tensordict.get(root) if root in self.in_keys else None
            if before is None or self.future:
                frames = self._frames(value, time, index, real)
            else:
                # What comes next follows the frames until now, also where the episode ends with it.
                frames = self._frames(before, time, index, real).narrow(time + 1, 1, self.N - 1)
                frames = torch.cat([frames, value.unsqueeze(time + 1)], time + 1)
            found[out_key] = joined(frames, time + 1, self.dim)
        for key, value in found.items():
            tensordict.set(key, value)
        if self.mask_key is not None:
            tensordict.set(self.mask_key, ~real)
        return tensordict

    def make_rb_transform_and_sampler(self, batch_size: int, **sampler_kwargs: Any) -> tuple[Transform, SliceSampler]:
        """What a replay buffer of single frames needs to give batches of N frames, as the environment shows them.

        Args:
            batch_size: of the buffer: how many observations of N frames are drawn.
            sampler_kwargs: of `SliceSampler`; by default it draws from trajectories of N steps at least, by their ends.

        Returns:
            The transform of the buffer, and its sampler.

        Example:
            >>> from flambeau.rl.data import LazyTensorStorage, TensorDictReplayBuffer
            >>> frames = CatFrames(N=4, dim=-3, in_keys=["pixels"])
            >>> transform, sampler = frames.make_rb_transform_and_sampler(batch_size=32)
            >>> buffer = TensorDictReplayBuffer(
            ...     storage=LazyTensorStorage(100), sampler=sampler, transform=transform, batch_size=32
            ... )
        """
        if batch_size < 1:
            raise ValueError(f"CatFrames: batch_size is {batch_size}, expected at least 1.")
        return batches_of_windows(self, **sampler_kwargs)

    def _ends(self, tensordict: Any) -> Tensor:
        key = ("next", *as_tuple(self.done_key))
        done = tensordict.get(key, None)
        if done is None:
            raise KeyError(
                f"CatFrames: data need {key!r}, the ends of episodes, across which no frames are taken; their keys are "
                f"{list(tensordict.keys(True, True))}."
            )
        return done  # type: ignore[no-any-return]

    def _index(self, done: Tensor, time: int) -> tuple[Tensor, Tensor]:
        """Which frames are taken at every time, (*batch, time, N), and which of them are real."""
        done = done.reshape(*done.shape[: time + 1], -1).any(-1)
        steps = torch.arange(done.shape[-1], device=done.device)
        if self.future:
            last = torch.where(done, steps, len(steps) - 1).flip(-1).cummin(-1).values.flip(-1).unsqueeze(-1)
            index = steps.unsqueeze(-1) + torch.arange(self.N, device=done.device)
            return torch.minimum(index, last), index <= last
        starts = torch.zeros_like(done)
        starts[..., 1:] = done[..., :-1]
        first = torch.where(starts, steps, 0).cummax(-1).values.unsqueeze(-1)
        index = steps.unsqueeze(-1) + torch.arange(1 - self.N, 1, device=done.device)
        return torch.maximum(index, first), index >= first

    def _frames(self, value: Tensor, time: int, index: Tensor, real: Tensor) -> Tensor:
        frames = frames_at(value, time, index)
        if self.padding == "constant":
            absent = ~real
            frames.masked_fill_(absent.reshape(*absent.shape, *[1] * (frames.ndim - absent.ndim)), self.padding_value)
        return frames
