"""Masks of boxes, enlarged into pictures: as probabilities, or as run lengths of what is above a threshold.

The native kernel is `native/masks.cpp`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY

_PASTE, _CODES = "_paste_masks", "_mask_codes"


def paste_masks(masks: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Enlarge masks to their boxes, in pictures of zeros.

    Args:
        masks: (N, 1, M, M), float32.
        boxes: (N, 4), int64: first and last column and row that a mask covers, as x1, y1, x2, y2; anywhere.
        size: height and width of the pictures.

    Returns:
        (N, 1, *size), float32.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return torch.ops.flambeau_vision._paste_masks(masks, boxes, *size)  # type: ignore[no-any-return]


def mask_codes(masks: Tensor, boxes: Tensor, size: tuple[int, int], threshold: float) -> list[bytes]:
    """Run lengths of where enlarged masks are above a threshold, as COCO's tools write them.

    Lengths are those of runs of zeros and ones in turn, down the columns of the picture, zeros first. From the fourth
    on the difference to the length two before is written; every character holds five bits, the least first, and a sixth
    that says whether more follow, plus 48.

    Args:
        masks: as for `paste_masks`.
        boxes: as for `paste_masks`.
        size: height and width of the pictures.
        threshold: a pixel is set if its value is above this.

    Returns:
        One for each mask.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    codes, ends = torch.ops.flambeau_vision._mask_codes(masks, boxes, *size, threshold)
    text, places = bytes(codes.tolist()), ends.tolist()
    return [text[begin:end] for begin, end in zip([0, *places], places, strict=False)]


# --- shape-only twins -----------------------------------------------------------------------------


def _check(op: str, masks: Tensor, boxes: Tensor, height: int, width: int) -> None:
    """The same sentences as `valid` in native/masks.cpp."""
    if masks.dim() != 4 or masks.shape[1] != 1 or masks.shape[2] != masks.shape[3] or masks.shape[2] < 1:
        raise RuntimeError(f"{op}: masks has shape {tuple(masks.shape)}, expected (N, 1, M, M).")
    if masks.dtype != torch.float32:
        raise RuntimeError(f"{op}: masks has dtype {masks.dtype}, expected torch.float32; convert it.")
    if boxes.dim() != 2 or boxes.shape[0] != masks.shape[0] or boxes.shape[1] != 4:
        raise RuntimeError(
            f"{op}: boxes has shape {tuple(boxes.shape)}, expected ({masks.shape[0]}, 4): one for each mask."
        )
    if boxes.dtype != torch.int64:
        raise RuntimeError(f"{op}: boxes has dtype {boxes.dtype}, expected torch.int64; convert it.")
    if height < 1 or width < 1:
        raise RuntimeError(f"{op}: the picture's size is ({height}, {width}), expected at least (1, 1).")


def _fake_paste(masks: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    _check(_PASTE, masks, boxes, height, width)
    return masks.new_empty((masks.shape[0], 1, height, width))


def _fake_codes(masks: Tensor, boxes: Tensor, height: int, width: int, threshold: float) -> tuple[Tensor, Tensor]:
    _check(_CODES, masks, boxes, height, width)
    length = torch.library.get_ctx().new_dynamic_size()
    return masks.new_empty(length, dtype=torch.uint8), masks.new_empty(masks.shape[0], dtype=torch.int64)


# --- reference ------------------------------------------------------------------------------------


def _reference_paste(masks: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    _check(_PASTE, masks, boxes, height, width)
    # One allocation; only the pixels inside boxes are computed and written.
    pictures = masks.new_zeros(masks.shape[0], 1, height, width)
    for index, box in enumerate(boxes.tolist()):
        paste_one(masks[index, 0], box, pictures[index, 0])
    return pictures


def paste_one(mask: Tensor, box: list[int], picture: Tensor) -> None:
    """Write a mask (M, M) into a picture (H, W), enlarged to its box: x1, y1, x2, y2, ends included."""
    left, top, right, bottom = box
    height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
    rows = slice(max(top, 0), max(min(bottom + 1, picture.shape[0]), 0))
    columns = slice(max(left, 0), max(min(right + 1, picture.shape[1]), 0))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    enlarged = interpolate(mask[None, None], size=(height, width), mode="bilinear", align_corners=False)[0, 0]
    picture[rows, columns] = enlarged[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]


def _reference_codes(masks: Tensor, boxes: Tensor, height: int, width: int, threshold: float) -> tuple[Tensor, Tensor]:
    _check(_CODES, masks, boxes, height, width)
    codes, ends = bytearray(), []
    for index in range(len(masks)):
        picture = _reference_paste(masks[index : index + 1], boxes[index : index + 1], height, width)[0, 0]
        codes += _text(_lengths(picture > threshold))
        ends.append(len(codes))
    text = torch.tensor(list(codes), dtype=torch.uint8, device=masks.device)
    return text, torch.tensor(ends, dtype=torch.int64, device=masks.device)


def _lengths(mask: Tensor) -> list[int]:
    """Run lengths of a mask (H, W), down its columns, zeros first."""
    values = mask.T.flatten()
    changes = (values[1:] != values[:-1]).nonzero().flatten() + 1
    places = [0, *changes.tolist(), values.numel()]
    lengths = [end - begin for begin, end in pairwise(places)]
    return [0, *lengths] if values[0] else lengths


def _text(lengths: list[int]) -> bytes:
    characters = bytearray()
    for index, length in enumerate(lengths):
        value, more = length - (lengths[index - 2] if index > 2 else 0), True
        while more:
            bits, value = value & 31, value >> 5
            more = value != (-1 if bits & 16 else 0)
            characters.append(48 + bits + 32 * more)
    return bytes(characters)


# --- native kernel through ctypes -----------------------------------------------------------------

_function: list[Callable[..., Any]] = []


def _native_paste(masks: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    _check(_PASTE, masks, boxes, height, width)
    if not _function:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        types = [pointer, pointer, *[number] * 4, pointer, ctypes.c_int32]
        _function.append(LIBRARY.function("fb_paste_masks_f32", types, ctypes.c_int64))
    pictures = masks.new_empty(masks.shape[0], 1, height, width)
    masks, boxes = masks.contiguous(), boxes.contiguous()
    status = _function[0](
        masks.data_ptr(), boxes.data_ptr(), *masks.shape[::2], height, width, pictures.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    if status != 0:
        raise RuntimeError(f"{_PASTE}: no memory left.")
    return pictures


# --- registration ---------------------------------------------------------------------------------

register_op(
    "_paste_masks(Tensor masks, Tensor boxes, SymInt height, SymInt width) -> Tensor",
    library=LIBRARY,
    symbol=_native_paste,
    fake=_fake_paste,
    python=_reference_paste,
)
register_op(
    "_mask_codes(Tensor masks, Tensor boxes, SymInt height, SymInt width, float threshold) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_codes,
    python=_reference_codes,
)
