"""Sources that can be opened only once: the program receives, and PyAV reads what the program passes on undecoded.

Finding out what a stream holds and decoding it then need one connection, its packets keep their clocks, and a source
that stops is ended by ending the program.
"""

from __future__ import annotations

import io
from typing import IO

from flambeau.audio.io._process import Child
from flambeau.audio.io._program import find_ffmpeg
from flambeau.audio.io._source import Source

# NUT has no times below 0, which the first packets of a session often have; readers take this off again. A whole number
# of seconds is one of ticks of any clock.
OFFSET_S = 3600


class Relay(io.RawIOBase):
    """What the program receives from a source, as a file in the NUT container.

    Args:
        source: an address or a device.

    Raises:
        MediaError: the program cannot be started.
        MissingFFmpegError: there is none.
    """

    def __init__(self, source: Source) -> None:
        words = [] if source.format is None else ["-f", source.format]
        for key, value in source.option.items():
            words += [f"-{key}", value]
        self.child = Child(
            [
                find_ffmpeg(), "-hide_banner", "-nostdin", "-v", "error", "-nostats", "-copyts", *words,
                "-i", source.url, "-map", "0", "-sn", "-dn", "-ignore_unknown", "-c", "copy",
                "-avoid_negative_ts", "disabled", "-output_ts_offset", str(OFFSET_S),
                "-max_interleave_delta", "500000", "-flush_packets", "1",
                "-f", "nut", "pipe:1",
            ],
            stdout=True,
        )  # fmt: skip
        assert self.child.stdout is not None
        self._pipe: IO[bytes] = self.child.stdout

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """What is there, up to `size` bytes; none when the source or the program ended."""
        return self._pipe.read(size) or b""

    def failure(self) -> str | None:
        """Why the program ended, None when it did so at the end of its source."""
        return self.child.why() if self.child.wait() else None

    def close(self) -> None:
        """End the program."""
        self.child.close()
        super().close()
