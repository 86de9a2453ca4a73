"""Read mutated video files, in a process that may crash without hurting anyone.

    python fuzz_videos.py FIRST COUNT

Reading must give frames or a `VideoError`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import mutations  # first: makes `clips` importable
from clips import clip

from flambeau.vision.io import VideoDecoder, VideoError, VideoReader, read_video

MEMORY = 4 * 2**30


def seeds() -> list[bytes]:
    small = {"count": 8, "size": (32, 32)}
    return [
        clip(**small, audio=1),
        clip(**small, container="mkv", audio=1),
        clip(**small, container="avi", codec="mpeg4", options={"g": "4"}),
        clip(**small, container="ts"),
        clip(**small, container="mkv", codec="ffv1", options={}),
        clip(**small, container="flv", codec="flv1", options={}),
    ]


def make(draw: random.Random) -> tuple[bytes, str]:
    return mutations.mutate(draw.choice(FILES), draw), draw.choice(["video", "video", "audio"])


def read(content: bytes, stream: str) -> bool:
    """Use a file in every way; tells whether all went well."""
    try:
        reader = VideoReader(content, stream, num_threads=1)
        reader.get_metadata()
        for _ in zip(reader, range(100), strict=False):
            pass
        next(reader.seek(0.35), None)
        next(reader.seek(0.2, keyframes_only=True), None)
        if stream == "video":
            decoder = VideoDecoder(content, num_threads=1)
            for number in (len(decoder) - 1, 0, len(decoder) // 2):
                if 0 <= number < len(decoder):
                    decoder[number]
            PATH.write_bytes(content)
            read_video(PATH, pts_unit="sec")
            read_video(PATH, 0.25, 0.6, pts_unit="sec")
    except VideoError:
        return False
    return True


FILES = seeds()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PATH = Path(folder, "mutated")
        assert all(read(content, "video") for content in FILES), "a seed cannot be read"
        mutations.limit_memory(MEMORY)
        sys.exit(mutations.read_all(make, read))
