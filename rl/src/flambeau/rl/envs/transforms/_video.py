"""Frames of videos that data refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from flambeau.rl.data.video import VideoClipRef
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["DecodeVideoTransform"]


class DecodeVideoTransform(Transform):
    """The frames of `VideoClipRef`s, decoded when data are sampled: a buffer holds references, a sample pictures.

    Neighbouring frames of one video are read at once, so that slices of trajectories cost one seek each.

    Args:
        in_keys: of the references.
        out_keys: of frames (*batch, 3, height, width); default: `in_keys`, in the place of the references.
        device: where frames go; default: as the reference says, or where it is.
        dtype: what they are; default: as the reference says, or uint8 in [0, 255].

    Raises:
        ImportError: when it is called: PyAV is not installed.
        TypeError: when it is called: what is at `in_keys` is no `VideoClipRef`.
        DatasetFormatError: when it is called: a video cannot be read.

    Example:
        >>> DecodeVideoTransform(in_keys=["frame"], out_keys=["pixels"]).out_keys
        ['pixels']
    """

    invertible = False

    def __init__(
        self, *, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey] | None = None, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys)
        self.device = device
        self.dtype = dtype

    def _apply_transform(self, value: Any) -> Tensor:
        if not isinstance(value, VideoClipRef):
            raise TypeError(
                f"DecodeVideoTransform decodes VideoClipRef, as VideoClipRef.from_file makes them; got {type(value)}."
            )
        return value.decode(device=self.device, dtype=self.dtype)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)
