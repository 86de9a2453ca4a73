"""Chunks on their way out: a tensor that knows its time, and the store of one output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.io._interleaving import Block


class ChunkTensor(Tensor):
    """Frames with the time of the first one. Whatever is computed from it is a plain tensor.

    Attributes:
        pts: seconds of the first frame on the source's clock.

    Args:
        _elem: the frames: (frames, channels) of audio, (frames, C, H, W) of video.
        pts: see above.
    """

    _elem: Tensor
    pts: float

    @staticmethod
    def __new__(cls, _elem: Tensor, pts: float = 0.0) -> ChunkTensor:
        """Wrap frames without copying them."""
        chunk: ChunkTensor = Tensor._make_subclass(cls, _elem)
        chunk._elem = _elem
        chunk.pts = pts
        return chunk

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute on the plain tensors."""
        with torch._C.DisableTorchFunctionSubclass():
            return func(*_plain(args), **_plain(dict(kwargs or {})))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Keep the time when pickled or copied."""
        return ChunkTensor, (self._elem, self.pts)

    def __deepcopy__(self, memo: dict[int, Any]) -> ChunkTensor:
        """Keep the time."""
        return ChunkTensor(self._elem.clone(), self.pts)


def _plain(value: Any) -> Any:
    if isinstance(value, ChunkTensor):
        return value._elem
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_plain, value))
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class ChunkBuffer:
    """The chunks of one output, oldest first.

    Args:
        frames_per_chunk: frames of a full chunk; -1 for one chunk of all that there is.
        most_chunks: how many are kept; -1 for all.
        rate: frames a second, to give the time within a block; 0 where unknown.
    """

    def __init__(self, frames_per_chunk: int, most_chunks: int, rate: float) -> None:
        self._per_chunk = frames_per_chunk
        self._most = most_chunks
        self._rate = rate
        self._chunks: deque[tuple[Tensor, float]] = deque()
        self.span_s: tuple[float, float] | None = None  # first time and end of all that came

    def push(self, block: Block) -> None:
        """Add a block; an engine gives whole chunks, and fewer frames than that only at the end."""
        self._chunks.append((block.frames, block.pts))
        end = block.pts + (len(block.frames) / self._rate if self._rate else 0.0)
        self.span_s = (block.pts if self.span_s is None else self.span_s[0], end)

    def __len__(self) -> int:
        return len(self._chunks)

    def trim(self) -> None:
        """Forget the oldest chunks where there are more than may be kept."""
        if self._most > 0 and self._per_chunk > 0:
            while len(self._chunks) > self._most:
                self._chunks.popleft()

    @property
    def chunk_s(self) -> float:
        """Seconds of a full chunk, 0 where unknown."""
        return max(self._per_chunk, 1) / self._rate if self._rate else 0.0

    @property
    def ready(self) -> bool:
        """Whether there is a full chunk."""
        return bool(self._chunks) and (self._per_chunk < 0 or len(self._chunks[0][0]) == self._per_chunk)

    def pop(self, *, ended: bool) -> ChunkTensor | None:
        """The oldest chunk, None where there is none; one that is not full only when no more come."""
        if not self.ready and not (ended and self._chunks):
            return None
        if self._per_chunk > 0:
            return ChunkTensor(*self._chunks.popleft())
        pts = self._chunks[0][1]
        frames = torch.cat([chunk for chunk, _ in self._chunks])
        self._chunks.clear()
        return ChunkTensor(frames, pts)

    def clear(self) -> None:
        """Forget everything."""
        self._chunks.clear()
        self.span_s = None
