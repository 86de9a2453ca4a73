"""Read mutated video files until all are read, in a process that may crash without hurting anyone.

    python fuzz_videos.py COUNT SCRATCH_FILE

Each file is a clip with bytes changed, cut out, repeated or cut off. Reading it must give frames or a `VideoError`;
memory is limited by the operating system, so that an allocation without bound ends the process.
"""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

from clips import clip

from flambeau.vision.io import VideoDecoder, VideoError, VideoReader, read_video

PATH = Path(sys.argv[2])
MEMORY = 6 * 2**30
SECONDS = 20  # CPU time of one file; a clip of this size takes some milliseconds


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


def mutate(content: bytes, draw: random.Random) -> bytes:
    mutated = bytearray(content)
    for _ in range(draw.choice([1, 2, 5, 20])):
        at = draw.randrange(len(mutated))
        kind = draw.randrange(6)
        if kind == 0:
            mutated[at] = draw.randrange(256)
        elif kind == 1:
            mutated[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            mutated[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
        elif kind == 3:
            del mutated[at : at + draw.randrange(1, 64)]
        elif kind == 4:
            mutated[at:at] = mutated[at : at + draw.randrange(1, 64)]
        elif draw.random() < 0.3:
            del mutated[at:]
        if len(mutated) < 8:
            break
    return bytes(mutated)


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


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files = seeds()
    assert all(read(content, "video") for content in files), "a seed cannot be read"
    sound = 0
    for number in range(int(sys.argv[1])):
        draw = random.Random(number)
        content = mutate(draw.choice(files), draw)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        print(f"file {number}", file=sys.stderr, flush=True)
        sound += read(content, draw.choice(["video", "video", "audio"]))
    print(sound)
    return 0


if __name__ == "__main__":
    sys.exit(main())
