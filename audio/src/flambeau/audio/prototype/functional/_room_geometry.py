"""What the two simulations of rooms are given alike: places, and what walls do to energy."""

from __future__ import annotations

import torch
from torch import Tensor


def check_places(name: str, room: Tensor, source: Tensor, mic_array: Tensor) -> None:
    """Refuse what is not a box of three dimensions with a source and microphones inside.

    Raises:
        ValueError: shapes or dtypes that do not go together.
    """
    shapes = tuple(room.shape), tuple(source.shape), tuple(mic_array.shape)
    if shapes[:2] != ((3,), (3,)) or mic_array.dim() != 2 or mic_array.shape[1] != 3:
        raise ValueError(
            f"{name}: room, source and mic_array have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; expected (3,), "
            "(3,) and (channel, 3)."
        )
    if not room.is_floating_point() or not room.dtype == source.dtype == mic_array.dtype:
        raise ValueError(
            f"{name}: room, source and mic_array are {room.dtype}, {source.dtype} and {mic_array.dtype}; expected one "
            "floating dtype."
        )


def coefficients(name: str, which: str, value: float | Tensor, like: Tensor) -> Tensor:
    """A number for each wall and band, of a number, (6,) or (bands, 6); (bands, 6).

    Walls are west, east, south, north, floor, ceiling: at 0 and at the end of each dimension.

    Raises:
        ValueError: another shape, or a number outside of [0, 1].
    """
    table = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if table.dim() == 0:
        table = table.expand(1, 6)
    elif table.dim() == 1:
        table = table.unsqueeze(0)
    if table.dim() != 2 or table.shape[1] != 6:
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        raise ValueError(f"{name}: {which} has shape {shape}, expected a number, (6,) or (bands, 6).")
    if not torch.compiler.is_compiling() and bool(((table < 0) | (table > 1)).any()):
        raise ValueError(f"{name}: {which} has numbers outside of [0, 1]; it is a share of energy.")
    return table
