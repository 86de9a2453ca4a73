"""Batches of several frames from buffers that store each frame once."""

from __future__ import annotations

from typing import Any

from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._keys import ExcludeTransform


def batches_of_windows(frames: Any, **sampler_kwargs: Any) -> tuple[Compose, SliceSampler]:
    """A buffer's transform and sampler for the last step of windows of N, with all frames of the window.

    Args:
        frames: a `CatFrames`.
        sampler_kwargs: of `SliceSampler`.
    """
    in_keys = _with_next(frames.in_keys)
    out_keys = _with_next(frames.out_keys)
    offline = type(frames)(
        frames.N, frames.dim, in_keys, out_keys, frames.padding, frames.padding_value, done_key=frames.done_key
    )
    # What the environment has concatenated is not stored: it is made anew.
    not_stored = ExcludeTransform(*(key for key in out_keys if key not in in_keys), inverse=True)
    return (
        Compose(_Windows(frames.N), offline, _last_steps, not_stored),
        WindowSampler(slice_len=frames.N, **sampler_kwargs),
    )


def _with_next(keys: list[NestedKey]) -> list[NestedKey]:
    return [*keys, *(("next", *as_tuple(key)) for key in keys)]


class _Windows:
    """Steps of windows one behind the other -> (windows, N)."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, batch: Any) -> Any:
        return batch.reshape(-1, self.length)


def _last_steps(windows: Any) -> Any:
    """(windows, N) -> the last step of each."""
    return windows[:, -1]


class WindowSampler(SliceSampler):
    """Draws slices of which one step each is asked for."""

    def sample(self, storage: Any, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw the steps of as many slices.

        Args:
            storage: to draw from.
            batch_size: how many.
        """
        return super().sample(storage, batch_size * self.slice_len)  # type: ignore[operator]
