"""Understand spoken digits while they are spoken: from a microphone, or a file played in real time.

    python audio/examples/live_digits.py recording.wav
    python audio/examples/live_digits.py --device default --format alsa

Prints what is understood so far whenever that changes, with the delay of a word behind its end in the stream. A file is
read no faster than it plays, unless `--fast` is given.
"""

from __future__ import annotations

import argparse
import sys
import time

from flambeau.audio.io import StreamReader
from flambeau.audio.models.digit_recognizer import digit_recognizer
from flambeau.audio.recognition import Recognizer
from flambeau.audio.weights.digit_recognizer import Digit_Recognizer_Weights

RATE = 16_000
CHUNK = RATE // 10


def main() -> None:
    """Listen until the stream ends or the user interrupts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", help="a recording; left out, a device is listened to")
    parser.add_argument("--device", default="default", help="name of the input device")
    parser.add_argument("--format", default="alsa", help="kind of input device: alsa, pulse, avfoundation, dshow")
    parser.add_argument("--fast", action="store_true", help="read a file as fast as it goes")
    arguments = parser.parse_args()

    weights = Digit_Recognizer_Weights.DEFAULT
    recognizer = Recognizer(digit_recognizer(weights=weights), weights.transforms(), weights.meta["tokens"])
    reader = StreamReader(arguments.file) if arguments.file else StreamReader(arguments.device, arguments.format)
    reader.add_basic_audio_stream(CHUNK, sample_rate=RATE, num_channels=1, format="fltp")
    begin, heard, shown = time.monotonic(), 0, []
    with recognizer.stream() as stream:
        try:
            for (chunk,) in reader.stream():
                heard += len(chunk)
                if arguments.file and not arguments.fast:
                    time.sleep(max(0.0, begin + heard / RATE - time.monotonic()))
                shown = _show(stream.accept(chunk[:, 0]), shown, heard)
        except KeyboardInterrupt:
            print(file=sys.stderr)
        _show(stream.finish(), shown, heard)


def _show(words: list[str], shown: list[str], heard: int) -> list[str]:
    if words != shown:
        print(f"{heard / RATE:7.2f} s  {' '.join(words)}", flush=True)
    return words


if __name__ == "__main__":
    main()
