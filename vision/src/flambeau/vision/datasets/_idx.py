"""The IDX format of the MNIST family: arrays with a header of a few bytes.

Layout: two zero bytes, a byte for the element type, a byte for the number of dimensions, each dimension as a
big-endian int32, then the elements, big-endian. http://yann.lecun.com/exdb/mnist/
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError

__all__ = ["IdxError", "read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class IdxError(FlambeauError, ValueError):
    """A file that is no IDX file, or not a whole one."""


def read_idx(path: str | Path) -> Tensor:
    """The array in an IDX file, in its own element type and shape.

    Raises:
        IdxError: the header is none of IDX, or the file is shorter or longer than it says.
    """
    content = Path(path).read_bytes()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise IdxError(f"{path} starts with {content[:4].hex() or 'nothing'}, which is no IDX header; fetch it again.")
    start = 4 + 4 * content[3]
    shape = [int(size) for size in np.frombuffer(content[4:start], ">i4")] if len(content) >= start else [-1]
    kind = np.dtype(_TYPES[content[2]])
    expected = start + kind.itemsize * int(np.prod(shape, dtype=np.int64))
    if min(shape, default=0) < 0 or len(content) != expected:
        raise IdxError(f"{path} has {len(content):,} bytes, but its header announces shape {shape}; fetch it again.")
    elements = np.frombuffer(content, kind, offset=start).reshape(shape)
    return torch.from_numpy(elements.astype(kind.newbyteorder("=")))
