"""Writing in process, through PyAV."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from flambeau.audio.io._destination import Destination
from flambeau.audio.io._encode import AudioEncoder, VideoEncoder
from flambeau.audio.io._libav import errors, libav
from flambeau.audio.io._output_options import AudioWish, Wish


class AvMuxer:
    """An open container and the encoders of its streams.

    Args:
        destination: where it goes.
        format: the container, None to tell it by the name.
        buffer_size: bytes written at once.

    Raises:
        MediaError: FFmpeg cannot write there.
        MissingFFmpegError: PyAV is not installed.
    """

    def __init__(self, destination: Destination, format: str | None, buffer_size: int) -> None:
        av = libav()
        self._name = destination.name
        self._streams: list[AudioEncoder | VideoEncoder] = []
        with errors(f"Failed to open the output {self._name}"):
            self._container: Any = av.open(destination.target, "w", format=format, buffer_size=max(buffer_size, 4096))

    def add(self, wish: Wish) -> None:
        """Add a stream.

        Raises:
            MediaError: no such encoder, or it does not take what is asked.
        """
        kind: Any = AudioEncoder if isinstance(wish, AudioWish) else VideoEncoder
        self._streams.append(kind(self._container, self._name, wish))

    def start(self, metadata: dict[str, str], option: dict[str, str]) -> None:
        """Write the header.

        Raises:
            MediaError: muxer or encoder refuse what they were given.
        """
        self._container.metadata.update(metadata)
        self._container.options.update(option)
        with errors(f"Failed to open the output {self._name}"):
            self._container.start_encoding()

    def write(self, i: int, chunk: Tensor, pts: float | None) -> None:
        """Encode a chunk of stream `i`."""
        self._mux(self._streams[i].encode(chunk, pts))

    def flush(self) -> None:
        """Write what the encoders still hold."""
        for stream in self._streams:
            self._mux(stream.flush())

    def finish(self) -> None:
        """Write the trailer and close."""
        with errors(f"Failed to finish {self._name}"):
            self._container.close()

    def abandon(self) -> None:
        """Close what nobody will read."""
        av = libav()
        with contextlib.suppress(av.FFmpegError, OSError, ValueError):  # that it cannot be finished is no news
            self._container.close()

    def _mux(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            with errors(f"Failed to write {self._name}"):
                self._container.mux(packet)
