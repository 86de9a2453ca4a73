"""Pictures out of samples, by whatever vision plugin is installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch


class ImageDecoder:
    """Decodes the pictures of dictionary samples, such as those of tar shards, with the decoder of the vision plugin.

    The plugin is found through the registry of installed plugins when the first picture comes.

    Args:
        keys: the suffixes that hold pictures; the decoded one is put under `to`.
        to: key of the result, uint8 [C, H, W].
        mode: channels, for example "RGB".
        min_size: for training that resizes anyway: JPEG is decoded at 1/2, 1/4 or 1/8 of its size as long as its
            shorter side keeps so many pixels, which takes a fraction of the time.
        then: applied to the picture, for example a resize.

    Raises:
        PluginError: on use, where no vision plugin is installed; the message says how to install it.
    """

    def __init__(
        self,
        keys: tuple[str, ...] = ("jpg", "jpeg", "png", "webp"),
        *,
        to: str = "image",
        mode: str = "RGB",
        min_size: int | None = None,
        then: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        self._keys, self._to, self._mode, self._min_size, self._then = keys, to, mode, min_size, then

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample with its picture decoded."""
        decoded = dict(sample)
        for key in self._keys:
            if key in decoded:
                decoded[self._to] = self._decode(decoded.pop(key))
        return decoded

    def _decode(self, content: bytes) -> torch.Tensor:
        raw = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        picture = _decoder()(raw, self._mode, min_size=self._min_size)
        return picture if self._then is None else self._then(picture)


@functools.cache
def _decoder() -> Callable[..., torch.Tensor]:
    from flambeau.core.plugins import load_plugin

    decode: Callable[..., torch.Tensor] = import_module(f"{load_plugin('vision').package}.io").decode_image
    return decode
