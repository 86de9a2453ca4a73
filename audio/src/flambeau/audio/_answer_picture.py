"""The picture of a recording with its words: the waveform, its spectrogram, and each word where it was understood."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont
    from torch import Tensor

__all__ = ["draw_recording"]

_MARGIN, _WAVE, _SPECTRUM, _SCALE, _FONT = 24, 120, 220, 22, 16  # heights and sizes in pixels
_NARROWEST, _WIDEST, _A_SECOND = 640, 4000, 220  # widths in pixels
_INK, _PAPER, _WAVE_INK, _WORD_INK, _GRID = (28, 32, 40), (255, 255, 255), (46, 98, 160), (190, 40, 30), (205, 208, 214)
_FAINTEST_DB = 80.0


def draw_recording(waveform: Tensor, sample_rate: int, words: Sequence[tuple[float, str]], path: Path) -> None:
    """Draw a recording and its words.

    Args:
        waveform: (time,), floating point in [-1, 1]; may be empty.
        sample_rate: in Hz.
        words: the second at which each was understood, which is about its end, and its text.
        path: of the picture; its suffix names the format.

    Raises:
        PredictError: Pillow is not installed, or the suffix names no format that it has.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise PredictError("--out needs Pillow to draw a recording. Run: pip install pillow") from error
    seconds = max(len(waveform) / sample_rate, 1e-3)
    width = round(min(max(seconds * _A_SECOND, _NARROWEST), _WIDEST))
    font = _font()
    rows = _rows([(round(at / seconds * (width - 1)), text) for at, text in words], width, font)
    labels = _MARGIN * (1 + max((row for _, _, row in rows), default=0)) + 6
    picture = Image.new("RGB", (width + 2 * _MARGIN, labels + _WAVE + _SPECTRUM + _SCALE + _MARGIN), _PAPER)
    pen = ImageDraw.Draw(picture)
    top = labels
    _draw_waveform(pen, waveform.float().cpu(), width, top)
    picture.paste(_spectrogram(waveform.float().cpu(), sample_rate, width), (_MARGIN, top + _WAVE))
    _draw_seconds(pen, seconds, width, top + _WAVE + _SPECTRUM, font)
    for place, text, row in rows:
        x, y = _MARGIN + place, 4 + row * _MARGIN
        pen.line([(x, y + 4), (x, top + _WAVE + _SPECTRUM - 1)], _WORD_INK)
        left = max(x - 4 - font.getlength(text), 2)  # the word was spoken before it was understood
        pen.text((left, y), text, _WORD_INK, font=font)
    try:
        picture.save(path)
    except ValueError as error:
        raise PredictError(f"--out: {path.name!r} names no image format; use .png, .jpg or .webp.") from error


@functools.lru_cache(maxsize=1)
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(_FONT)


def _rows(words: list[tuple[int, str]], width: int, font: Any) -> list[tuple[int, str, int]]:
    """A row for each word, the highest where it does not run into the one before it."""
    placed: list[tuple[int, str, int]] = []
    ends: list[float] = []
    for place, text in words:
        begin = max(place - font.getlength(text) - 14, 0)
        row = next((i for i, end in enumerate(ends) if end <= begin), len(ends))
        ends[row : row + 1] = [max(place, begin + font.getlength(text) + 14)]
        placed.append((place, text, row))
    return placed


def _draw_waveform(pen: ImageDraw.ImageDraw, waveform: Tensor, width: int, top: int) -> None:
    """The least and the greatest sample of each column, loudest at full height."""
    middle = top + _WAVE // 2
    pen.line([(_MARGIN, middle), (_MARGIN + width - 1, middle)], _GRID)
    loudest = float(waveform.abs().max()) if len(waveform) else 0.0
    if loudest == 0.0:
        return
    height = (_WAVE // 2 - 4) / loudest
    for column in range(width):
        begin = column * len(waveform) // width
        piece = waveform[begin : max((column + 1) * len(waveform) // width, begin + 1)]
        low, high = middle - float(piece.min()) * height, middle - float(piece.max()) * height
        pen.line([(_MARGIN + column, high), (_MARGIN + column, low)], _WAVE_INK)


def _spectrogram(waveform: Tensor, sample_rate: int, width: int) -> Image.Image:
    """Mel bands in shades of grey, high ones at the top, down to 80 dB below the loudest."""
    import torch
    from PIL import Image

    from flambeau.audio.transforms import AmplitudeToDB, MelSpectrogram

    size = 1 << max(5, round(0.032 * sample_rate) - 1).bit_length()
    padded = torch.nn.functional.pad(waveform, (0, max(0, size - len(waveform))))
    mel = MelSpectrogram(sample_rate, n_fft=size, hop_length=max(1, len(padded) // width), n_mels=64)(padded)
    decibels = AmplitudeToDB(top_db=_FAINTEST_DB)(mel)
    shade = (decibels.max() - decibels) / _FAINTEST_DB  # 0 for the loudest
    grey = (shade.clamp(0, 1).flip(0) * 255).to(torch.uint8).numpy()
    return Image.fromarray(grey).resize((width, _SPECTRUM), Image.Resampling.BILINEAR).convert("RGB")


def _draw_seconds(pen: ImageDraw.ImageDraw, seconds: float, width: int, top: int, font: Any) -> None:
    """A scale below, with about ten marks."""
    step = next((s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 3600) if seconds / s <= 12), 3600.0)
    for mark in range(int(seconds / step) + 1):
        x = _MARGIN + round(mark * step / seconds * (width - 1))
        pen.line([(x, top), (x, top + 5)], _INK)
        text = f"{mark * step:g} s"
        pen.text((min(x + 3, width + 2 * _MARGIN - 2 - font.getlength(text)), top + 3), text, _INK, font=font)
